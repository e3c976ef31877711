"""Text -> pieces of a maximum size, cut at the largest separator that is there.

The idea of LangChain's RecursiveCharacterTextSplitter without overlap, on spans: whatever is too
long is cut at blank lines, what is still too long at line ends, then sentence ends, words and
characters; neighbours of one such cut are put together again while they fit.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from rag_pipeline.chunking.lines import follows_heading
from rag_pipeline.chunking.sentences import sentence_ends
from rag_pipeline.chunking.sizes import Limit, SizedChunking
from rag_pipeline.chunking.spans import pieces_between
from rag_pipeline.config.chunkings import Models
from rag_pipeline.datamodels import Document, Span

_NEWLINE = r"(?>\r\n|\r|\n)"
_PARAGRAPH = re.compile(rf"{_NEWLINE}[^\S\r\n]*{_NEWLINE}\s*|[\f\u2029]\s*")
_LINE = re.compile(r"[\r\n\v\x1c-\x1e\x85\u2028]\s*")
_WORD = re.compile(r"\s+")

Cuts = Callable[[str, int, int], Iterator[int]]
"""A text and a span of it -> offsets inside, ascending."""


class RecursiveChunking(SizedChunking):
    """Split at the largest separator that keeps pieces within the size."""

    method: Literal["recursive"]

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Cut a document at its largest separators."""
        return recursive_spans(document.text, self.limit(document.text, models))


def _after(pattern: re.Pattern[str]) -> Cuts:
    return lambda text, start, end: (match.end() for match in pattern.finditer(text, start, end))


_LEVELS: tuple[Cuts, ...] = (_after(_PARAGRAPH), _after(_LINE), sentence_ends, _after(_WORD))
_AFTER_LINES = _LEVELS[:2]
CODE_LEVELS: tuple[Cuts, ...] = (_after(_PARAGRAPH), _after(_LINE), _after(_WORD))
"""Those of source code, where a line that begins with `#` is no heading."""


def recursive_spans(
    text: str,
    largest: int | Limit,
    start: int = 0,
    end: int | None = None,
    glued: int = 0,
    levels: Sequence[Cuts] = _LEVELS,
) -> list[Span]:
    """Return pieces of `text[start:end]` of at most `largest` characters; linear in the text.

    No cut is made up to offset `glued`, unless in the middle of a word that is too long. What
    does not fit is cut at the first of `levels`, its pieces that do not fit at the next.
    """
    spans = pieces_between(text, start, len(text) if end is None else end, ())
    limit = Limit(largest) if isinstance(largest, int) else largest
    return [piece for span in spans for piece in _split(text, span, limit, glued, levels)]


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
