"""Markdown -> one span per section, its heading included."""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from rag_pipeline.chunking.recursive import recursive_spans
from rag_pipeline.chunking.sizes import Limit, SizedChunking
from rag_pipeline.chunking.spans import trim
from rag_pipeline.config.chunkings import Models
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.memory import collection_paused

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n?|\n")
"""The line ends of CommonMark, which the parser's line numbers count."""


class MarkdownChunking(SizedChunking):
    """One chunk per heading's section, sections over the size split further."""

    method: Literal["markdown"]
    max_characters: int | None = Field(default=1000, ge=32)

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Cut a document into its sections."""
        return markdown_spans(document.text, self.limit(document.text, models))


def markdown_spans(text: str, largest: int | Limit) -> list[Span]:
    """Return the sections of a text; those over `largest` characters are cut as `recursive` does.

    Headings are CommonMark's, `#` or underlined, outside quotes, lists and code. A heading with
    nothing under it goes with the section that follows, and when a section is cut its heading
    stays with the text under it.
    """
    limit = Limit(largest) if isinstance(largest, int) else largest
    return [
        span
        for start, body, end in _sections(text)
        for span in recursive_spans(
            text, limit, start, end, glued=body if limit.fits(start, body, 0.5) else 0
        )
    ]


def _sections(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield start, start of the text under the heading, and end of each section."""
    start = body = 0
    for heading, below in _headings(text):
        if text[body:heading].strip():
            yield start, trim(text, body, heading)[0], heading
            start = heading
        body = below
    yield start, trim(text, body, len(text))[0], len(text)


def _headings(text: str) -> Iterator[Span]:
    lines = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text)]
    for token in _tokens(text):
        if token.type == "heading_open" and token.level == 0 and token.map:
            yield lines[token.map[0]], lines[min(token.map[1], len(lines) - 1)]


def _tokens(text: str) -> "list[Token]":
    with collection_paused():  # else the time grows faster than the text
        return _parser().parse(text)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Block structure is all that is needed; inline rules are where the time goes.
    return MarkdownIt("commonmark").disable(["inline", "reference"])
