"""Cite spans of ranked chunks."""

from rag_pipeline.datamodels import Citation, Document, ScoredChunk, Span


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


def in_document(chunk: ScoredChunk, document: Document, span: Span, number: int = 1) -> Citation:
    """Return a citation of a span of a chunk's document."""
    start, end = span
    text = document.text[start:end]
    return Citation(number, chunk.chunk_id, chunk.document_id, start, end, text)
