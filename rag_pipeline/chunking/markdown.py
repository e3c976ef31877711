"""Markdown -> one span per section, its heading included."""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from rag_pipeline.chunking.recursive import recursive_spans
from rag_pipeline.chunking.sentences import trim
from rag_pipeline.chunking.sizes import Limit, SizedChunking
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


def markdown_spans(text: str, limit: Limit) -> list[Span]:
    """Return the sections of a text; sections over the limit are cut as by `recursive`.

    Headings are CommonMark's, `#` or underlined, outside quotes, lists and code. An empty section
    is joined with the next one. A cut section's heading stays with the text below it.
    """
    return [
        span
        for start, body, end in _sections(text)
        for span in recursive_spans(
            text, limit, start, end, glued=body if limit.fits(start, body, 0.5) else 0
        )
    ]


def _sections(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield each section's start, the start of its text below the heading, and its end."""
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

    # Inline rules take most of the time, and only block structure is needed.
    return MarkdownIt("commonmark").disable(["inline", "reference"])
