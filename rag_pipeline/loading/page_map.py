"""Map each line of a document's text to its page and its box on the page."""

import json
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle on a page (from 1), in PDF points from the page's top left corner."""

    page: int
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class PageMap:
    """The box of each line of a text, and the sizes of the pages in PDF points.

    `starts` has the lines' offsets in `Document.text`. A line ends at the next start. Page numbers
    may decrease, because footnotes come after a paragraph that continues on the next page.
    `file_hash` is the SHA-256 of the PDF or image file.
    """

    starts: tuple[int, ...]
    boxes: tuple[Box, ...]
    sizes: tuple[tuple[float, float], ...]
    file_hash: str = ""

    def page_at(self, offset: int) -> int:
        """Return the page (from 1) of the character at an offset."""
        return self.boxes[max(bisect_right(self.starts, offset) - 1, 0)].page

    def pages(self, start: int, end: int) -> tuple[int, ...]:
        """Return the page numbers (from 1) of a span, in ascending order."""
        return tuple(sorted({box.page for box in self.within(start, end)}))

    def within(self, start: int, end: int) -> Sequence[Box]:
        """Return the boxes of the lines that overlap a span."""
        first = max(bisect_right(self.starts, start) - 1, 0)
        last = max(bisect_right(self.starts, max(end - 1, start)), first + 1)
        return self.boxes[first:last]

    def areas(self, start: int, end: int) -> tuple[Box, ...]:
        """Return the boxes of a span. Boxes of consecutive lines in a column are joined."""
        found: list[Box] = []
        for box in self.within(start, end):
            last = found[-1] if found else None
            below = last and box.page == last.page and box.y0 >= last.y0
            if last and below and min(box.x1, last.x1) > max(box.x0, last.x0):
                x0, x1 = min(box.x0, last.x0), max(box.x1, last.x1)
                found[-1] = Box(box.page, x0, last.y0, x1, max(box.y1, last.y1))
            else:
                found.append(box)
        return tuple(found)

    def to_bytes(self) -> bytes:
        """Return the map in packed form, about 6 bytes per line."""
        steps = [start - before for before, start in pairwise((0, *self.starts))]
        sides = ([round(value) for value in side] for side in zip(*self.boxes, strict=True))
        sizes = [[round(w, 1), round(h, 1)] for w, h in self.sizes]
        stored = {"lines": [steps, *sides], "sizes": sizes, "file": self.file_hash}
        return zlib.compress(json.dumps(stored, separators=(",", ":")).encode(), 6)

    @classmethod
    @lru_cache(maxsize=64)
    def from_bytes(cls, packed: bytes) -> "PageMap":
        """Return the map that `to_bytes` packed."""
        stored = json.loads(zlib.decompress(packed))
        steps, *columns = stored["lines"]
        boxes = (Box(page, *map(float, sides)) for page, *sides in zip(*columns, strict=True))
        sizes = tuple((float(w), float(h)) for w, h in stored["sizes"])
        return cls(tuple(accumulate(steps)), tuple(boxes), sizes, stored["file"])
