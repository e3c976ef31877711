"""Spans of a text: half-open `(start, end)` pairs of code points."""

from collections.abc import Iterable, Iterator

from rag_pipeline.datamodels import Span


def trim(text: str, start: int, end: int) -> Span:
    """Move both ends inwards over white space; the span is empty if there is nothing else."""
    piece = text[start:end]
    end = start + len(piece.rstrip())
    return end - len(piece[: end - start].lstrip()), end


def pieces_between(text: str, start: int, end: int, cuts: Iterable[int]) -> Iterator[Span]:
    """Yield the trimmed pieces of `text[start:end]` between ascending cuts, blank ones left out."""
    for cut in cuts:
        if start < cut < end:
            piece = trim(text, start, cut)
            if piece[0] < piece[1]:
                yield piece
            start = cut
    piece = trim(text, start, end)
    if piece[0] < piece[1]:
        yield piece
