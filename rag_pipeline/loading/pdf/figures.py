"""Find tables of aligned numbers (figures) without drawn lines, as in balance sheets."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag_pipeline.loading.pdf.elements import Word, split
from rag_pipeline.loading.pdf.lines import between, join, rows_of

TableCells = tuple[list[list[Word]], list[list[str]]]
"""The rows of words of a table, and the texts of its cells by row."""
Edges = tuple[float, float]
"""The left and right end of a figure or column, in PDF points."""

_FIGURE = re.compile(
    r"[$€£¥]?\s?[(+−–-]?\s?[$€£¥]?\s?\d[\d.,\s/]*[%xX]?\s?\)?\s?%?[*†‡]*|[$€£¥]?\s?[-–—]+\s?%?|n/?[am]",
    re.I,
)
_CURRENCY = re.compile(r"[$€£¥]|[A-Z]{2,3}\$?")
_TAIL = re.compile(r"[)%*†‡]+")
_YEAR = re.compile(r"(19|20)\d\d")
_MIN_ROWS = 3
_MIN_COLUMNS = 2
_MAX_LABELS = 3
"""Maximum number of rows without figures between two rows with figures."""
_MAX_HEADS = 3
_WIDEST_STEP = 3.2
"""Maximum distance between the baselines of two rows, in font sizes."""
_TIDY = ((re.compile(r"(?<=[\d\w]) +(?=[)%])"), ""), (re.compile(r"(?<=[($€£¥]) +(?=[\d(])"), ""))


@dataclass(slots=True)
class _Row:
    words: list[Word]
    base: float
    size: float
    label_end: float
    """The right end of the words before the first figure."""
    figures: list[Edges]
    """The left and right end of each figure, including its signs."""
    others: bool
    """Whether words other than figures follow the first figure."""


def figure_tables(words: Sequence[Word]) -> list[TableCells]:
    """Return the tables with at least three rows of a label and at least two figures.

    A row with other words after its first figure does not belong to a table.
    """
    if sum(bool(_FIGURE.fullmatch(word.text)) for word in words) < _MIN_ROWS * _MIN_COLUMNS:
        return []
    rows = [_row(sorted(row, key=lambda w: w.x0)) for row in rows_of(words)]
    rows.sort(key=lambda row: row.base)
    tables: list[TableCells] = []
    start = 0
    while start < len(rows):
        past, ends = _run(rows, start)
        table = _table(rows, start, past, ends) if past else None
        if table is not None:
            tables.append(table)
        start = past if table is not None else start + 1
    return tables


def _row(words: list[Word]) -> _Row:
    size = statistics.median(word.size for word in words)
    groups = _split_at_gaps(words, size)
    first = next((i for i, group in enumerate(groups) if _is_figure(group)), len(groups))
    label = [word for group in groups[:first] for word in group]
    while label and first and _CURRENCY.fullmatch(label[-1].text) and len(groups[first - 1]) == 1:
        first -= 1
        label.pop()
    figures: list[Edges] = []
    others = False
    begin: float | None = None
    for group in groups[first:]:
        text = join(group)
        if _CURRENCY.fullmatch(text):
            begin = group[0].x0
        elif _TAIL.fullmatch(text) and figures:
            figures[-1] = figures[-1][0], group[-1].x1
        elif _is_figure(group):
            figures.append((group[0].x0 if begin is None else begin, group[-1].x1))
            begin = None
        else:
            others = True
    label_end = max((word.x1 for word in label), default=words[0].x0)
    return _Row(words, max(w.base for w in words), size, label_end, figures, others)


def _split_at_gaps(words: Sequence[Word], size: float) -> list[list[Word]]:
    return split(words, lambda before, word: word.x0 - before.x1 > 0.6 * size)


def _is_figure(group: Sequence[Word]) -> bool:
    return bool(_FIGURE.fullmatch(join(group)))


def _run(rows: Sequence[_Row], start: int) -> tuple[int, list[Edges]]:
    """Return the index after the table at row `start`, and its columns' edges, or else (0, [])."""
    if not _is_full(rows[start]):
        return 0, []
    sides = list(rows[start].figures)
    past, found, plain = start + 1, 1, 0
    for index in range(start + 1, len(rows)):
        row, before = rows[index], rows[index - 1]
        if row.base - before.base > _WIDEST_STEP * max(row.size, before.size) or row.others:
            break
        if not row.figures:
            plain += 1
            if plain > _MAX_LABELS or row.label_end > min(x0 for x0, _ in sides) - row.size:
                break
            continue
        places = [
            [i for i, (x0, x1) in enumerate(sides) if figure[0] < x1 and x0 < figure[1]]
            for figure in row.figures
        ]
        if not any(places) or row.label_end > row.figures[0][0]:
            break
        for figure, met in zip(row.figures, places, strict=True):
            if len(met) > 1:
                return 0, []
            for place in met:
                x0, x1 = sides[place]
                sides[place] = min(x0, figure[0]), max(x1, figure[1])
            if not met:
                sides.append(figure)
        found += len(row.figures) >= _MIN_COLUMNS
        past, plain = index + 1, 0
    return (past, sorted(sides)) if found >= _MIN_ROWS else (0, [])


def _is_full(row: _Row) -> bool:
    return (
        len(row.figures) >= _MIN_COLUMNS
        and not row.others
        and row.figures[0][0] - row.label_end > 0
        and row.label_end > row.words[0].x0
    )


def _table(rows: Sequence[_Row], start: int, past: int, sides: list[Edges]) -> TableCells | None:
    label_end = max(row.label_end for row in rows[start:past] if row.figures)
    if label_end > sides[0][0]:
        return None
    borders = [(label_end + sides[0][0]) / 2, *((a[1] + b[0]) / 2 for a, b in pairwise(sides))]
    first, start = _above(rows, start, borders)
    while start < past - _MIN_ROWS and _is_of_years(rows[start]):
        start += 1
    parts = [rows[first:start], *([row] for row in rows[start:past])]
    lines = [[word for row in part for word in row.words] for part in parts if part]
    cells = ([_cells(row.words, borders) for row in part] for part in parts if part)
    return lines, [
        [" ".join(filter(None, column)) for column in zip(*c, strict=True)] for c in cells
    ]


def _is_of_years(row: _Row) -> bool:
    behind = [word for word in row.words if word.x0 >= row.label_end]
    return bool(behind) and all(_YEAR.fullmatch(word.text) for word in behind)


def _above(rows: Sequence[_Row], start: int, borders: Sequence[float]) -> tuple[int, int]:
    """Return the indexes of the first row of column heads and of the first row below them."""
    labels = start
    while labels and start - labels < _MAX_LABELS and _is_label(rows, labels - 1, borders):
        labels -= 1
    for place in {labels: None, start: None}:
        first = place
        while (
            first
            and place - first < _MAX_HEADS
            and _is_head_of(rows[first - 1], rows[first], borders)
        ):
            first -= 1
        if first < place:
            return first, place
    return start, start


def _is_label(rows: Sequence[_Row], index: int, borders: Sequence[float]) -> bool:
    row, below = rows[index], rows[index + 1]
    near = below.base - row.base <= _WIDEST_STEP * max(row.size, below.size)
    return near and not row.figures and not row.others and row.label_end < borders[0]


def _is_head_of(row: _Row, below: _Row, borders: Sequence[float]) -> bool:
    if below.base - row.base > _WIDEST_STEP * max(row.size, below.size):
        return False
    groups = _split_at_gaps(row.words, row.size)
    if any(g[0].x0 < b - 2 and g[-1].x1 > b + 2 for g in groups for b in borders):
        return False
    behind = [group for group in groups if group[0].x0 >= borders[0] - 2]
    return bool(behind) and all(len(join(group)) <= 30 for group in behind)


def _cells(words: Sequence[Word], borders: Sequence[float]) -> list[str]:
    texts = [join(cell) for cell in between(words, borders)]
    for pattern, instead in _TIDY:
        texts = [pattern.sub(instead, text) for text in texts]
    return texts
