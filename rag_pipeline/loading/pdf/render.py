"""Render a page of a PDF as an image."""

import ctypes
import io
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw_pdfium

from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.pdf.drawings import image_pixels

MAX_PIXELS = 300_000_000
"""Maximum number of pixels in a page's images. An A0 sheet scanned at 400 dpi has fewer."""
_SCALE = 1.6
_MAX_SIDE = 1_800
"""Maximum side of a page's image in pixels. Smaller images have `_SCALE` pixels per PDF point."""
LONGEST_DRAWN = 3600
"""Maximum side in pixels of a page that is drawn for OCR or for finding unseen words."""


Image = np.ndarray[Any, np.dtype[np.uint8]]
"""The colours (0 to 255) of a page, of shape (rows, columns, 3)."""


def drawn(page: Any, scale: float) -> tuple[Image, float]:
    """Return the image of a loaded page with its annotations, and its pixels per PDF point.

    To save memory, `scale` is reduced if the longest side would exceed 3,600 pixels.
    """
    width, height = raw_pdfium.FPDF_GetPageWidthF(page), raw_pdfium.FPDF_GetPageHeightF(page)
    scale = min(scale, float(LONGEST_DRAWN / max(width, height, 1.0)))
    columns, rows = max(int(width * scale), 1), max(int(height * scale), 1)
    pixels = np.full((rows, columns, 4), 255, np.uint8)
    bitmap = raw_pdfium.FPDFBitmap_CreateEx(
        *(columns, rows, raw_pdfium.FPDFBitmap_BGRx),
        *(pixels.ctypes.data_as(ctypes.c_void_p), columns * 4),
    )
    try:
        raw_pdfium.FPDF_RenderPageBitmap(
            bitmap, page, 0, 0, columns, rows, 0, raw_pdfium.FPDF_ANNOT
        )
    finally:
        raw_pdfium.FPDFBitmap_Destroy(bitmap)
    return pixels[:, :, :3], scale


def too_large(pixels: int) -> str:
    """Return the reason for not rendering a page whose images have `pixels` pixels."""
    return f"its images have {pixels:,} pixels, more than {MAX_PIXELS:,} per page"


def render_page(document_id: str, raw: bytes, number: int) -> bytes:
    """Return page `number` (from 1) as PNG, or raise DocumentError if it can't be shown."""
    with pdfium.PdfDocument(raw) as document:
        if not 1 <= number <= len(document):
            raise DocumentError(document_id, f"there is no page {number}: it has {len(document)}")
        page = document[number - 1]
        if (pixels := image_pixels(page.raw)) > MAX_PIXELS:
            raise DocumentError(document_id, f"page {number} can't be shown: {too_large(pixels)}")
        longest = max(*page.get_size(), 1.0)
        image = page.render(scale=min(_SCALE, _MAX_SIDE / longest)).to_pil()
    packed = io.BytesIO()
    image.convert("RGB").save(packed, "PNG")
    return packed.getvalue()
