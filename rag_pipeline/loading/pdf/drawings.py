"""Read a page's horizontal and vertical lines, and the sizes of its images."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pypdfium2.raw as pdfium

from rag_pipeline.loading.pdf.elements import Frame, Page, Rule, Sides, around, turn

_MAX_OBJECTS = 20_000
_MAX_SEGMENTS = 400
_DEEPEST_FORM = 4
_THIN = 2.5


def read_drawings(page: Any, frame: Frame, found: Page) -> None:
    """Add the drawn lines and image sizes of a loaded page to `found`. Images are not decoded."""
    area = 0.0
    for one, matrix in _objects(page):
        kind = pdfium.FPDFPageObj_GetType(one)
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            found.rules.extend(_rules(one, matrix, frame))
        elif kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            x0, y0, x1, y1 = _bounds(one, matrix, frame)
            inside_x = max(min(x1, frame.width) - max(x0, 0), 0)
            area += inside_x * max(min(y1, frame.height) - max(y0, 0), 0)
            found.image_pixels += _pixels(one)
    found.image_share = min(area / max(frame.width * frame.height, 1), 1.0)


def image_pixels(page: Any) -> int:
    """Return the number of pixels in a loaded page's images, without decoding them."""
    kind = pdfium.FPDF_PAGEOBJ_IMAGE
    objects = (one for one, _ in _objects(page))
    return sum(_pixels(one) for one in objects if pdfium.FPDFPageObj_GetType(one) == kind)


def _pixels(image: Any) -> int:
    width, height = ctypes.c_uint(), ctypes.c_uint()
    pdfium.FPDFImageObj_GetImagePixelSize(image, width, height)
    return width.value * height.value


def _objects(page: Any) -> Iterator[tuple[Any, tuple[float, ...]]]:
    """Yield the objects of a page and its forms, each with the matrix of the forms around it."""
    count = min(pdfium.FPDFPage_CountObjects(page), _MAX_OBJECTS)
    identity: tuple[float, ...] = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    pending = [(pdfium.FPDFPage_GetObject(page, i), identity, 0) for i in reversed(range(count))]
    left = _MAX_OBJECTS
    while pending and left:
        left -= 1
        one, matrix, depth = pending.pop()
        yield one, matrix
        if pdfium.FPDFPageObj_GetType(one) == pdfium.FPDF_PAGEOBJ_FORM and depth < _DEEPEST_FORM:
            inner = _matrix_of(one, matrix)
            count = min(pdfium.FPDFFormObj_CountObjects(one), left)
            pending += [
                (pdfium.FPDFFormObj_GetObject(one, i), inner, depth + 1)
                for i in reversed(range(count))
            ]


def turned_rule(rule: Rule, direction: int, frame: Frame) -> Rule:
    """Return a drawn line after a turn that makes text at `direction` degrees horizontal."""
    one = turn(rule.x0, rule.y0, direction, frame.width, frame.height)
    return Rule(*around(one, turn(rule.x1, rule.y1, direction, frame.width, frame.height)))


def _matrix_of(one: Any, outer: tuple[float, ...]) -> tuple[float, ...]:
    own = pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetMatrix(one, own)
    g, h, i, j, k, m = outer
    return (
        own.a * g + own.b * i, own.a * h + own.b * j, own.c * g + own.d * i,
        own.c * h + own.d * j, own.e * g + own.f * i + k, own.e * h + own.f * j + m,
    )  # fmt: skip


def _apply(matrix: tuple[float, ...], x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _bounds(one: Any, matrix: tuple[float, ...], frame: Frame) -> Sides:
    sides = [ctypes.c_float() for _ in range(4)]
    pdfium.FPDFPageObj_GetBounds(one, *sides)
    x0, y0, x1, y1 = (side.value for side in sides)
    return around(*(frame.point(*_apply(matrix, x, y)) for x in (x0, x1) for y in (y0, y1)))


def _rules(path: Any, matrix: tuple[float, ...], frame: Frame) -> list[Rule]:
    x0, y0, x1, y1 = _bounds(path, matrix, frame)
    if x1 < 0 or y1 < 0 or x0 > frame.width or y0 > frame.height:
        return []
    if y1 - y0 <= _THIN or x1 - x0 <= _THIN:
        return _levelled(x0, y0, x1, y1)
    count = pdfium.FPDFPath_CountSegments(path)
    if count > _MAX_SEGMENTS:
        return []
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, fill, stroke)
    if not stroke.value:
        return []
    full = _matrix_of(path, matrix)
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
            rules.extend(_levelled(*around(last, point)))
        last = point
        if pdfium.FPDFPathSegment_GetClose(segment):
            rules.extend(_levelled(*around(last, start)))
            last = start
    return rules


def _levelled(x0: float, y0: float, x1: float, y1: float) -> list[Rule]:
    if y1 - y0 <= _THIN and x1 - x0 > 4:
        middle = (y0 + y1) / 2
        return [Rule(x0, middle, x1, middle)]
    if x1 - x0 <= _THIN and y1 - y0 > 4:
        middle = (x0 + x1) / 2
        return [Rule(middle, y0, middle, y1)]
    return []
