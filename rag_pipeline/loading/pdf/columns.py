"""Arrange the words of a page in lines, column by column.

A strip is a row of words that no horizontal white line divides. A band is a sequence of strips with
a common gutter, which is a vertical gap without words. The columns of a band are read one after the
other. A strip that crosses the gutter, such as a title, ends the band.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rag_pipeline.loading.pdf.elements import Line, Word
from rag_pipeline.loading.pdf.lines import between, make_line, rows_of
from rag_pipeline.loading.pdf.tables import tabulate

_MARK = re.compile(
    r"[^\w\s]{1,2}|\(?(\d{1,3}(\.\d+)*|\w|[ivx]{1,5})[.):]|(\d+\.)+\d+|\[[\w+]{1,8}\]|o"
)
_PAD = 0.2
"""Width of the white space around a word that counts as part of it, in font sizes."""
_GAP = re.compile(r"1000+(?=1)")
"""Matches a gutter of at least 3 points in the bits of a mask, and the bit before it."""
_FEW_LINES = 3
_WIDE = 0.8
_DEEPEST = 4
_AHEAD = 5


@dataclass(slots=True)
class _Strip:
    words: list[Word]
    y0: float
    y1: float
    mask: int = 0
    size: float = 1.0
    """The font size of the largest word."""


@dataclass(slots=True)
class _Band:
    strips: list[_Strip] = field(default_factory=list)
    mask: int = 0
    gutters: list[tuple[int, int]] = field(default_factory=list)
    expected: list[tuple[int, int]] = field(default_factory=list)
    """Gutters of the first strips, which must stay free of words in the strips below."""


def read_columns(words: Sequence[Word], head: float = 0) -> list[Line]:
    """Arrange the words of a page in lines, and return the lines in reading order.

    Above the y coordinate `head`, a horizontal white gap ends columns, because authors may be side
    by side.
    """
    lines: list[Line] = []
    for number, column in enumerate(_columns(words, head, 0), 1):
        for line in column:
            line.column = number
        lines += column
    return lines


def _columns(words: Sequence[Word], head: float, depth: int) -> Iterator[list[Line]]:
    bands = _bands(_strips(words), head)
    for band in bands:
        inside = [word for strip in band.strips for word in strip.words]
        if not band.gutters or depth >= _DEEPEST:
            yield _plain(band, words if len(bands) == 1 else inside)
            continue
        gutters = [(float(a), float(b)) for a, b in band.gutters]
        rows = [row for strip in band.strips for row in rows_of(strip.words)]
        cells = tabulate(rows, gutters)
        if cells:
            yield [table_line(rows, cells)]
        elif cells is not None:
            yield _plain(band, inside)
        else:
            for column in between(inside, [(a + b) / 2 for a, b in gutters]):
                yield from _columns(column, 0, depth + 1)


def _plain(band: _Band, around: Sequence[Word]) -> list[Line]:
    left, right = min(w.x0 for w in around), max(w.x1 for w in around)
    return [make_line(r, left, right) for strip in band.strips for r in rows_of(strip.words)]


def table_line(rows: list[list[Word]], cells: list[list[str]], column: int = 0) -> Line:
    """Return a line that represents a table with these rows of words and texts of cells."""
    words = [word for row in rows for word in row]
    left, right = min(w.x0 for w in words), max(w.x1 for w in words)
    line = make_line(rows[-1], left, right)
    line.x0, line.x1, line.column, line.table = left, right, column, cells
    line.text = ""
    line.row_bases = [max(w.base for w in row) for row in rows]
    return line


def _strips(words: Sequence[Word]) -> list[_Strip]:
    strips: list[_Strip] = []
    for word in sorted(words, key=lambda w: w.base - 0.5 * w.size):
        y0, y1 = word.base - 0.5 * word.size, word.base + 0.02 * word.size
        if strips and y0 < strips[-1].y1:
            strips[-1].words.append(word)
            strips[-1].y1 = max(strips[-1].y1, y1)
        else:
            strips.append(_Strip([word], y0, y1))
    for strip in strips:
        strip.mask = _mask(strip.words)
        strip.size = max(word.size for word in strip.words)
    return strips


def _mask(words: Sequence[Word]) -> int:
    """Return a bit mask of the x coordinates, in whole points, that words cover."""
    mask = 0
    for word in words:
        pad = _PAD * word.size
        start, end = max(int(word.x0 - pad), 0), max(int(word.x1 + pad) + 1, 1)
        if end > 20_000 or end <= start:
            continue
        mask |= (1 << end) - (1 << start)
    return mask


def _gutters(mask: int) -> list[tuple[int, int]]:
    """Return the start and end of each gutter, a wide gap in the mask."""
    return [(gap.start() + 1, gap.end()) for gap in _GAP.finditer(bin(mask)[:1:-1])]


def _both_sides(strip: _Strip, gutter: tuple[int, int]) -> bool:
    low, high = strip.mask & ((1 << gutter[0]) - 1), strip.mask >> gutter[1]
    return bool(low) and bool(high)


def _bands(strips: list[_Strip], head: float) -> list[_Band]:
    bands: list[_Band] = []
    for index, strip in enumerate(strips):
        band = bands[-1] if bands else None
        if band is None or not _extends(band, strips[index : index + _AHEAD], head):
            band = _Band(expected=_begun(strips[index : index + _AHEAD]))
            bands.append(band)
        band.strips.append(strip)
        band.mask |= strip.mask
        band.gutters = _supported(band)
    for index, band in enumerate(bands):
        if band.gutters and index and not bands[index - 1].gutters:
            _take(band, bands[index - 1])
        if band.gutters and index + 1 < len(bands):
            _trim(band, bands[index + 1])
    return _merged([band for band in bands if band.strips])


def _supported(band: _Band) -> list[tuple[int, int]]:
    gutters = _gutters(band.mask)
    if not gutters:
        return []
    size = _smallest(band)
    found = []
    for gutter in gutters:
        width = gutter[1] - gutter[0]
        lines = _count_lines_beside(band, [gutter])
        if lines and _is_margin_of_marks(band, gutter):
            continue
        if (lines >= 4) or (lines >= 2 and width >= _WIDE * size) or (
            lines >= 1 and width >= 1.5 * size
        ):  # fmt: skip
            found.append(gutter)
    return found


def _smallest(band: _Band) -> float:
    return max(min(strip.size for strip in band.strips), 1.0)


def _count_lines_beside(band: _Band, gutters: Sequence[tuple[int, int]]) -> float:
    height = 1.2 * _smallest(band)
    both = (s for s in band.strips if any(_both_sides(s, gutter) for gutter in gutters))
    return sum(max((s.y1 - s.y0) / height, 1.0) for s in both)


def _is_margin_of_marks(band: _Band, gutter: tuple[int, int]) -> bool:
    marks = 0
    for strip in band.strips:
        if _both_sides(strip, gutter):
            left = [word for word in strip.words if word.x1 <= gutter[0] + 1]
            if len(left) > 2 or not _MARK.fullmatch("".join(word.text for word in left)):
                return False
            marks += 1
    return marks > 0


def _extends(band: _Band, ahead: Sequence[_Strip], head: float) -> bool:
    strip, last = ahead[0], band.strips[-1]
    together = band.mask | strip.mask
    guides = band.gutters or band.expected
    if not guides:
        own = _begun(ahead)
        if not own:
            return True
        # Columns begin here. The first line of one column may be higher than the others.
        free = [(a, b) for a, b in own if not band.mask & ((1 << b) - (1 << a))]
        near = strip.y0 - last.y1 < 1.5 * strip.size and len(band.strips) <= 2
        band.expected = free if near else []
        return bool(band.expected)
    if strip.y0 < head and strip.y0 - last.y1 > 2.2 * max(last.size, strip.size):
        return False
    kept = _gutters(together)
    lost = [g for g in guides if not any(g[0] < d and c < g[1] for c, d in kept)]
    if not lost:
        return True
    # A wide gap between two words is not a gutter until other lines have it.
    weak = all(_count_lines_beside(band, [gutter]) < _FEW_LINES for gutter in lost)
    return weak and len(lost) < len(guides)


def _begun(ahead: Sequence[_Strip]) -> list[tuple[int, int]]:
    """Return the gutters that divide the first strip, alone or together with strips below it."""
    found: list[tuple[int, int]] = []
    tried = _Band()
    for strip in ahead:
        tried.strips.append(strip)
        tried.mask |= strip.mask
        found += [g for g in _supported(tried) if _both_sides(ahead[0], g)]
    return found


def _take(band: _Band, before: _Band) -> None:
    """Move the last strips of the band above to `band` if each is in one of its columns."""
    # Large words may cover part of a gutter, so only the middle of the gutter decides.
    inner = [(a + (b - a) // 4, b - (b - a) // 4) for a, b in band.gutters]
    bits = sum((1 << b) - (1 << a) for a, b in inner)
    beyond = ~((1 << band.mask.bit_length()) - 1)
    below, taken, sides = band.strips[0], 0, set()
    for strip in reversed(before.strips):
        if strip.mask & (bits | beyond) or below.y0 - strip.y1 > 1.5 * strip.size:
            break
        taken += 1
        sides.add(sum(bool(strip.mask >> end) for _, end in inner))
        below = strip
    if len(sides) < 2:
        taken = min(taken, _AHEAD)
    for _ in range(taken):
        strip = before.strips.pop()
        band.strips.insert(0, strip)
        band.mask |= strip.mask


def _trim(band: _Band, following: _Band) -> None:
    """Move the last strip to the next band if it is far below the text of the left column."""
    if len(band.strips) < 3 or following.gutters:
        return
    before, last = band.strips[-2], band.strips[-1]
    one_sided = not any(_both_sides(last, gutter) for gutter in band.gutters)
    on_left = not last.mask >> band.gutters[0][1]
    gap, after = last.y0 - before.y1, following.strips[0].y0 - last.y1
    if one_sided and on_left and gap > 1.4 * last.size and after < gap:
        band.strips.pop()
        following.strips.insert(0, last)
        following.mask |= last.mask


def _merged(bands: list[_Band]) -> list[_Band]:
    """Merge neighbouring bands without columns. A gap in a single line is not a gutter."""
    result: list[_Band] = []
    for band in bands:
        if band.gutters and _count_lines_beside(band, band.gutters) < 2:
            band.gutters = []
        if result and not result[-1].gutters and not band.gutters:
            result[-1].strips += band.strips
            result[-1].mask |= band.mask
        else:
            result.append(band)
    return result
