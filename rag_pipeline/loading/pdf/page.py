"""Read the lines and tables of one page in reading order."""

from typing import Any

from rag_pipeline.loading.pdf.columns import read_columns, table_line
from rag_pipeline.loading.pdf.elements import Line, Page, Word
from rag_pipeline.loading.pdf.figures import TableCells
from rag_pipeline.loading.pdf.furniture import without_line_numbers
from rag_pipeline.loading.pdf.glyphs import read_glyphs
from rag_pipeline.loading.pdf.tables import ruled_tables

_HEAD = 0.45
_STAND_IN = "\ufffc"
_STAND_IN_SIZE = 8.0


def read_page(page: Any, number: int) -> Page:
    """Return the content of a loaded page in lines. `number` is the page's number, from 0."""
    return lay_out(read_glyphs(page), number)


def lay_out(page: Page, number: int) -> Page:
    """Arrange a page's words in lines and tables, in reading order. Then drop the single words."""
    rest, tables = ruled_tables(without_line_numbers(page.words), page.rules)
    for index, table in enumerate(tables):
        rest += _stand_ins(index, table)
    head = _HEAD * page.height if number == 0 else 0
    page.lines = _with_tables(read_columns(rest, head), tables)
    for line in page.lines:
        line.page = number
    page.words, page.rules = [], []
    return page


def _stand_ins(index: int, table: TableCells) -> list[Word]:
    words = [word for row in table[0] for word in row]
    x0, x1 = min(w.x0 for w in words), max(w.x1 for w in words)
    y, end = min(w.base for w in words), max(w.base for w in words)
    found = []
    while y <= end + 0.1:
        found.append(Word(f"{_STAND_IN}{index}", x0, x1, y, _STAND_IN_SIZE))
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
