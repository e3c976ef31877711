"""Gold spans -> relevance: which chunks of a chunking answer which query."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rag_pipeline.datamodels import Query

# Documents lie on one axis, each in a stretch longer than any text. One sorted search then finds
# the neighbours of a gold span in its own document.
_STRETCH = 1 << 40
_BATCH_ROWS = 1 << 16


class SpanLike(Protocol):
    """A half-open range of a document's text in code points: a gold span or a chunk."""

    @property
    def document_id(self) -> str: ...  # noqa: D102

    @property
    def start(self) -> int: ...  # noqa: D102

    @property
    def end(self) -> int: ...  # noqa: D102


def answers(chunk: SpanLike, gold: SpanLike) -> bool:
    """Return whether a chunk answers a gold span (judge `gold`).

    Both must lie in one document and share at least half of the shorter one. An empty span never
    answers.
    """
    if chunk.document_id != gold.document_id:
        return False
    shared = min(chunk.end, gold.end) - max(chunk.start, gold.start)
    return shared > 0 and 2 * shared >= min(chunk.end - chunk.start, gold.end - gold.start)


def relevance_labels(ranked: Sequence[SpanLike], gold_spans: Iterable[SpanLike]) -> list[bool]:
    """Return for each chunk, best first, whether it answers any of the gold spans."""
    spans = list(gold_spans)
    return [any(answers(chunk, gold) for gold in spans) for chunk in ranked]


@dataclass(frozen=True, slots=True)
class _Gold:
    """All gold spans on the axis; row i belongs to query `query_ids[i]`."""

    query_ids: list[str]
    documents: Any
    starts: Any
    ends: Any


class Relevant(NamedTuple):
    """The chunks of a chunking that answer one query."""

    chunk_ids: frozenset[str] = frozenset()
    lost: int = 0


def relevant_chunks(
    queries: Iterable[Query], chunks: pa.Table | Iterable[pa.RecordBatch]
) -> dict[str, frozenset[str]]:
    """Return the ids of all chunks that answer each query, by query id (see `judge_chunks`)."""
    return {query_id: found.chunk_ids for query_id, found in judge_chunks(queries, chunks).items()}


def judge_chunks(
    queries: Iterable[Query], chunks: pa.Table | Iterable[pa.RecordBatch]
) -> dict[str, Relevant]:
    """Return all chunks that answer each query (see `answers`), by query id.

    `chunks` has the columns chunk_id, document_id, start and end, rows in any order. Batches are
    read once and not kept.
    """
    queries = list(queries)
    relevant: dict[str, set[str]] = {query.query_id: set() for query in queries}
    gold = _lay_out(queries)
    answered: set[int] = set()
    if isinstance(chunks, pa.Table):
        chunks = chunks.to_batches(max_chunksize=_BATCH_ROWS)
    if gold.query_ids:
        for batch in chunks:
            for row, chunk_ids in _answering(gold, batch):
                answered.add(row)
                relevant[gold.query_ids[row]].update(chunk_ids)
    lost = Counter(q for row, q in enumerate(gold.query_ids) if row not in answered)
    return {q: Relevant(frozenset(chunk_ids), lost[q]) for q, chunk_ids in relevant.items()}


def _lay_out(queries: list[Query]) -> _Gold:
    rows = [
        (q.query_id, s) for q in queries for s in dict.fromkeys(q.gold_spans) if s.end > s.start
    ]
    documents = {span.document_id: None for _, span in rows}
    position = {document_id: index for index, document_id in enumerate(documents)}
    origins = np.array([position[span.document_id] for _, span in rows], np.int64) * _STRETCH
    return _Gold(
        query_ids=[query_id for query_id, _ in rows],
        documents=pa.array(list(documents), pa.string()),
        starts=origins + np.array([span.start for _, span in rows], np.int64),
        ends=origins + np.array([span.end for _, span in rows], np.int64),
    )


def _answering(gold: _Gold, batch: pa.RecordBatch) -> Iterator[tuple[int, list[str]]]:
    """Yield rows of `gold` with the ids of the chunks of the batch that answer them."""
    import pyarrow.compute as pc

    position = pc.index_in(batch.column("document_id"), value_set=gold.documents)
    of_gold = pc.indices_nonzero(position.is_valid())
    if not len(of_gold):
        return
    origins = position.take(of_gold).to_numpy().astype(np.int64) * _STRETCH
    starts = origins + batch.column("start").take(of_gold).to_numpy()
    ends = origins + batch.column("end").take(of_gold).to_numpy()
    order = np.argsort(starts, kind="stable")
    starts, ends, rows = starts[order], ends[order], of_gold.to_numpy()[order]

    # Chunks may overlap, so their ends are not sorted; the running maximum is.
    first = np.searchsorted(np.maximum.accumulate(ends), gold.starts, side="right")
    last = np.searchsorted(starts, gold.ends, side="left")
    chunk_ids = batch.column("chunk_id")
    for row in np.flatnonzero(first < last):
        near = slice(first[row], last[row])
        shared = np.minimum(ends[near], gold.ends[row]) - np.maximum(starts[near], gold.starts[row])
        shorter = np.minimum(ends[near] - starts[near], gold.ends[row] - gold.starts[row])
        hits = rows[near][(shared > 0) & (2 * shared >= shorter)]
        if len(hits):
            yield int(row), chunk_ids.take(pa.array(hits)).to_pylist()
