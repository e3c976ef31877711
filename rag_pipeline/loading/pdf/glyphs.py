"""Read a page's drawn lines, and its words with position, size and weight, by PDFium."""

import ctypes
import math
import re
import unicodedata
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from rag_pipeline.loading.pdf.drawings import read_drawings, turned_rule
from rag_pipeline.loading.pdf.elements import Frame, Page, Word, turn
from rag_pipeline.loading.pdf.render import MAX_PIXELS
from rag_pipeline.loading.pdf.visibility import drop_unseen
from rag_pipeline.loading.unseen import NO_WIDTH, WITHOUT_WIDTH

MAX_CHARACTERS = 200_000
"""Maximum number of characters that are read from a page."""
_SPACE = 0.13
"""Minimum gap between words, in font sizes. Gaps by kerning are smaller."""
_BEARING = 0.045
_NARROW = 0.09
_BOLD = re.compile(r"bold|black|heavy|demi|semibd|-bd|cmbx|cmb\d|sfbx|-medi|[-_]b\b", re.I)
_ITALIC = re.compile(r"ital|obli|cmti|cmsl|[-_]i\b|-it\b", re.I)
_FORCE_BOLD = 1 << 18
_LATIN_END = "\u0250"
"""The end of the letters in PDFium's own fonts, which replace fonts that a file does not embed."""
_LIGATURES = {
    "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st",
    "\x02": "-", "\xad": "-", "\u2010": "-", "\u2011": "-", "\uf0b7": "•", "\uf0a7": "•",
    "\u25cf": "•", "\u25aa": "•", "\u2028": " ", "\xa0": " ",
}  # fmt: skip
_ACCENTS = {
    "´": "\u0301", "`": "\u0300", "¨": "\u0308", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327",
    "ˇ": "\u030c", "˚": "\u030a", "˝": "\u030b", "˙": "\u0307", "˘": "\u0306",
    "¯": "\u0304", "ˉ": "\u0304", "˛": "\u0328",
}  # fmt: skip


class _Style(NamedTuple):
    direction: int
    size: float
    base: float
    bold: bool
    italic: bool
    drawn: bool
    drawable: bool


def read_glyphs(page: Any) -> Page:
    """Return the words, the drawn lines and the image sizes of a loaded page."""
    frame = Frame(page)
    text_page = pdfium.FPDFText_LoadPage(page)
    found = Page(frame.width, frame.height)
    owners: dict[int, Any] = {}
    try:
        runs = _words(text_page, frame, found, owners) if text_page else {}
    finally:
        if text_page:
            pdfium.FPDFText_ClosePage(text_page)
    read_drawings(page, frame, found)
    weights = {turn: sum(len(w.text) for w in words) for turn, words in runs.items() if turn >= 0}
    main = max(weights, key=lambda turn: (weights[turn], -turn), default=0)
    found.words = runs.pop(main, [])
    found.turned = main
    if main:
        found.rules = [turned_rule(rule, main, frame) for rule in found.rules]
        if main in (90, 270):
            found.width, found.height = frame.height, frame.width
    if found.image_pixels <= MAX_PIXELS:
        drop_unseen(page, found, owners.values())
    return found


def _words(
    text_page: Any, frame: Frame, found: Page, owners: dict[int, Any]
) -> dict[int, list[Word]]:
    """Return the words by their direction in degrees, or -1 for slanted text."""
    builder = _Builder()
    styles: dict[int, _Style] = {}
    loose, tight = pdfium.FS_RECTF(), [ctypes.c_double() for _ in range(4)]
    corners = [ctypes.byref(one) for one in tight]
    get_unicode, get_object = pdfium.FPDFText_GetUnicode, pdfium.FPDFText_GetTextObject
    get_box, loose_box = pdfium.FPDFText_GetLooseCharBox, ctypes.byref(loose)
    count = min(pdfium.FPDFText_CountChars(text_page), MAX_CHARACTERS)
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
            continue  # a blank or line end that PDFium inserted
        address = ctypes.addressof(owner.contents)
        if address != last:
            last = address
            style = styles.get(address)
            if style is None:
                style = styles[address] = _style(text_page, index, owner, frame)
                owners[address] = owner
        assert style is not None
        char = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
        if NO_WIDTH.match(char):
            found.unseen[WITHOUT_WIDTH] += 1
            continue
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
            builder.add(char, x0, x1, style)
            continue
        pdfium.FPDFText_GetCharBox(text_page, index, *corners)
        one = frame.point(tight[0].value, tight[2].value)
        two = frame.point(tight[1].value, tight[3].value)
        direction = max(style.direction, 0)
        one = turn(*one, direction, frame.width, frame.height)
        two = turn(*two, direction, frame.width, frame.height)
        # The box covers only the ink, so add the letter's side bearings.
        side = (_NARROW if char in "1Iijl.,:;'|!" else _BEARING) * style.size
        x0, x1 = min(one[0], two[0]) - side, max(one[0], two[0]) + side
        builder.add(char, x0, x1, style)
    builder.flush()
    return builder.words


def _style(text_page: Any, index: int, owner: Any, frame: Frame) -> _Style:
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
    embedded = True
    if font := pdfium.FPDFTextObj_GetFont(owner):
        name = ctypes.create_string_buffer(128)
        pdfium.FPDFFont_GetBaseFontName(font, name, 128)
        family = name.value.decode("latin-1").rpartition("+")[2]
        # The name is more reliable than PDFium's weight, which is guessed from the stems' width.
        bold = bool(_BOLD.search(family)) or bool(pdfium.FPDFFont_GetFlags(font) & _FORCE_BOLD)
        italic = bool(_ITALIC.search(family))
        embedded = pdfium.FPDFFont_GetIsEmbedded(font) != 0
    drawn = pdfium.FPDFTextObj_GetTextRenderMode(owner) != pdfium.FPDF_TEXTRENDERMODE_INVISIBLE
    return _Style(direction, max(abs(size), 0.1), base, bold, italic, drawn, embedded)


def _is_rtl(char: str) -> bool:
    return "\u0590" <= char <= "\u08ff" or "\ufb1d" <= char <= "\ufdff" or "\ufe70" <= char <= "ﻼ"


class _Builder:
    """The words of a page, joined from characters in the order of the file."""

    def __init__(self) -> None:
        self.words: dict[int, list[Word]] = {}
        self._places: list[tuple[float, str]] = []
        self._x0 = self._x1 = self._last0 = 0.0
        self._style: _Style | None = None
        self._space = self._rtl = False
        self._was_space = False

    def space(self) -> None:
        self.flush()
        self._was_space = True

    def add(self, char: str, x0: float, x1: float, style: _Style) -> None:
        rtl = _is_rtl(char)
        if self._places:
            assert self._style is not None
            size = self._style.size
            gap = x0 - self._x1
            accented = char in _ACCENTS or self._places[-1][1] in _ACCENTS
            reach = _SPACE * size
            near = -0.5 * size < gap < reach
            if (rtl or self._rtl) and not near:
                near = -0.5 * size < self._x0 - x1 < reach
            same = style is self._style or (
                abs(style.base - self._style.base) < 0.05 * size
                and abs(style.size - size) < 0.05 * size
                and style[3:] == self._style[3:] and style.direction == self._style.direction
            )  # fmt: skip
            if same and accented and self._accent(char, x0, x1):
                return
            if not (near and same):
                self.flush()
        if not self._places:
            self._x0, self._x1, self._style = x0, x1, style
            self._space, self._was_space, self._rtl = self._was_space, False, rtl
        self._places.append(((x0 + x1) / 2, char))
        self._rtl = self._rtl or rtl
        self._last0 = x0
        self._x0, self._x1 = min(self._x0, x0), max(self._x1, x1)

    def _accent(self, char: str, x0: float, x1: float) -> bool:
        """Combine an accent with the letter before or after it, or return False if none fits."""
        last = self._places[-1][1]
        mark, letter = _ACCENTS.get(last), char
        if mark is None and char in _ACCENTS:
            mark, letter = _ACCENTS[char], last
        if mark is None or not letter.isalpha() or letter in _ACCENTS:
            return False
        middle = (x0 + x1) / 2
        if not self._last0 - 1 <= middle <= self._x1 + 1:
            return False
        composed = unicodedata.normalize("NFC", {"ı": "i", "ȷ": "j"}.get(letter, letter) + mark)
        self._places[-1] = (middle, composed)
        self._x1 = max(self._x1, x1)
        return True

    def flush(self) -> None:
        if self._places:
            style = self._style
            assert style is not None
            self.words.setdefault(style.direction, []).append(
                Word(
                    "".join(char for _, char in self._places),
                    self._x0, self._x1, style.base, style.size,
                    style.bold, style.italic, self._space, self._places if self._rtl else None,
                    style.drawn, style.drawable or self._places[0][1] < _LATIN_END,
                )
            )  # fmt: skip
        self._places = []
        self._space = False
