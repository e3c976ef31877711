"""Render a page of a PDF as an image."""

import io

import pypdfium2 as pdfium

from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.pdf.drawings import image_pixels

MAX_PIXELS = 300_000_000
"""Maximum pixels of all images of a page, as of a sheet of A0 scanned at 400 dpi."""
_SCALE = 1.6
_MAX_SIDE = 1_800
"""Maximum side of a page's image in pixels. Usual pages have `_SCALE` pixels per PDF point."""


def too_large(pixels: int) -> str:
    """Return the reason why a page with `pixels` pixels is not rendered."""
    return f"its images hold {pixels:,} pixels; at most {MAX_PIXELS:,} of a page are decoded"


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
