"""Define the parts of a page.

Coordinates are PDF points from the top left corner of the turned page. A page is turned by its
/Rotate entry, and then to make most of its text horizontal.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeVar

from rag_pipeline.loading.page_map import Box
from rag_pipeline.loading.pdf.frame import around, turn_back

T = TypeVar("T")


def split(items: Sequence[T], apart: Callable[[T, T], bool]) -> list[list[T]]:
    """Split a sequence between neighbours for which `apart` is true."""
    groups = [[item] for item in items[:1]]
    for before, item in pairwise(items):
        if apart(before, item):
            groups.append([])
        groups[-1].append(item)
    return groups


class Rule(NamedTuple):
    """Describe a thin horizontal or vertical line by its two ends."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(slots=True)
class Word:
    """Hold adjacent characters of one style. `base` is the y coordinate of the baseline.

    - `space`: whether a typed blank precedes the word.
    - `clusters`: pairs (x, characters) of a right-to-left word, or None for any other word. The
      order of the characters on the page differs from the reading order.
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
        """Return the estimated y coordinate of the top of the letters."""
        return self.base - 0.75 * self.size

    @property
    def middle(self) -> tuple[float, float]:
        """Return the estimated middle of the word's small letters as (x, y)."""
        return (self.x0 + self.x1) / 2, self.base - 0.3 * self.size


@dataclass(slots=True)
class Line:
    """Hold the words on one baseline, as text in reading order.

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
        """Return the estimated y coordinate of the top of the letters or the table."""
        return self.row_bases[0] - self.size if self.row_bases else self.base - 0.75 * self.size


@dataclass(slots=True)
class Page:
    """Hold the content of one page, except text that does not run in the main direction."""

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
    """The number of characters that were left out because nobody sees them, by reason."""
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
