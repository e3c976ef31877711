"""Find tables that have a drawn line after each row. Cells may have several lines of text."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from rag_pipeline.loading.pdf.elements import Rule, Word
from rag_pipeline.loading.pdf.figures import TableCells
from rag_pipeline.loading.pdf.lines import between, join, rows_of

_TOUCH = 3.0
_MIN_ROWS = 3
_MAX_HEAD = 3
"""Maximum number of text lines in column heads above the first horizontal line."""
_MAX_CELL_WORDS = 80
_MOST = 0.7


def joined(rules: Sequence[Rule]) -> tuple[list[Rule], dict[int, Counter[int]]]:
    """Join horizontal lines that are drawn cell by cell, and count their joints.

    The counts are by two x coordinates: that of a joined line's left end, and that of the joint.
    """
    level = sorted(r for r in rules if r.y1 - r.y0 <= 1 < r.x1 - r.x0)
    level.sort(key=lambda r: (round(r.y0), r.x0))
    found: list[Rule] = []
    cuts: dict[int, Counter[int]] = {}
    for rule in level:
        last = found[-1] if found else None
        if last and abs(last.y0 - rule.y0) <= 1 and abs(rule.x0 - last.x1) <= _TOUCH:
            cuts.setdefault(round(last.x0), Counter())[round(rule.x0)] += 1
            found[-1] = last._replace(x1=rule.x1)
        else:
            found.append(rule)
    return found, cuts


def row_ruled(
    words: Sequence[Word],
    box: tuple[float, float, float, float],
    levels: Sequence[float],
    borders: Sequence[float],
) -> TableCells | None:
    """Return the table in a box that has a drawn line after each row, or None if there is none.

    `levels` are the y coordinates of the lines. `borders` are the x coordinates between columns.
    """
    if not borders or len(levels) < _MIN_ROWS:
        return None
    inside = [w for w in words if box[0] - 2 <= w.middle[0] <= box[2] + 2]
    bands: list[list[Word]] = [[] for _ in range(len(levels))]
    for word in inside:
        if (y := word.middle[1]) < levels[-1]:
            bands[bisect_left(levels, y)].append(word)
    bands[0] = _column_heads(bands[0], levels[0], borders)
    bands = [band for band in bands if band]
    if len(bands) < _MIN_ROWS:
        return None
    parted = [_parted(band, borders) for band in bands]
    of_one_row = sum(min(len(cell) for cell in cells if cell) == 1 for cells in parted)
    if of_one_row < _MOST * len(bands):
        return None
    if sum(sum(map(bool, cells)) >= 2 for cells in parted) < _MOST * len(bands):
        return None
    texts = [[" ".join(join(line) for line in cell) for cell in cells] for cells in parted]
    if max(len(text.split()) for row in texts for text in row) > _MAX_CELL_WORDS:
        return None
    return bands, texts


def _parted(band: Sequence[Word], borders: Sequence[float]) -> list[list[list[Word]]]:
    return [rows_of(cell) for cell in between(band, borders)]


def _column_heads(words: Sequence[Word], level: float, borders: Sequence[float]) -> list[Word]:
    rows = sorted(rows_of(words), key=lambda row: -max(w.base for w in row))
    found: list[Word] = []
    below = level
    for row in rows[:_MAX_HEAD]:
        base, size = max(w.base for w in row), max(w.size for w in row)
        crosses = any(w.x0 < b - 1 and w.x1 > b + 1 for w in row for b in borders)
        if crosses or below - base > (1.5 if found else 2.5) * size:
            break
        found += row
        below = base
    return found if sum(map(bool, _parted(found, borders))) >= 2 else []
