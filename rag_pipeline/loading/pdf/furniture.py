"""Remove headers, footers, page numbers and line numbers by their repetition and position."""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from rag_pipeline.loading.pdf.elements import Line, Word

_ZONE = 0.14
"""Share of a page's height, at the top and at the bottom, that may hold headers and footers."""
_EDGE_ROWS = 3
_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]+")
_PAGE_WORDS = re.compile(
    r"(?i)[\W_]*((page|seite|pagina|página|p\.|pg\.?)\s*)?(#|[ivxlc]+)"
    r"(\s*(of|von|de|di|sur|/)\s*#)?[\W_]*"
)
_SAME_HEIGHT = 5.0
_SMALL = 0.9
"""Maximum font size of a single page's footer, relative to the font size of the text."""
_ADJOINING = 1.6
"""Maximum distance between the lines of a footer, in font sizes."""
_APART = 2.0
"""Minimum distance between a footer and the text, in font sizes of the text."""
_MIN_LINE_NUMBERS = 8


def without_furniture(
    pages: Sequence[list[Line]], heights: Sequence[float], body: float
) -> list[list[Line]]:
    """Return the lines of each page, except headers, footers and page numbers.

    `heights` are the heights of the pages, and `body` is the usual font size, in PDF points.
    """
    edges = [_edges(lines, height) for lines, height in zip(pages, heights, strict=True)]
    furniture = _repeated(edges, len(pages)) | _numbered(edges, body)
    if len(pages) == 1:
        furniture |= _beside_number(edges[0], pages[0], body)
    dropped = {
        id(line)
        for number, found in enumerate(edges)
        for line, _ in found
        if (id(line) in furniture or _is_page_number(line, len(pages)))
        and not (number == 0 and line.size >= 1.25 * body and not _is_page_number(line, 2))
    }
    return [[line for line in lines if id(line) not in dropped] for lines in pages]


def without_line_numbers(words: list[Word]) -> list[Word]:
    """Return the words of a page, except line numbers in a margin."""
    digits = [word for word in words if word.text.isdigit() and len(word.text) <= 4]
    if len(digits) < _MIN_LINE_NUMBERS:
        return words
    others = [word for word in words if not word.text.isdigit()]
    if not others:
        return words
    left = sorted(word.x0 for word in others)[len(others) // 50]
    right = sorted(word.x1 for word in others)[-1 - len(others) // 50]
    outside: set[int] = set()
    for side in (
        [word for word in digits if word.x1 < left - 2],
        [word for word in digits if word.x0 > right + 2],
    ):
        side.sort(key=lambda word: word.base)
        values = [int(word.text) for word in side]
        steps = {b - a for a, b in pairwise(values)}
        if len(side) >= _MIN_LINE_NUMBERS and len(steps) == 1 and steps <= {1, 5}:
            outside |= {id(word) for word in side}
    return [word for word in words if id(word) not in outside] if outside else words


def _edges(lines: Sequence[Line], height: float) -> list[tuple[Line, bool]]:
    """Return the lines in a page's outermost rows, each with whether it is at the top."""
    plain = [line for line in lines if line.table is None]
    bases = sorted({round(line.base) for line in plain})
    top, bottom = set(bases[:_EDGE_ROWS]), set(bases[-_EDGE_ROWS:])
    found = []
    for line in plain:
        if line.base < _ZONE * height and round(line.base) in top:
            found.append((line, True))
        elif line.top > (1 - _ZONE) * height and round(line.base) in bottom:
            found.append((line, False))
    return found


def _key(text: str) -> str:
    key = _NUMBER.sub("#", text.strip().casefold())
    return "#" if _ROMAN.fullmatch(key) else key


def _repeated(edges: Sequence[list[tuple[Line, bool]]], count: int) -> set[int]:
    places: defaultdict[tuple[str, bool], list[tuple[int, Line]]] = defaultdict(list)
    for page, found in enumerate(edges):
        for line, at_top in found:
            places[_key(line.text), at_top].append((page, line))
    repeated: set[int] = set()
    for (key, _), lines in places.items():
        if key == "#" or not key:
            continue
        for page, line in lines:
            near = _other_pages_at_height(page, line, lines)
            if len(near) >= 2 or (near and (count <= 4 or min(abs(p - page) for p in near) <= 2)):
                repeated.add(id(line))
    return repeated


def _other_pages_at_height(page: int, line: Line, lines: Sequence[tuple[int, Line]]) -> set[int]:
    return {p for p, other in lines if abs(other.base - line.base) < _SAME_HEIGHT and p != page}


def _numbered(edges: Sequence[list[tuple[Line, bool]]], body: float) -> set[int]:
    """Return the `id`s of lines whose number grows with the page, and of the lines beside them."""
    offsets: defaultdict[tuple[int, bool], list[tuple[int, Line]]] = defaultdict(list)
    for page, found in enumerate(edges):
        for line, at_top in found:
            for part in {line.parts[0], line.parts[-1]} if line.parts else set():
                if (digits := _NUMBER.search(part)) and _PAGE_WORDS.fullmatch(_key(part)):
                    offsets[int(digits[0][:6]) - page, at_top].append((page, line))
    found_ids: set[int] = set()
    rows: set[tuple[int, int]] = set()
    for lines in offsets.values():
        for page, line in lines:
            if _other_pages_at_height(page, line, lines):
                found_ids.add(id(line))
                rows.add((page, round(line.base)))
    for page, found in enumerate(edges):
        for line, _ in found:
            beside = any((page, round(line.base) + step) in rows for step in (-1, 0, 1))
            if beside and line.size <= 1.05 * body:
                found_ids.add(id(line))
    return found_ids


def _beside_number(
    edge: Sequence[tuple[Line, bool]], lines: Sequence[Line], body: float
) -> set[int]:
    """Return the `id`s of small lines around a single page's number, apart from the text."""
    small = [line for line, _ in edge if line.size <= _SMALL * body and not line.text.endswith(".")]
    found = [line for line in small if any(map(_names_page, (line.text, *line.parts)))]
    for line in found:
        found += [
            other
            for other in small
            if other not in found and abs(other.base - line.base) <= _ADJOINING * line.size
        ]
    ids = {id(line) for line in found}
    distances = [abs(a.base - b.base) for a in found for b in lines if id(b) not in ids]
    return ids if distances and min(distances) >= _APART * body else set()


def _names_page(text: str) -> bool:
    """Return whether a text can number a single page: 1, or any number with a page word."""
    numbers = _NUMBER.findall(text)
    is_likely = bool(numbers) and (numbers[0] == "1" or any(map(str.isalpha, text)))
    return is_likely and _PAGE_WORDS.fullmatch(_key(text)) is not None


def _is_page_number(line: Line, count: int) -> bool:
    found = _PAGE_WORDS.fullmatch(_key(line.text)) is not None
    return found and (count > 1 or not line.text.strip().isalpha())
