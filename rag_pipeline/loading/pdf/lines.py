"""Join words into lines of text in reading order, each with its style."""

import statistics
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

from rag_pipeline.loading.pdf.elements import Line, Word
from rag_pipeline.loading.text import is_cjk

_SPACE = 0.13
_WIDE = 1.8
_RAISED = 0.15
_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_RTL = ("R", "AL")
_DIRECTIONS = {"R": "R", "AL": "R", "L": "L", "EN": "L", "AN": "L"}


def make_line(words: Sequence[Word], left: float, right: float) -> Line:
    """Return the line of words on one baseline, in a column from `left` to `right`."""
    words = sorted(words, key=lambda w: w.x0)
    letters: Counter[float] = Counter()
    bold = italic = total = 0
    for word in words:
        count = len(word.text)
        letters[round(word.size, 1)] += count
        total += count
        bold += count if word.bold else 0
        italic += count if word.italic else 0
    size = letters.most_common(1)[0][0]
    bases: Counter[float] = Counter()
    for word in words:
        if abs(word.size - size) < 0.15 * size:
            bases[round(word.base, 1)] += len(word.text)
    base = bases.most_common(1)[0][0]
    text = join(words)
    first = words[0]
    wide = [i for i in range(1, len(words)) if words[i].x0 - words[i - 1].x1 > _WIDE * size]
    edges = [0, *wide, len(words)]
    parts = tuple(join(words[a:b]) for a, b in pairwise(edges)) if wide else (text,)
    raised = len(words) > 1 and first.base < base - _RAISED * size and first.size < 0.9 * size
    return Line(
        text, first.x0, max(w.x1 for w in words), base, size,
        bold >= 0.85 * total, italic >= 0.85 * total, left, right,
        first_width=_width_to_first_blank(words), marker=first.text if raised else "",
        rtl=any(w.clusters for w in words) and _mostly_rtl(text), parts=parts,
    )  # fmt: skip


def rows_of(words: Sequence[Word]) -> list[list[Word]]:
    """Group words by baseline. Add raised and lowered words to the row beside them."""
    rows: list[tuple[float, float, list[Word]]] = []
    for word in sorted(words, key=lambda w: (-w.size, w.base)):
        best = None
        for index, (base, size, _) in enumerate(rows):
            middle = word.base - 0.3 * word.size
            if base - 0.8 * size <= middle <= base + 0.15 * size and (
                best is None or abs(rows[best][0] - word.base) > abs(base - word.base)
            ):
                best = index
        if best is None:
            rows.append((word.base, word.size, [word]))
        else:
            rows[best][2].append(word)
    rows.sort(key=lambda row: row[0])
    return [row for _, _, row in rows]


def between(words: Iterable[Word], borders: Sequence[float]) -> list[list[Word]]:
    """Split words into columns at the x coordinates `borders`, by the middle of each word."""
    columns: list[list[Word]] = [[] for _ in range(len(borders) + 1)]
    for word in words:
        columns[sum(word.middle[0] > border for border in borders)].append(word)
    return columns


def _width_to_first_blank(words: Sequence[Word]) -> float:
    end = words[0].x1
    for before, word in pairwise(words):
        if word.space or word.x0 - before.x1 > _SPACE * word.size:
            break
        end = word.x1
    return end - words[0].x0


def join(words: Sequence[Word]) -> str:
    """Return the text of words in reading order. The words must be ordered from left to right."""
    spread = _letter_spacing(words)
    parts: list[str] = []
    rtl = False
    for index, word in enumerate(words):
        if index and _apart(words[index - 1], word, spread):
            parts.append(" ")
        if word.clusters is not None:
            rtl = True
            parts.append(_visual(word.clusters))
        else:
            parts.append(word.text)
    text = "".join(parts)
    if rtl:
        text = unicodedata.normalize("NFKC", _logical(text))
    return text


def _letter_spacing(words: Sequence[Word]) -> float:
    """Return the median gap of spaced-out letters, relative to the font size, or 0 for words."""
    gaps = [
        (b.x0 - a.x1) / max(b.size, 0.1)
        for a, b in pairwise(words)
        if len(a.text) == len(b.text) == 1 and not b.space and (a.text + b.text).isalpha()
    ]
    if len(gaps) < 4 or len(gaps) < 0.6 * (len(words) - 1):
        return 0.0
    return statistics.median(gaps)


def _apart(before: Word, word: Word, spread: float) -> bool:
    size = max(before.size, word.size)
    gap = word.x0 - before.x1
    if is_cjk(before.text[-1]) and is_cjk(word.text[0]):
        return gap > 0.6 * size
    if spread:
        return gap > 1.6 * spread * size
    if word.space and gap > -0.3 * size:
        return True
    return gap > _SPACE * size or _is_mark(word, before) or _is_mark(before, word)


def _is_mark(word: Word, beside: Word) -> bool:
    """Return whether a word is a raised note number beside a word of letters."""
    raised = word.base < beside.base - _RAISED * beside.size and word.size < 0.9 * beside.size
    return raised and word.text.isdigit() and len(beside.text) >= 3 and beside.text.isalpha()


def _visual(clusters: list[tuple[float, str]]) -> str:
    """Return letters from left to right, each with its combining marks."""
    bases = [c for c in clusters if unicodedata.category(c[1][0]) != "Mn"]
    if not bases:
        return "".join(text for _, text in clusters)
    marks: dict[int, str] = {}
    for x, text in clusters:
        if unicodedata.category(text[0]) == "Mn":
            nearest = min(range(len(bases)), key=lambda i: abs(bases[i][0] - x))
            marks[nearest] = marks.get(nearest, "") + text
    order = sorted(range(len(bases)), key=lambda i: bases[i][0])
    return "".join(bases[i][1] + marks.get(i, "") for i in order)


def _mostly_rtl(text: str) -> bool:
    kinds = Counter(unicodedata.bidirectional(c) for c in text)
    return sum(kinds[k] for k in _RTL) > kinds["L"]


def _logical(visual: str) -> str:
    """Convert a line from visual to reading order: UAX #9 in reverse, for one level of nesting."""
    units = _units(visual)
    base = "R" if _mostly_rtl(visual) else "L"
    directed = zip(_directions(units, base), units, strict=True)
    runs: list[str] = []
    for direction, run in groupby(directed, key=itemgetter(0)):
        own = [unit for _, unit in run]
        is_rtl = direction == "R"
        runs.append("".join(u.translate(_MIRRORED) for u in own[::-1]) if is_rtl else "".join(own))
    return "".join(runs[::-1] if base == "R" else runs)


def _units(text: str) -> list[str]:
    units: list[str] = []
    for char in text:
        if units and unicodedata.category(char) == "Mn":
            units[-1] += char
        else:
            units.append(char)
    return units


def _directions(units: Sequence[str], base: str) -> list[str]:
    """Return each unit's direction, L or R. Neutral units follow neighbours, or else `base`."""
    own = [_DIRECTIONS.get(unicodedata.bidirectional(unit[0]), "") for unit in units]
    before, after = _last(own, base), _last(own[::-1], base)[::-1]
    return [
        one or (left if left == right else base)
        for one, left, right in zip(own, before, after, strict=True)
    ]


def _last(directions: Sequence[str], base: str) -> list[str]:
    """Return the last known direction before each character, or `base` at the start."""
    return [*accumulate(directions, lambda last, one: one or last, initial=base)][:-1]
