"""Define the parts of a page, and convert coordinates between a page's content and its turned text.

Coordinates are PDF points from the top left corner of the turned page. A page is turned by its
/Rotate entry, and then to make most of its text horizontal.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import pypdfium2.raw as pdfium

from rag_pipeline.loading.page_map import Box

T = TypeVar("T")
Sides = tuple[float, float, float, float]
"""The left, top, right and bottom of an area, in PDF points."""


def split(items: Sequence[T], apart: Callable[[T, T], bool]) -> list[list[T]]:
    """Split a sequence between neighbours for which `apart` returns True."""
    groups = [[item] for item in items[:1]]
    for before, item in pairwise(items):
        if apart(before, item):
            groups.append([])
        groups[-1].append(item)
    return groups


def around(*points: tuple[float, float]) -> Sides:
    """Return the smallest area that contains the points."""
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


class Frame:
    """The displayed page, and the conversion of its content's coordinates, in PDF points."""

    def __init__(self, page: Any) -> None:
        box = pdfium.FS_RECTF()
        pdfium.FPDF_GetPageBoundingBox(page, box)
        self.left, self.top = min(box.left, box.right), max(box.bottom, box.top)
        self.turns = pdfium.FPDFPage_GetRotation(page) % 4
        self._sides = abs(box.right - box.left), abs(box.top - box.bottom)
        self.width, self.height = self._sides if self.turns % 2 == 0 else self._sides[::-1]

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Convert a point of the page's content to the displayed page."""
        return turn(x - self.left, self.top - y, 90 * self.turns, *self._sides)


def turn(x: float, y: float, direction: int, width: float, height: float) -> tuple[float, float]:
    """Return a point after a turn that makes text at `direction` degrees horizontal.

    `width` and `height` are the sides of the displayed page.
    """
    if direction == 90:
        return height - y, x
    if direction == 180:
        return width - x, height - y
    if direction == 270:
        return y, width - x
    return x, y


def turn_back(x: float, y: float, direction: int, w: float, h: float) -> tuple[float, float]:
    """Reverse `turn`. `w` and `h` are the displayed page's width and height."""
    return turn(x, y, -direction % 360, *((h, w) if direction in (90, 270) else (w, h)))


class Rule(NamedTuple):
    """A thin horizontal or vertical line, given by its two ends."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(slots=True)
class Word:
    """Adjacent characters of one style. `base` is the y coordinate of the baseline.

    - `space`: whether a typed blank precedes the word.
    - `clusters`: pairs (x, characters) of a right-to-left word, or None for other words. The order
      of the characters in the file may differ from the reading order.
    - `drawn`: False for text in PDF's invisible mode.
    - `drawable`: False if the renderer may lack the font.
    """

    text: str
    x0: float
    x1: float
    base: float
    size: float
    bold: bool = False
    italic: bool = False
    space: bool = False
    clusters: list[tuple[float, str]] | None = None
    drawn: bool = True
    drawable: bool = True

    @property
    def top(self) -> float:
        """Return the estimated y coordinate of the letters' top."""
        return self.base - 0.75 * self.size

    @property
    def middle(self) -> tuple[float, float]:
        """Return the estimated middle of the word's small letters as (x, y)."""
        return (self.x0 + self.x1) / 2, self.base - 0.3 * self.size


@dataclass(slots=True)
class Line:
    """The text on one baseline, in reading order.

    `left` and `right` are the sides of the column. `marker` is the text of a raised first word,
    such as a footnote's number. A line with cells in `table` represents a whole table.
    """

    text: str
    x0: float
    x1: float
    base: float
    size: float
    bold: bool
    italic: bool
    left: float
    right: float
    page: int = 0
    column: int = 0
    first_width: float = 0.0
    marker: str = ""
    rtl: bool = False
    table: list[list[str]] | None = None
    row_bases: list[float] = field(default_factory=list)
    parts: tuple[str, ...] = ()
    """The parts of the text between wide gaps."""

    @property
    def top(self) -> float:
        """Return the estimated y coordinate of the letters' or the table's top."""
        return self.row_bases[0] - self.size if self.row_bases else self.base - 0.75 * self.size


@dataclass(slots=True)
class Page:
    """The content of one page, without text that runs in another direction than most text."""

    width: float = 0.0
    height: float = 0.0
    turned: int = 0
    """Degrees by which the page was turned counterclockwise to make its words horizontal."""
    words: list[Word] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    characters: int = 0
    unmapped: int = 0
    unseen: Counter[str] = field(default_factory=Counter)
    """The number of omitted characters that nobody sees, by reason."""
    image_share: float = 0.0
    """The share of the page (0 to 1) that images cover."""
    image_pixels: int = 0
    confidence: float | None = None
    """Mean confidence (0 to 1) of the recognised characters, or None without recognition."""

    @property
    def displayed(self) -> tuple[float, float]:
        """Return the width and height of the displayed page, in PDF points."""
        sides = self.width, self.height
        return sides if self.turned % 180 == 0 else sides[::-1]

    def box(self, line: Line, top: float, base: float) -> Box:
        """Return a line's box on the displayed page, from `top` to just below `base`."""
        one = turn_back(line.x0, top, self.turned, *self.displayed)
        two = turn_back(line.x1, base + 0.25 * line.size, self.turned, *self.displayed)
        return Box(line.page + 1, *around(one, two))
