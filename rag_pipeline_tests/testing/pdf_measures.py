"""How near the text that was read is to the text that a PDF was made from."""

import re
from collections import Counter
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from rag_pipeline.loading.page_map import PageMap
from rag_pipeline_tests.testing.pdf_set import MadePdf

_MARKS = re.compile(r"^(#{1,6} |- |\|( --- \|)+$)|(?<!\\)\|", re.M)
_QUOTE = 80
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)


def plain(markdown: str) -> str:
    """Return Markdown without its marks, with single blanks."""
    return " ".join(_MARKS.sub(" ", markdown).split())


@dataclass(frozen=True)
class Measured:
    """Shares of the expected content that was read; None if the PDF has no such content."""

    characters: float
    headings: float | None = None
    cells: float | None = None
    furniture: float | None = None
    pages: float | None = None


def measure(made: MadePdf, markdown: str, page_map: bytes | None = None) -> Measured:
    """Measure one reading."""
    found = [heading.strip() for heading in _HEADING.findall(markdown)]
    return Measured(
        character_accuracy(made, markdown),
        _f1(made.headings, found) if made.headings else None,
        _cells(made, markdown) if made.cells else None,
        _removed(made, markdown) if made.furniture else None,
        _pages(made, markdown, PageMap.from_bytes(page_map)) if page_map is not None else None,
    )


def character_accuracy(made: MadePdf, markdown: str) -> float:
    """Return 1 less the edit distance over the length: order counts."""
    expected = " ".join(" ".join(text for _, text in made.texts).split())
    found = plain(markdown)
    distance = Levenshtein.distance(expected, found)
    return max(0.0, 1 - distance / len(expected))


def _f1(expected: list[str], found: list[str]) -> float:
    both = sum((Counter(expected) & Counter(found)).values())
    return 2 * both / (len(expected) + len(found))


def _cells(made: MadePdf, markdown: str) -> float:
    """Return the share of cells in the right row and column."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in markdown.split("\n")
        if line.startswith("|") and "---" not in line
    ]
    found = sum(
        cell == there
        for row, read in zip(made.cells, rows, strict=False)
        for cell, there in zip(row, read, strict=False)
    )
    return found / sum(map(len, made.cells))


def _removed(made: MadePdf, markdown: str) -> float:
    text = plain(markdown)
    kept = sum(" ".join(item.split()) in text for item in made.furniture)
    return 1 - kept / len(made.furniture)


def _pages(made: MadePdf, markdown: str, page_map: PageMap) -> float:
    """Return the share of texts whose first and last words were found on their pages."""
    right = total = 0
    start = 0
    for page, text in made.texts:
        place = markdown.find(text[:_QUOTE], start)
        if place < 0:
            continue
        total += 1
        right += page_map.page_at(place) == page
        start = place + 1
    return right / total if total else 0.0
