"""Cite spans of ranked chunks."""

from rag_pipeline.datamodels import Citation, ScoredChunk, Span


def cite(
    number: int, chunk: ScoredChunk, span: Span | None = None, *, supports: bool = True
) -> Citation:
    """Return a citation of a chunk, or of a span of its text."""
    start, end = span or (0, len(chunk.text))
    return Citation(
        number=number,
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        start=chunk.start + start,
        end=chunk.start + end if span else chunk.end,
        text=chunk.text[start:end],
        supports=supports,
    )
