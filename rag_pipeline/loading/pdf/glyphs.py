"""A page as PDFium reads it -> words with position, size and weight, and the lines drawn on it.

Coordinates are points of the displayed page (its /Rotate applied), from the top left corner.
"""

import ctypes
import math
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

MOST_CHARACTERS = 200_000
"""A page with more is no page that anyone reads: the rest is left out."""
_MOST_OBJECTS = 20_000
_MOST_SEGMENTS = 400
_DEEPEST_FORM = 4
_THIN = 2.5
_SPACE = 0.13
"""The least gap between words, in font sizes; kerning stays below it."""
_BEARING = 0.045
_NARROW = 0.09
_BOLD = re.compile(r"bold|black|heavy|demi|semibd|-bd|cmbx|cmb\d|sfbx|-medi|[-_]b\b", re.I)
_ITALIC = re.compile(r"ital|obli|cmti|cmsl|[-_]i\b|-it\b", re.I)
_FORCE_BOLD = 1 << 18
_LIGATURES = {
    "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st",
    "\x02": "-", "\xad": "-", "\u2010": "-", "\u2011": "-", "\uf0b7": "•", "\uf0a7": "•",
    "\u25cf": "•", "\u25aa": "•", "\u2028": " ", "\xa0": " ", "\ufeff": "", "\u200b": "",
}  # fmt: skip
_ACCENTS = {
    "´": "\u0301", "`": "\u0300", "¨": "\u0308", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327",
    "ˇ": "\u030c", "˚": "\u030a", "˝": "\u030b", "˙": "\u0307", "˘": "\u0306",
}  # fmt: skip


class Rule(NamedTuple):
    """A thin line that is drawn level or upright, by its two ends."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(slots=True)
class Word:
    """Characters side by side in one style; `base` is the y of the baseline.

    `space` tells that a blank was typed before it. `clusters` holds (x, characters) where the
    order on the page may not be the order of reading.
    """

    text: str
    x0: float
    x1: float
    base: float
    size: float
    bold: bool
    italic: bool
    space: bool
    clusters: list[tuple[float, str]] | None = None

    @property
    def top(self) -> float:
        """Return the y above which nothing of a common letter reaches."""
        return self.base - 0.75 * self.size


@dataclass(slots=True)
class PageGlyphs:
    """What stands on one page; `aside` is text in another direction than most of it."""

    width: float
    height: float
    words: list[Word] = field(default_factory=list)
    aside: list[Word] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    turned: int = 0
    """By how many degrees the page was turned counterclockwise for its words to be level."""
    characters: int = 0
    unmapped: int = 0
    image_share: float = 0.0


class _Style(NamedTuple):
    direction: int
    size: float
    base: float
    bold: bool
    italic: bool


class _Frame:
    """Turn coordinates of a page's content into those of the displayed page."""

    def __init__(self, page: Any) -> None:
        box = pdfium.FS_RECTF()
        pdfium.FPDF_GetPageBoundingBox(page, box)
        self.left, self.right = min(box.left, box.right), max(box.left, box.right)
        self.bottom, self.top = min(box.bottom, box.top), max(box.bottom, box.top)
        self.turns = pdfium.FPDFPage_GetRotation(page) % 4
        sides = self.right - self.left, self.top - self.bottom
        self.width, self.height = sides if self.turns % 2 == 0 else sides[::-1]

    def point(self, x: float, y: float) -> tuple[float, float]:
        if self.turns == 0:
            return x - self.left, self.top - y
        if self.turns == 1:
            return y - self.bottom, x - self.left
        if self.turns == 2:
            return self.right - x, y - self.bottom
        return self.top - y, self.right - x


def read_glyphs(page: Any) -> PageGlyphs:
    """Read the text and the lines of a loaded page."""
    frame = _Frame(page)
    text_page = pdfium.FPDFText_LoadPage(page)
    found = PageGlyphs(frame.width, frame.height)
    try:
        runs = _words(text_page, frame, found) if text_page else {}
    finally:
        if text_page:
            pdfium.FPDFText_ClosePage(text_page)
    found.rules, found.image_share = _drawn(page, frame)
    weights = {turn: sum(len(w.text) for w in words) for turn, words in runs.items() if turn >= 0}
    main = max(weights, key=lambda turn: (weights[turn], -turn), default=0)
    found.words = runs.pop(main, [])
    found.aside = [word for words in runs.values() for word in words]
    found.turned = main
    if main:
        found.rules = [_turned_rule(rule, main, frame) for rule in found.rules]
        if main in (90, 270):
            found.width, found.height = frame.height, frame.width
    return found


def turn(x: float, y: float, direction: int, width: float, height: float) -> tuple[float, float]:
    """Return where a point of the displayed page lies once text of `direction` is level."""
    if direction == 90:
        return height - y, x
    if direction == 180:
        return width - x, height - y
    if direction == 270:
        return y, width - x
    return x, y


def turn_back(x: float, y: float, direction: int, w: float, h: float) -> tuple[float, float]:
    """Undo `turn`; `w` and `h` are the displayed page's width and height."""
    if direction == 90:
        return y, h - x
    if direction == 180:
        return w - x, h - y
    if direction == 270:
        return w - y, x
    return x, y


def _turned_rule(rule: Rule, direction: int, frame: _Frame) -> Rule:
    one = turn(rule.x0, rule.y0, direction, frame.width, frame.height)
    two = turn(rule.x1, rule.y1, direction, frame.width, frame.height)
    return Rule(min(one[0], two[0]), min(one[1], two[1]), max(one[0], two[0]), max(one[1], two[1]))


def _words(text_page: Any, frame: _Frame, found: PageGlyphs) -> dict[int, list[Word]]:
    """Return the words by direction of the text in degrees, -1 for text that is slanted."""
    builder = _Builder()
    styles: dict[int, _Style] = {}
    loose, tight = pdfium.FS_RECTF(), [ctypes.c_double() for _ in range(4)]
    corners = [ctypes.byref(one) for one in tight]
    get_unicode, get_object = pdfium.FPDFText_GetUnicode, pdfium.FPDFText_GetTextObject
    get_box, loose_box = pdfium.FPDFText_GetLooseCharBox, ctypes.byref(loose)
    count = min(pdfium.FPDFText_CountChars(text_page), MOST_CHARACTERS)
    style: _Style | None = None
    last = None
    high = 0
    for index in range(count):
        code = get_unicode(text_page, index)
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000 and high:
            code = 0x10000 + ((high - 0xD800) << 10) + code - 0xDC00
        high = 0
        owner = get_object(text_page, index)
        if not owner:
            continue  # a blank or line end that PDFium guessed
        address = ctypes.addressof(owner.contents) if owner else 0
        if address != last:
            last = address
            style = styles.get(address)
            if style is None:
                style = styles[address] = _style(text_page, index, owner, frame)
        assert style is not None
        char = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
        char = _LIGATURES.get(char, char)
        if "\U0001d400" <= char <= "\U0001d7ff":  # letters of formulas, in bold, script, italics
            char = unicodedata.normalize("NFKC", char)
        if not char or char.isspace():
            builder.space()
            continue
        found.characters += 1
        if char == "\ufffd" or "\ue000" <= char <= "\uf8ff" or char < " ":
            found.unmapped += 1
            if char < " ":
                char = "\ufffd"
        if style.direction == 0 and frame.turns == 0:
            get_box(text_page, index, loose_box)
            x0, x1 = loose.left - frame.left, loose.right - frame.left
            builder.add(char, x0, x1, style.base, style)
            continue
        pdfium.FPDFText_GetCharBox(text_page, index, *corners)
        one = frame.point(tight[0].value, tight[2].value)
        two = frame.point(tight[1].value, tight[3].value)
        direction = max(style.direction, 0)
        one = turn(*one, direction, frame.width, frame.height)
        two = turn(*two, direction, frame.width, frame.height)
        # The box is the ink's; beside it lies what belongs to the letter, too.
        side = (_NARROW if char in "1Iijl.,:;'|!" else _BEARING) * style.size
        x0, x1 = min(one[0], two[0]) - side, max(one[0], two[0]) + side
        builder.add(char, x0, x1, style.base, style)
    builder.flush()
    return builder.words


def _style(text_page: Any, index: int, owner: Any, frame: _Frame) -> _Style:
    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFText_GetMatrix(text_page, index, matrix)
    a, b, c, d = matrix.a, matrix.b, matrix.c, matrix.d
    degrees = math.degrees(math.atan2(b, a)) - 90 * frame.turns
    direction = round(degrees / 90) * 90
    slanted = abs(degrees - direction) > 4
    direction = -1 if slanted else direction % 360
    size = pdfium.FPDFText_GetFontSize(text_page, index) * (math.hypot(c, d) or math.hypot(a, b))
    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetCharOrigin(text_page, index, x, y)
    shown = frame.point(x.value, y.value)
    base = turn(*shown, max(direction, 0), frame.width, frame.height)[1]
    bold = italic = False
    if font := pdfium.FPDFTextObj_GetFont(owner):
        name = ctypes.create_string_buffer(128)
        pdfium.FPDFFont_GetBaseFontName(font, name, 128)
        family = name.value.decode("latin-1").rpartition("+")[2]
        # The weight that PDFium tells is guessed from the width of stems.
        bold = bool(_BOLD.search(family)) or bool(pdfium.FPDFFont_GetFlags(font) & _FORCE_BOLD)
        italic = bool(_ITALIC.search(family))
    return _Style(direction, max(abs(size), 0.1), base, bold, italic)


def _is_rtl(char: str) -> bool:
    return "\u0590" <= char <= "\u08ff" or "\ufb1d" <= char <= "\ufdff" or "\ufe70" <= char <= "ﻼ"


class _Builder:
    """Join characters, in the order of the file, to words."""

    def __init__(self) -> None:
        self.words: dict[int, list[Word]] = {}
        self._parts: list[str] = []
        self._places: list[tuple[float, str]] = []
        self._x0 = self._x1 = self._base = self._last0 = 0.0
        self._style: _Style | None = None
        self._space = self._rtl = False
        self._was_space = False

    def space(self) -> None:
        self.flush()
        self._was_space = True

    def add(self, char: str, x0: float, x1: float, base: float, style: _Style) -> None:
        rtl = _is_rtl(char)
        if self._parts:
            assert self._style is not None
            size = self._style.size
            gap = x0 - self._x1
            accented = char in _ACCENTS or self._parts[-1] in _ACCENTS
            reach = _SPACE * size
            near = -0.5 * size < gap < reach
            if (rtl or self._rtl) and not near:
                near = -0.5 * size < self._x0 - x1 < reach
            same = style is self._style or (
                abs(base - self._base) < 0.05 * size and abs(style.size - size) < 0.05 * size
                and style[3:] == self._style[3:] and style.direction == self._style.direction
            )  # fmt: skip
            if not (near and same):
                if same and accented and self._accent(char, x0, x1):
                    return
                self.flush()
            elif accented and self._accent(char, x0, x1):
                return
        if not self._parts:
            self._x0, self._x1, self._base, self._style = x0, x1, base, style
            self._space, self._was_space, self._rtl = self._was_space, False, rtl
        self._parts.append(char)
        self._places.append(((x0 + x1) / 2, char))
        self._rtl = self._rtl or rtl
        self._last0 = x0
        self._x0, self._x1 = min(self._x0, x0), max(self._x1, x1)

    def _accent(self, char: str, x0: float, x1: float) -> bool:
        """Compose an accent that was set over, or under, the letter beside it in the file."""
        mark = _ACCENTS.get(self._parts[-1])
        letter = char
        if mark is None and char in _ACCENTS:
            mark, letter = _ACCENTS[char], self._parts[-1]
        if mark is None or not letter.isalpha():
            return False
        middle = (x0 + x1) / 2
        if not self._last0 - 1 <= middle <= self._x1 + 1:
            return False
        composed = unicodedata.normalize("NFC", {"ı": "i", "ȷ": "j"}.get(letter, letter) + mark)
        self._parts[-1] = composed
        self._places[-1] = (middle, composed)
        self._x1 = max(self._x1, x1)
        return True

    def flush(self) -> None:
        if self._parts:
            style = self._style
            assert style is not None
            self.words.setdefault(style.direction, []).append(
                Word(
                    "".join(self._parts), self._x0, self._x1, self._base, style.size,
                    style.bold, style.italic, self._space, self._places if self._rtl else None,
                )
            )  # fmt: skip
        self._parts, self._places = [], []
        self._space = False


def _drawn(page: Any, frame: _Frame) -> tuple[list[Rule], float]:
    """Return the thin level and upright lines, and the share of the page that images cover."""
    rules: list[Rule] = []
    area = [0.0]
    budget = [_MOST_OBJECTS]

    def visit(one: Any, matrix: tuple[float, ...], depth: int) -> None:
        budget[0] -= 1
        kind = pdfium.FPDFPageObj_GetType(one)
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            rules.extend(_rules(one, matrix, frame))
        elif kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            x0, y0, x1, y1 = _bounds(one, matrix, frame)
            inside_x = max(min(x1, frame.width) - max(x0, 0), 0)
            area[0] += inside_x * max(min(y1, frame.height) - max(y0, 0), 0)
        elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _DEEPEST_FORM:
            own = pdfium.FS_MATRIX()
            pdfium.FPDFPageObj_GetMatrix(one, own)
            inner = _product((own.a, own.b, own.c, own.d, own.e, own.f), matrix)
            for index in range(pdfium.FPDFFormObj_CountObjects(one)):
                if budget[0] <= 0:
                    return
                visit(pdfium.FPDFFormObj_GetObject(one, index), inner, depth + 1)

    for index in range(min(pdfium.FPDFPage_CountObjects(page), _MOST_OBJECTS)):
        if budget[0] <= 0:
            break
        visit(pdfium.FPDFPage_GetObject(page, index), (1, 0, 0, 1, 0, 0), 0)
    return rules, min(area[0] / max(frame.width * frame.height, 1), 1.0)


def _product(one: tuple[float, ...], two: tuple[float, ...]) -> tuple[float, ...]:
    a, b, c, d, e, f = one
    g, h, i, j, k, m = two
    return (
        a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j,
        e * g + f * i + k, e * h + f * j + m,
    )  # fmt: skip


def _apply(matrix: tuple[float, ...], x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _bounds(one: Any, matrix: tuple[float, ...], frame: _Frame) -> tuple[float, ...]:
    sides = [ctypes.c_float() for _ in range(4)]
    pdfium.FPDFPageObj_GetBounds(one, *sides)
    x0, y0, x1, y1 = (side.value for side in sides)
    points = [frame.point(*_apply(matrix, x, y)) for x in (x0, x1) for y in (y0, y1)]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return min(xs), min(ys), max(xs), max(ys)


def _rules(path: Any, matrix: tuple[float, ...], frame: _Frame) -> list[Rule]:
    x0, y0, x1, y1 = _bounds(path, matrix, frame)
    if x1 < 0 or y1 < 0 or x0 > frame.width or y0 > frame.height:
        return []
    if y1 - y0 <= _THIN or x1 - x0 <= _THIN:
        return _levelled(x0, y0, x1, y1)
    count = pdfium.FPDFPath_CountSegments(path)
    if count > _MOST_SEGMENTS:
        return []
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, fill, stroke)
    if not stroke.value:
        return []
    own = pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetMatrix(path, own)
    full = _product((own.a, own.b, own.c, own.d, own.e, own.f), matrix)
    rules: list[Rule] = []
    start = last = (0.0, 0.0)
    x, y = ctypes.c_float(), ctypes.c_float()
    for index in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(path, index)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        point = frame.point(*_apply(full, x.value, y.value))
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO:
            rules.extend(_between(last, point))
        last = point
        if pdfium.FPDFPathSegment_GetClose(segment):
            rules.extend(_between(last, start))
            last = start
    return rules


def _between(one: tuple[float, float], two: tuple[float, float]) -> list[Rule]:
    return _levelled(
        min(one[0], two[0]), min(one[1], two[1]), max(one[0], two[0]), max(one[1], two[1])
    )


def _levelled(x0: float, y0: float, x1: float, y1: float) -> list[Rule]:
    if y1 - y0 <= _THIN and x1 - x0 > 4:
        middle = (y0 + y1) / 2
        return [Rule(x0, middle, x1, middle)]
    if x1 - x0 <= _THIN and y1 - y0 > 4:
        middle = (x0 + x1) / 2
        return [Rule(middle, y0, middle, y1)]
    return []
