"""Turn gold spans into relevance judgements: which chunks of a chunking answer which query."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rag_pipeline.datamodels import Query

# Documents are laid out on one axis, each in a stretch longer than any text, so that one sorted
# search finds the neighbours of a gold span in its own document.
_STRETCH = 1 << 40
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class _Gold:
    """All gold spans, laid out on the axis; row i belongs to query `query_ids[i]`."""

    query_ids: list[str]
    documents: Any
    starts: Any
    ends: Any


class Relevant(NamedTuple):
    """The chunks of a chunking that answer one query."""

    chunk_ids: frozenset[str] = frozenset()
    lost: int = 0
    """Number of gold spans that no chunk answers: the chunking cuts them up or leaves them out."""


def relevant_chunks(
    queries: Iterable[Query], chunks: pa.Table | Iterable[pa.RecordBatch]
) -> dict[str, frozenset[str]]:
    """Return the ids of all chunks that answer each query, by query id (see `judge_chunks`)."""
    return {query_id: found.chunk_ids for query_id, found in judge_chunks(queries, chunks).items()}


def judge_chunks(
    queries: Iterable[Query], chunks: pa.Table | Iterable[pa.RecordBatch]
) -> dict[str, Relevant]:
    """Return all chunks that answer each query (see `answers`) and what is lost, by query id.

    `chunks` has the columns chunk_id, document_id, start and end, in any order of rows; other
    columns are ignored. Batches are read once and not kept: memory is bounded by the batch and the
    result. A query that no chunk answers, or without gold spans, gets an empty set.
    """
    queries = list(queries)
    relevant: dict[str, set[str]] = {query.query_id: set() for query in queries}
    gold = _lay_out(queries)
    answered: set[int] = set()
    if gold.query_ids:
        for batch in _batches(chunks):
            for row, chunk_ids in _answering(gold, batch):
                answered.add(row)
                relevant[gold.query_ids[row]].update(chunk_ids)
    lost = Counter(q for row, q in enumerate(gold.query_ids) if row not in answered)
    return {q: Relevant(frozenset(chunk_ids), lost[q]) for q, chunk_ids in relevant.items()}


def _batches(chunks: pa.Table | Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return chunks.to_batches(max_chunksize=_BATCH_ROWS) if isinstance(chunks, pa.Table) else chunks


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

    # Chunks may overlap and differ in length, so ends are not sorted; their running maximum is.
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
