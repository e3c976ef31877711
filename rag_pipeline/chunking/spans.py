"""Decide whether a chunk overlaps a gold span enough to count as an answer."""

from rag_pipeline.datamodels import Chunk, GoldSpan, ScoredChunk

SpanLike = Chunk | GoldSpan | ScoredChunk
"""A half-open range of a document's text in code points."""


def answers(chunk: SpanLike, gold: SpanLike) -> bool:
    """Return whether a chunk overlaps a gold span enough to count as an answer.

    Both spans must be in one document and share at least half of the shorter span. Return False if
    a span is empty. The judge `gold` uses this rule.
    """
    if chunk.document_id != gold.document_id:
        return False
    shared = min(chunk.end, gold.end) - max(chunk.start, gold.start)
    return shared > 0 and 2 * shared >= min(chunk.end - chunk.start, gold.end - gold.start)
