"""Cut text at its largest separators into pieces of a maximum size.

The method follows LangChain's RecursiveCharacterTextSplitter, without overlap. Text over the
maximum size is cut at blank lines. Pieces that are still too large are cut at line ends, then at
sentence ends, words and characters. Neighbouring pieces of one cut are joined while they fit.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from rag_pipeline.chunking.sentences import (
    follows_heading,
    pieces_between,
    sentence_ends,
    sentence_spans,
    whole_lines,
)
from rag_pipeline.chunking.sizes import Limit, SizedChunking
from rag_pipeline.config.chunkings import Models
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.loading.code import Symbol

_NEWLINE = r"(?>\r\n|\r|\n)"
_PARAGRAPH = re.compile(rf"{_NEWLINE}[^\S\r\n]*{_NEWLINE}\s*|[\f\u2029]\s*")
_LINE = re.compile(r"[\r\n\v\x1c-\x1e\x85\u2028]\s*")
_WORD = re.compile(r"\s+")

Cuts = Callable[[str, int, int], Iterator[int]]
"""A function that yields ascending cut offsets inside `text[start:end]`."""


class RecursiveChunking(SizedChunking):
    """Chunking at the largest separators that keep pieces within the maximum size."""

    method: Literal["recursive"]

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Return the pieces of a document."""
        return recursive_spans(document.text, self.limit(document.text, models))


def _after(pattern: re.Pattern[str]) -> Cuts:
    return lambda text, start, end: (match.end() for match in pattern.finditer(text, start, end))


_AFTER_LINES = (_after(_PARAGRAPH), _after(_LINE))
_AFTER_WORDS = _after(_WORD)
_LEVELS: tuple[Cuts, ...] = (*_AFTER_LINES, sentence_ends, _AFTER_WORDS)


def recursive_spans(
    text: str,
    limit: Limit,
    start: int = 0,
    end: int | None = None,
    glued: int = 0,
    levels: Sequence[Cuts] = _LEVELS,
) -> list[Span]:
    """Return the pieces of `text[start:end]` within the limit, in linear time.

    A piece over the limit is cut at the first separator of `levels`. Parts over the limit are cut
    at the next separator. Separators up to the offset `glued` are ignored.
    """
    spans = pieces_between(text, start, len(text) if end is None else end, ())
    return [piece for span in spans for piece in _split(text, span, limit, glued, levels)]


def sentences_within(text: str, limit: Limit) -> list[Span]:
    """Return the sentences of a text. Cut sentences over the limit by `recursive_spans`.

    If the limit has tokens, each table row and each line of fenced code counts as a sentence.
    """
    sentences = whole_lines(text) if limit.tokens is not None else sentence_spans(text)
    return [piece for start, end in sentences for piece in recursive_spans(text, limit, start, end)]


def _split(
    text: str, span: Span, limit: Limit, glued: int, levels: Sequence[Cuts]
) -> Iterator[Span]:
    start, end = span
    if limit.fits(start, end):
        yield span
        return
    if not levels:
        yield from pieces_between(text, start, end, limit.cuts(start, end))
        return
    cuts = (cut for cut in levels[0](text, start, end) if cut > glued)
    if limit.tokens is not None and levels[0] in _AFTER_LINES:
        cuts = (cut for cut in cuts if not follows_heading(text, start, cut))
    merged: Span | None = None
    for piece in pieces_between(text, start, end, cuts):
        if merged and limit.fits(merged[0], piece[1]):
            merged = merged[0], piece[1]
            continue
        if merged:
            yield merged
            merged = None
        if limit.fits(*piece):
            merged = piece
        else:
            yield from _split(text, piece, limit, glued, levels[1:])
    if merged:
        yield merged


def code_spans(text: str, symbols: Sequence[Symbol], limit: Limit) -> list[Span]:
    """Cut source code into chunks of whole functions and types.

    A chunk holds as many neighbouring definitions as fit the limit. A definition over the limit is
    cut between its inner definitions, then at blank lines, line ends and words. `symbols` must be
    in the order of the text, with outer definitions before inner definitions.
    """
    edges: list[list[int]] = []
    ends: list[int] = []
    for symbol in symbols:
        while ends and ends[-1] <= symbol.start:
            ends.pop()
        if len(edges) == len(ends):
            edges.append([])
        edges[len(ends)] += [symbol.start, symbol.end]
        ends.append(symbol.end)
    levels = (_at(sorted(set(depth))) for depth in edges)
    # Source code has no sentences.
    return recursive_spans(text, limit, levels=(*levels, *_AFTER_LINES, _AFTER_WORDS))


def _at(offsets: Sequence[int]) -> Cuts:
    def cuts(text: str, start: int, end: int) -> Iterator[int]:
        yield from offsets[bisect_right(offsets, start) : bisect_left(offsets, end)]

    return cuts
