"""Read one page: its lines and tables in reading order."""

from dataclasses import dataclass, field
from typing import Any

from rag_pipeline.loading.page_map import Box
from rag_pipeline.loading.pdf.columns import read_columns, table_line
from rag_pipeline.loading.pdf.figures import TableCells
from rag_pipeline.loading.pdf.frame import around, turn_back
from rag_pipeline.loading.pdf.furniture import without_line_numbers
from rag_pipeline.loading.pdf.glyphs import PageGlyphs, Word, read_glyphs
from rag_pipeline.loading.pdf.lines import Line
from rag_pipeline.loading.pdf.tables import ruled_tables, tabulate

_HEAD = 0.45
_STAND_IN = "\ufffc"
_STAND_IN_SIZE = 8.0


@dataclass(slots=True)
class Page:
    """The lines of a page. `width` and `height` belong to the page turned for level text."""

    width: float
    height: float
    turned: int
    lines: list[Line] = field(default_factory=list)
    characters: int = 0
    unmapped: int = 0
    image_share: float = 0.0
    image_pixels: int = 0
    confidence: float | None = None
    """Mean confidence of the recognised characters; None if the page was not recognised."""

    @property
    def displayed(self) -> tuple[float, float]:
        """Return width and height of the displayed page, in points."""
        sides = self.width, self.height
        return sides if self.turned % 180 == 0 else sides[::-1]

    def box(self, line: Line, top: float, base: float) -> Box:
        """Return a line's box on the displayed page."""
        bottom = base + 0.25 * line.size
        width, height = self.displayed
        one = turn_back(line.x0, top, self.turned, width, height)
        two = turn_back(line.x1, bottom, self.turned, width, height)
        return Box(line.page + 1, *around(one, two))


def read_page(page: Any, number: int) -> Page:
    """Read a loaded page; `number` counts from 0."""
    return lay_out(read_glyphs(page), number)


def lay_out(glyphs: PageGlyphs, number: int) -> Page:
    """Arrange the words of a page in lines and tables, in reading order."""
    read = Page(glyphs.width, glyphs.height, glyphs.turned)
    read.characters, read.unmapped = glyphs.characters, glyphs.unmapped
    read.image_share, read.image_pixels = glyphs.image_share, glyphs.image_pixels
    words = without_line_numbers(_visible(glyphs))
    rest, tables = ruled_tables(words, glyphs.rules)
    for index, table in enumerate(tables):
        rest += _stand_ins(index, table)
    head = _HEAD * glyphs.height if number == 0 else 0
    read.lines = _with_tables(read_columns(rest, tabulate, head), tables)
    for line in read.lines:
        line.page = number
    return read


def _visible(glyphs: PageGlyphs) -> list[Word]:
    return [
        word
        for word in glyphs.words
        if word.x1 > -2 and word.x0 < glyphs.width + 2
        and -2 < word.base < glyphs.height + word.size and word.size >= 1
    ]  # fmt: skip


def _stand_ins(index: int, table: TableCells) -> list[Word]:
    words = [word for row in table[0] for word in row]
    x0, x1 = min(w.x0 for w in words), max(w.x1 for w in words)
    y, end = min(w.base for w in words), max(w.base for w in words)
    found = []
    while y <= end + 0.1:
        found.append(Word(f"{_STAND_IN}{index}", x0, x1, y, _STAND_IN_SIZE, False, False, False))
        y += _STAND_IN_SIZE
    return found


def _with_tables(lines: list[Line], tables: list[TableCells]) -> list[Line]:
    found: list[Line] = []
    placed: set[int] = set()
    for line in lines:
        if not line.text.startswith(_STAND_IN):
            found.append(line)
            continue
        for part in line.text.split(_STAND_IN)[1:]:
            digits = part.split()[0] if part.split() else ""
            if digits.isdigit() and int(digits) not in placed and int(digits) < len(tables):
                placed.add(int(digits))
                found.append(table_line(*tables[int(digits)], line.column))
    for index, table in enumerate(tables):
        if index not in placed:
            found.append(table_line(*table, -1 - index))
    return found
