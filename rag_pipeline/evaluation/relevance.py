"""Find the chunks that answer each query by its gold spans."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rag_pipeline.chunking.spans import SpanLike, answers
from rag_pipeline.datamodels import GoldSpan, Query

_BATCH_ROWS = 1 << 16


def relevance_labels(ranked: Sequence[SpanLike], gold_spans: Iterable[SpanLike]) -> list[bool]:
    """Return for each chunk whether it answers any of the gold spans."""
    spans = list(gold_spans)
    return [any(answers(chunk, gold) for gold in spans) for chunk in ranked]


def gold_labels(query: Query, chunks: Sequence[SpanLike]) -> list[bool]:
    """Return for each chunk whether it answers the query by gold.

    If the query has no gold spans, all chunks of its gold documents answer.
    """
    if query.gold_spans:
        return relevance_labels(chunks, query.gold_spans)
    return [chunk.document_id in query.gold_documents for chunk in chunks]


class Relevant(NamedTuple):
    """The chunks that answer one query. `lost` counts the gold spans that no chunk answers."""

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

    `chunks` has the columns chunk_id, document_id, start and end, with rows in any order. The
    function reads batches once, and does not keep them.
    """
    relevant: dict[str, set[str]] = {}
    lost: dict[tuple[str, GoldSpan], None] = {}
    gold: defaultdict[str, list[tuple[str, GoldSpan]]] = defaultdict(list)
    for query in queries:
        relevant[query.query_id] = set()
        for span in dict.fromkeys(query.gold_spans):
            if span.end > span.start:
                gold[span.document_id].append((query.query_id, span))
                lost[query.query_id, span] = None
    if isinstance(chunks, pa.Table):
        chunks = chunks.to_batches(max_chunksize=_BATCH_ROWS)
    for batch in chunks if gold else ():
        for document_id, starts, ends, chunk_ids in _by_document(batch, list(gold)):
            for query_id, span in gold[document_id]:
                shared = np.minimum(ends, span.end) - np.maximum(starts, span.start)
                shorter = np.minimum(ends - starts, span.end - span.start)
                hits = np.flatnonzero((shared > 0) & (2 * shared >= shorter))
                if len(hits):
                    relevant[query_id].update(chunk_ids[hits])
                    lost.pop((query_id, span), None)
    number = Counter(query_id for query_id, _ in lost)
    return {q: Relevant(frozenset(own), number[q]) for q, own in relevant.items()}


def _by_document(
    batch: pa.RecordBatch, document_ids: Sequence[str]
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield the id of each given document, and the starts, ends and ids of its chunks."""
    import pyarrow.compute as pc

    wanted = pa.array(document_ids, pa.string())
    batch = batch.filter(pc.is_in(batch.column("document_id"), value_set=wanted))
    documents = batch.column("document_id").dictionary_encode()
    code = documents.indices.to_numpy()
    rows_of = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))[:-1])
    columns = [
        batch.column(name).to_numpy(zero_copy_only=False) for name in ("start", "end", "chunk_id")
    ]
    for document_id, rows in zip(documents.dictionary.to_pylist(), rows_of, strict=False):
        yield document_id, *(column[rows] for column in columns)
