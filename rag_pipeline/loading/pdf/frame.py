"""Convert coordinates between a page's content, the displayed page and its turned text."""

from typing import Any

import pypdfium2.raw as pdfium

Sides = tuple[float, float, float, float]
"""Left, top, right and bottom of an area."""


def around(*points: tuple[float, float]) -> Sides:
    """Return the sides of the smallest area around points."""
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


class Frame:
    """Converts coordinates of a page's content to the displayed page."""

    def __init__(self, page: Any) -> None:
        box = pdfium.FS_RECTF()
        pdfium.FPDF_GetPageBoundingBox(page, box)
        self.left, self.right = min(box.left, box.right), max(box.left, box.right)
        self.bottom, self.top = min(box.bottom, box.top), max(box.bottom, box.top)
        self.turns = pdfium.FPDFPage_GetRotation(page) % 4
        sides = self.right - self.left, self.top - self.bottom
        self.width, self.height = sides if self.turns % 2 == 0 else sides[::-1]

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of a content point on the displayed page."""
        if self.turns == 0:
            return x - self.left, self.top - y
        if self.turns == 1:
            return y - self.bottom, x - self.left
        if self.turns == 2:
            return self.right - x, y - self.bottom
        return self.top - y, self.right - x


def turn(x: float, y: float, direction: int, width: float, height: float) -> tuple[float, float]:
    """Return a point's position on the page turned so that text of `direction` is level."""
    if direction == 90:
        return height - y, x
    if direction == 180:
        return width - x, height - y
    if direction == 270:
        return y, width - x
    return x, y


def turn_back(x: float, y: float, direction: int, w: float, h: float) -> tuple[float, float]:
    """Undo `turn`; `w` and `h` are the displayed page's width and height."""
    return turn(x, y, -direction % 360, *((h, w) if direction in (90, 270) else (w, h)))
