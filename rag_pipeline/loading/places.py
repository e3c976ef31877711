"""Find the place of a span in the original file: page, section, sheet and row, or slide."""

import json
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.utils import parseaddr
from itertools import takewhile
from operator import itemgetter
from typing import Any

from rag_pipeline.datamodels import Document
from rag_pipeline.loading.code import CODE_SUFFIXES, symbol_at, symbols_of
from rag_pipeline.loading.page_map import Box, PageMap
from rag_pipeline.loading.text import heading_paths, one_line

_SHEET = re.compile(r"^## (.*)$", re.M)
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},]')
_QUOTED = re.compile(r'"(?:[^"]|"")*"?')
_OFFICE = "application/vnd.openxmlformats-officedocument."
_FLOWING = ("text/html", f"{_OFFICE}wordprocessingml.document")
_WHOLE = "the whole file"
_NUMBERED = re.compile(r"(.*(?:^| )(?:row|line|slide|cell|paragraph)) ([\d,]+)")
_LAST_HEADINGS = re.compile(r"(?:\n#{1,6} [^\n]*\s*)+\Z")
_RULE_BELOW = re.compile(r" *\|?\n\|(?: *:?-+:? *\|)+")
_MAILS = ("message/rfc822", "application/vnd.ms-outlook")
_FIRST_PERSON = re.compile(
    r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur|[Ii]ch|[Mm]eine?[mnrs]?|[Ww]ir|[Uu]nser\w*|[Jj]e|[Jj]['’]|[Mm](?:on|es)|"
    r"[Nn]ous|[Nn]otre|[Yy]o|[Mm]is?|[Nn]uestr\w+)\b"
)
_QUOTED_LINE = re.compile(r"^\s*>.*", re.M)
_EARLIER = re.compile(
    r"^(?:[*_]*(?:From|Von|De)[*_\s]*:|-{5,} ?\w|"
    r".*(?:wrote|schrieb|écrit|escribió)[^\n:]{,80}:\s*+(?!>))",
    re.M,
)
"""Matches the line above a forwarded or answered mail whose lines do not begin with `>`."""
_LONGEST_HEADING = 60
_MAX_DEPTH = 2


@dataclass(frozen=True, slots=True)
class Place:
    """The place where a span begins in the original file. `label` describes the whole span's place.

    Pages, slides, rows, notebook cells and lines count from 1. `section` is the path of headings,
    or the function or type in source code. `pointer` is a JSON Pointer (RFC 6901). `boxes` are the
    areas of the span on its pages. A field is empty if the format lacks it.
    """

    label: str
    page: int | None = None
    section: str = ""
    sheet: str = ""
    row: int | None = None
    slide: int | None = None
    pointer: str = ""
    line: int | None = None
    cell: int | None = None
    boxes: tuple[Box, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the non-empty fields as JSON values."""
        # `asdict` would copy each box, and take a tenth of a search's processor time.
        fields = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in fields if value not in (None, "", ())}


def place_of(document: Document, start: int, end: int) -> Place:
    """Return the place of a span in a document's file.

    The label of a span across several rows, sections or other places has the first and the last
    place. A heading at the span's end, without text below, does not count. The label of a span of
    a mail in the first person ends with the sender, unless an earlier mail in it has these words.
    """
    found = document.text[start:end]
    is_plain = document.media_type in ("text/plain", *CODE_SUFFIXES.values())
    told = found if is_plain else _LAST_HEADINGS.sub("", found)
    end -= len(found) - len(told.rstrip() or found)
    start = min(start + len(found) - len(found.lstrip()), end)
    is_head = "\n" not in told.strip() and _RULE_BELOW.match(document.text, end)
    named = " (column names)" if is_head else ""
    if document.page_map is not None:
        placed = PageMap.from_bytes(document.page_map)
        pages, boxes = placed.pages(start, end), placed.areas(start, end)
        label = f"{_pages(pages)}{named}"
        return Place(label, pages[0], _section(document, start), boxes=boxes)
    if document.media_type in _MAILS and (sender := str(document.metadata.get("from", ""))):
        earlier = _EARLIER.search(document.text, 1, end)
        line = document.text[document.text.rfind("\n", 0, start) + 1 : start + 1]
        own = document.text[start : earlier.start() if earlier else end]
        own = _QUOTED_LINE.sub("", f">{own}" if line.lstrip().startswith(">") else own)
        is_own = _FIRST_PERSON.search(own)
        named = f", by {parseaddr(sender)[0] or sender}" if is_own else ""
    first = _place_at(document, start)
    last = _place_at(document, max(end - 1, start)).label
    label = first.label if last == first.label else _range(first.label, last)
    return replace(first, label=f"{label}{named}")


def _range(first: str, last: str) -> str:
    """Return "rows 1 to 3" for the labels "row 1" and "row 3", or both labels."""
    if first == _WHOLE or (first.startswith("/") and last.startswith(first)):  # of a JSON value
        return first
    one, other = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(last)
    if one and other and one[1] == other[1]:
        return f"{one[1]}s {one[2]} to {other[2]}"
    head, joint, _ = first.rpartition(" › ")
    return f"{first} to {last.removeprefix(head + joint or 'section ')}"


def _place_at(document: Document, start: int) -> Place:
    text, kind = document.text, document.media_type
    if "slides" in document.metadata and kind == f"{_OFFICE}presentationml.presentation":
        slide = bisect_right(json.loads(str(document.metadata["slides"])), start)
        return Place(f"slide {slide:,}", slide=slide)
    if kind == f"{_OFFICE}spreadsheetml.sheet":
        return _in_sheet(document, start)
    if kind == "application/x-ipynb+json" and "cells" in document.metadata:
        cell = bisect_right(json.loads(str(document.metadata["cells"])), start)
        return Place(f"cell {cell:,}", cell=cell, section=_section(document, start))
    if kind in ("text/csv", "text/tab-separated-values"):
        row = _row(text, start)
        return Place(f"row {row:,}", row=row, line=_line(text, start))
    if kind == "application/json":
        pointer = _json_pointer(text, start)
        return Place(pointer or _WHOLE, pointer=pointer)
    if kind in CODE_SUFFIXES.values():
        name, at = symbol_at(symbols_of(document), start), _line(text, start)
        return Place(", ".join(filter(None, (name, f"line {at:,}"))), section=name, line=at)
    if section := _section(document, start):
        line = None if kind in _FLOWING else _line(text, start)
        return Place(f"section {section}", section=section, line=line)
    return _by_line(document, start)


def _by_line(document: Document, start: int) -> Place:
    if document.media_type.startswith("text/") and document.media_type not in _FLOWING:
        line = _line(document.text, start)
        return Place(f"line {line:,}", line=line)
    # The file does not show the text's lines, so count paragraphs.
    return Place(f"paragraph {document.text.count(chr(10) * 2, 0, start) + 1:,}")


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _pages(pages: tuple[int, ...]) -> str:
    if len(pages) == 1:
        return f"page {pages[0]}"
    if pages[-1] - pages[0] == len(pages) - 1:
        return f"pages {pages[0]} to {pages[-1]}"
    return f"pages {', '.join(map(str, pages))}"


def _last(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    before = takewhile(lambda found: found.start() <= start, pattern.finditer(text))
    return next(iter(deque(before, maxlen=1)), None)


def _section(document: Document, start: int) -> str:
    """Return the last two headings above an offset, without the title if there are others."""
    if document.media_type == "text/plain":
        return ""
    paths = heading_paths(document.text)
    above = bisect_right(paths, start, key=itemgetter(0))
    path = paths[above - 1][1] if above else ()
    names = [one_line(re.sub(r"[*`]+", "", heading)) for heading in path]
    if len(names) > 1 and names[0] == document.title:
        names = names[1:]
    short = (n if len(n) <= _LONGEST_HEADING else f"{n[: _LONGEST_HEADING - 1]}…" for n in names)
    return " › ".join(list(short)[-_MAX_DEPTH:])


def _in_sheet(document: Document, start: int) -> Place:
    sheet = _last(_SHEET, document.text, start)
    if sheet is None:
        return _by_line(document, start)
    rows = document.text.count("\n|", sheet.end(), start + 1)
    if not rows:  # text above the table
        return Place(f"sheet {sheet[1]}, row 1", sheet=sheet[1], row=1)
    row = max(rows - 1, 1)  # the second line is Markdown's separator
    skipped = json.loads(str(document.metadata.get("blank_rows", "{}"))).get(sheet[1], ())
    for first, count in skipped:
        if first <= row:
            row += count
    return Place(f"sheet {sheet[1]}, row {row:,}", sheet=sheet[1], row=row)


def _row(text: str, start: int) -> int:
    """Return the number of the CSV record at an offset. The header is record 1."""
    lines = _QUOTED.sub("", text[:start]).split("\n")
    return sum(1 for line in lines[:-1] if line.strip()) + 1


def _json_pointer(text: str, offset: int) -> str:
    path: list[int | str | None] = []
    for token in _tokens(text, offset):
        if token == "{":
            path.append(None)
        elif token == "[":
            path.append(0)
        elif token in "}]":
            path.pop()
        elif token == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif path and path[-1] is None:
            path[-1] = str(json.loads(token))
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path if step is not None)
    return "".join(f"/{step}" for step in steps)


def _tokens(text: str, offset: int) -> Iterator[str]:
    """Yield the JSON strings and punctuation before an offset, and a string, `{` or `[` at it."""
    for token in _JSON.finditer(text):
        if token.start() > offset or (token.start() == offset and token[0] in "}],"):
            return
        yield token[0]
