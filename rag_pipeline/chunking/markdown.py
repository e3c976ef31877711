"""Cut Markdown into sections, each with its heading."""

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
"""Matches the line endings of CommonMark. The parser's line numbers count these."""


class MarkdownChunking(SizedChunking):
    """Chunking of Markdown by sections. Sections over the maximum size are split."""

    method: Literal["markdown"]
    max_characters: int | None = Field(default=1000, ge=32)

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Return the sections of a document, each cut to the maximum size."""
        return markdown_spans(document.text, self.limit(document.text, models))


def markdown_spans(text: str, limit: Limit) -> list[Span]:
    """Return the sections of a text.

    Cut sections over the limit by `recursive_spans`. Headings in quotes, lists and code do not
    count. A section without text is joined with the next section. The heading of a cut section
    stays with the text below it if the heading has at most half of the maximum size.
    """
    return [
        span
        for start, body, end in _sections(text)
        for span in recursive_spans(
            text, limit, start, end, glued=body if limit.fits(start, body, 0.5) else 0
        )
    ]


def _sections(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield each section's start, the start of the text below its heading, and its end."""
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
    with collection_paused():  # makes the time linear
        return _parser().parse(text)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Inline rules take most of the time, and chunking needs only the block structure.
    return MarkdownIt("commonmark").disable(["inline", "reference"])
