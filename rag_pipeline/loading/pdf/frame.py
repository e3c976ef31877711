"""Convert coordinates between a page's content, the displayed page and its turned text."""

from typing import Any

import pypdfium2.raw as pdfium

Sides = tuple[float, float, float, float]
"""The left, top, right and bottom of an area, in PDF points."""


def around(*points: tuple[float, float]) -> Sides:
    """Return the smallest area that contains the points."""
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


class Frame:
    """Convert coordinates of a page's content to the displayed page, in PDF points."""

    def __init__(self, page: Any) -> None:
        box = pdfium.FS_RECTF()
        pdfium.FPDF_GetPageBoundingBox(page, box)
        self.left, self.top = min(box.left, box.right), max(box.bottom, box.top)
        self.turns = pdfium.FPDFPage_GetRotation(page) % 4
        self._sides = abs(box.right - box.left), abs(box.top - box.bottom)
        self.width, self.height = self._sides if self.turns % 2 == 0 else self._sides[::-1]

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point of the page's content lies on the displayed page."""
        return turn(x - self.left, self.top - y, 90 * self.turns, *self._sides)


def turn(x: float, y: float, direction: int, width: float, height: float) -> tuple[float, float]:
    """Return a point after the turn that makes text at `direction` degrees horizontal.

    `width` and `height` are those of the displayed page.
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
