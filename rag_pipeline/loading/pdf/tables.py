"""Find tables with drawn lines, and tables of aligned short cells."""

import re
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from rag_pipeline.loading.pdf.elements import Rule, Sides, Word, split
from rag_pipeline.loading.pdf.figures import TableCells, figure_tables
from rag_pipeline.loading.pdf.lines import between, join, rows_of

_TOUCH = 3.0
_MIN_WIDTH = 60.0
_MAX_CELL_WORDS = 80
_MIN_ROWS = 3
_MAX_HEAD = 3
"""Maximum number of text lines in column heads above the first drawn line."""
_MOST = 0.7
_MIN_PARTS = 3
_LABEL = 12
_SHORT = 4
_MAX_RULES = 3000
_TALLEST_GAP = 260.0
_PAD = 0.25
_NUMERIC = re.compile(
    r"[\s\d.,:;%$€£¥+±()<>=≤≥~*†‡/–−—-]*\d[\s\d.,:;%$€£¥+±()<>=≤≥~*†‡/–−—xXkKmMbBeE-]*|[-–—✓✗×✔✘]+|n/?a",
    re.I,
)


def ruled_tables(
    words: Sequence[Word], rules: Sequence[Rule]
) -> tuple[list[Word], list[TableCells]]:
    """Return a page's words outside tables, and its tables with drawn lines or aligned numbers."""
    rest = list(words)
    tables: list[TableCells] = []

    def take(table: TableCells | None, box: Sides | None = None) -> None:
        """Add a table. Remove all words in `box`, by default the table's words, from `rest`."""
        nonlocal rest
        if table is None:
            return
        held = {id(word) for row in table[0] for word in row}
        rest = [w for w in rest if not (_is_inside(w, box) if box else id(w) in held)]
        tables.append(table)

    rules = rules if 2 <= len(rules) <= _MAX_RULES else ()
    for group in _touching(rules):
        levels = _positions(r.y0 for r in group if r.y1 - r.y0 < r.x1 - r.x0)
        uprights = _positions(r.x0 for r in group if r.y1 - r.y0 >= r.x1 - r.x0)
        if len(levels) < 2 or len(uprights) < 2 or (len(levels), len(uprights)) == (2, 2):
            continue
        box = uprights[0], levels[0], uprights[-1], levels[-1]
        take(_grid(_inside(rest, box), uprights, levels), box)
    whole, cuts = _joined(rules)
    stacks = _stacks(whole)
    for box, levels in stacks:
        joints = cuts.get(round(box[0]), Counter())
        marked = sorted(x for x, n in joints.items() if 2 * n > len(levels))
        take(_row_ruled(rest, box, levels, marked or _borders(rows_of(_inside(rest, box)))))
    for table in figure_tables(rest):
        take(table)
    for box, levels in stacks:
        take(_table_between_rules(_inside(rest, box), levels), box)
    return rest, tables


def tabulate(rows: list[list[Word]], gutters: list[tuple[float, float]]) -> list[list[str]] | None:
    """Cut rows of words at gutters, and return the cells if they form a table.

    Return [] for rows to read one by one, as in a table of contents, and None for columns of text.
    """
    cells = [_cut(row, [(a + b) / 2 for a, b in gutters]) for row in rows]
    count = len(gutters) + 1
    filled = [sum(bool(cell) for cell in row) for row in cells]
    shared = sum(n >= 2 for n in filled) / len(rows)
    if len(rows) < 2 or shared < 0.6:
        return None
    columns = [[row[i] for row in cells if row[i]] for i in range(count)]
    if any(not column for column in columns):
        return None
    if any(sum("@" in cell for cell in row) >= 2 for row in cells):
        return None  # authors side by side, with their addresses
    words = [statistics.mean(len(cell.split()) for cell in column) for column in columns]
    characters = [statistics.mean(len(cell) for cell in column) for column in columns]
    numeric = [_share_numeric(column) for column in columns]
    if sorted(words)[-2] > 5 or sorted(characters)[-2] > 34 or max(words) > 14:
        return None
    if count == 2:
        if all(cell.rstrip(" .").isdigit() for cell in columns[1]) and words[0] > 1.5:
            return []  # a table of contents
        if characters[0] <= _LABEL and words[0] <= 2 and shared >= 0.8 and numeric[1] < 0.6:
            return []  # a legend: signs or short names with explanations
        labels = sum(cell.endswith(":") for cell in columns[0]) / len(columns[0])
        if labels >= 0.6:
            return [] if words[1] > 6 else _merged(cells)
        return _merged(cells) if numeric[1] >= 0.6 and len(rows) >= 3 else None
    short = sum(n <= 4 or share >= 0.6 for n, share in zip(words, numeric, strict=True))
    if len(rows) < 3 and max(numeric) < 0.4:
        return None
    if short >= count - 1 and (max(numeric[1:]) >= 0.4 or shared >= 0.8):
        return _merged(cells)
    return None


def _share_numeric(column: Sequence[str]) -> float:
    body = column[1:] if len(column) > 2 else column
    return sum(bool(_NUMERIC.fullmatch(cell)) for cell in body) / max(len(body), 1)


def _cut(row: Sequence[Word], borders: Sequence[float]) -> list[str]:
    return [join(cell) for cell in between(sorted(row, key=lambda w: w.x0), borders)]


def _merged(cells: list[list[str]]) -> list[list[str]]:
    """Join a row to the row above if its first cell is empty and the others begin in lower case."""
    rows: list[list[str]] = []
    for row in cells:
        filled = [cell for cell in row if cell]
        continues = rows and not row[0] and all(
            cell[0].islower() and not _NUMERIC.fullmatch(cell) for cell in filled
        )  # fmt: skip
        if continues:
            rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], row, strict=True)]
        else:
            rows.append(row)
    return rows


def _touching(rules: Sequence[Rule]) -> list[list[Rule]]:
    parents = list(range(len(rules)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    order = sorted(range(len(rules)), key=lambda i: rules[i].x0)
    active: list[int] = []
    for index in order:
        rule = rules[index]
        active = [i for i in active if rules[i].x1 >= rule.x0 - _TOUCH]
        for other in active:
            one = rules[other]
            if one.y0 - _TOUCH <= rule.y1 and rule.y0 <= one.y1 + _TOUCH:
                parents[root(index)] = root(other)
        active.append(index)
    groups: dict[int, list[Rule]] = {}
    for index, rule in enumerate(rules):
        groups.setdefault(root(index), []).append(rule)
    return list(groups.values())


def _positions(values: Iterable[float]) -> list[float]:
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] > _TOUCH:
            found.append(value)
    return found


def _grid(inside: Sequence[Word], xs: list[float], ys: list[float]) -> TableCells | None:
    n_rows, n_columns = len(ys) - 1, len(xs) - 1
    if not inside or n_columns < 2 or n_rows * n_columns < 4:
        return None
    slots: list[list[list[Word]]] = [[[] for _ in range(n_columns)] for _ in range(n_rows)]
    for word in inside:
        x, y = word.middle
        slots[sum(y > one for one in ys[1:-1])][sum(x > one for one in xs[1:-1])].append(word)
    kept = [part for row in slots if any(row) for part in _parted(row)]
    used = [i for i in range(n_columns) if any(row[i] for row in kept)]
    if len(kept) < 2 or len(used) < 2:
        return None
    cells = [[" ".join(join(r) for r in rows_of(row[i])) for i in used] for row in kept]
    if max(len(cell.split()) for row in cells for cell in row) > _MAX_CELL_WORDS:
        return None
    if sum(sum(bool(c) for c in row) >= 2 for row in cells) < 0.5 * len(cells):
        return None
    return [[w for slot in row for w in slot] for row in kept], cells


def _parted(row: list[list[Word]]) -> list[list[list[Word]]]:
    """Split the words between two drawn lines into rows of short cells, unless text is wrapped."""
    lines = [rows_of(cell) for cell in row if cell]
    count = len(lines[0])
    if count < 2 or any(len(cell) != count for cell in lines) or len(lines) < 2:
        return [row]
    if count < _MIN_PARTS and not any(_all_numbers(cell) for cell in lines[1:]):
        return [row]
    bases = [max(word.base for word in line) for line in lines[0]]
    for cell in lines:
        for line, base in zip(cell, bases, strict=True):
            if abs(max(word.base for word in line) - base) > 2 or len(line) > _SHORT:
                return [row]
    parts: list[list[list[Word]]] = [[[] for _ in row] for _ in bases]
    for place, cell_words in enumerate(row):
        for index, line in enumerate(rows_of(cell_words)):
            parts[index][place] = line
    return parts


def _all_numbers(lines: Sequence[Sequence[Word]]) -> bool:
    return all(_NUMERIC.fullmatch(join(line)) for line in lines)


def _stacks(rules: Sequence[Rule]) -> list[tuple[Sides, list[float]]]:
    """Return each area between drawn lines with equal ends, and the lines' y coordinates."""
    by_ends: dict[tuple[int, int], list[Rule]] = {}
    for rule in rules:
        if rule.x1 - rule.x0 < _MIN_WIDTH or rule.y1 - rule.y0 > 1:
            continue
        for key in by_ends:
            if abs(key[0] - rule.x0) <= 4 and abs(key[1] - rule.x1) <= 4:
                by_ends[key].append(rule)
                break
        else:
            by_ends[round(rule.x0), round(rule.x1)] = [rule]
    found = []
    for same in by_ends.values():
        levels = _positions(rule.y0 for rule in same)
        for part in split(levels, lambda above, below: below - above > _TALLEST_GAP):
            if len(part) >= 2:
                found.append(((same[0].x0, part[0], same[0].x1, part[-1]), part))
    return found


def _joined(rules: Sequence[Rule]) -> tuple[list[Rule], dict[int, Counter[int]]]:
    """Join horizontal lines drawn cell by cell, and count joints by the line's left end and x."""
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


def _row_ruled(
    words: Sequence[Word], box: Sides, levels: Sequence[float], borders: Sequence[float]
) -> TableCells | None:
    """Return the table in a box that has a drawn line after each row, or None."""
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
    parted = [_cells_of(band, borders) for band in bands]
    of_one_row = sum(min(len(cell) for cell in cells if cell) == 1 for cells in parted)
    if of_one_row < _MOST * len(bands):
        return None
    if sum(sum(map(bool, cells)) >= 2 for cells in parted) < _MOST * len(bands):
        return None
    texts = [[" ".join(join(line) for line in cell) for cell in cells] for cells in parted]
    if max(len(text.split()) for row in texts for text in row) > _MAX_CELL_WORDS:
        return None
    return bands, texts


def _cells_of(band: Sequence[Word], borders: Sequence[float]) -> list[list[list[Word]]]:
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
    return found if sum(map(bool, _cells_of(found, borders))) >= 2 else []


def _table_between_rules(words: Sequence[Word], levels: Sequence[float]) -> TableCells | None:
    rows = rows_of(words)
    if len(rows) < 2 or len(words) < 4:
        return None
    borders = _borders(rows)
    if not borders:
        return None
    cells = [_cut(row, borders) for row in rows]
    filled = sum(sum(bool(cell) for cell in row) >= 2 for row in cells)
    if filled < 0.6 * len(rows):
        return None
    columns = [[row[i] for row in cells if row[i]] for i in range(len(borders) + 1)]
    lengths = [statistics.mean(len(c.split()) for c in column) for column in columns if column]
    if len(columns) == 2 and len(levels) < 3 and min(lengths) > 3:
        return None
    if sorted(lengths)[-2] > 8 or max(lengths) > 30:
        return None
    return rows, _merged(cells)


def _borders(rows: Sequence[Sequence[Word]]) -> list[float]:
    """Return the middle x coordinate of each vertical gap that hardly any row crosses."""
    if not rows:
        return []
    left, right = min(w.x0 for r in rows for w in r), max(w.x1 for r in rows for w in r)
    width = int(right - left) + 1
    counts = [0] * width
    for row in rows:
        points: set[int] = set()
        for word in row:
            pad = _PAD * word.size
            points.update(range(int(word.x0 - left - pad), int(word.x1 - left + pad) + 1))
        for x in points:
            if 0 <= x < width:
                counts[x] += 1
    most = 0 if len(rows) < 6 else max(1, len(rows) // 8)
    covered = "".join("#" if count > most else " " for count in counts)
    runs = (white.span() for white in re.finditer(r"(?<=#) {3,}(?=#)", covered))
    return [left + (start + end) / 2 for start, end in runs]


def _inside(words: Sequence[Word], box: Sides) -> list[Word]:
    return [word for word in words if _is_inside(word, box)]


def _is_inside(word: Word, box: Sides) -> bool:
    x, y = word.middle
    return box[0] - 2 <= x <= box[2] + 2 and box[1] <= y <= box[3]
