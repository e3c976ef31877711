"""Text -> sentences that keep lines of tables and code whole, and a heading with its text."""

import re
from collections.abc import Sequence

from rag_pipeline.chunking.sentences import sentence_spans, trim
from rag_pipeline.datamodels import Span

_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")
_HEADING = re.compile(r"#{1,6}[ \t]+\S[^\n]*")


def whole_lines(text: str) -> list[Span]:
    """Return the sentences of a text; a table's row and a line of fenced code are whole.

    A heading is joined with the sentence after it. Linear in the text.
    """
    spans: list[Span] = []
    begin = at = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        inside = bool(fence)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        if inside or mark or _ROW.match(line):
            spans += _sentences(text, begin, at)
            span = trim(text, at, at + len(line))
            spans += [span] if span[0] < span[1] else []
            begin = at + len(line)
        at += len(line)
    return _with_headings(text, spans + _sentences(text, begin, len(text)))


def _sentences(text: str, start: int, end: int) -> list[Span]:
    return [(start + s, start + e) for s, e in sentence_spans(text[start:end])]


def _with_headings(text: str, spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    begin: int | None = None
    for number, (start, end) in enumerate(spans):
        begin = start if begin is None else begin
        if number < len(spans) - 1 and _HEADING.fullmatch(text, start, end):
            continue
        joined.append((begin, end))
        begin = None
    return joined


def follows_heading(text: str, start: int, cut: int) -> bool:
    """Return whether the last line of `text[start:cut]` is a heading."""
    end = cut
    while end > start and text[end - 1].isspace():
        end -= 1
    line = max(text.rfind("\n", start, end) + 1, start)
    return _HEADING.fullmatch(text, line, end) is not None
