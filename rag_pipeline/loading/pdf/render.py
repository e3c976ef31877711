"""A page of a PDF -> an image of it."""

import io

import pypdfium2 as pdfium

from rag_pipeline.errors import DocumentError

_SCALE = 1.6
_LONGEST_SIDE = 1_800
"""Pixels, at `_SCALE` pixels a point for pages of the usual sizes."""


def render_page(document_id: str, raw: bytes, number: int) -> bytes:
    """Return a page, counted from 1, as PNG; raise DocumentError where there is no such page."""
    with pdfium.PdfDocument(raw) as document:
        if not 1 <= number <= len(document):
            raise DocumentError(document_id, f"there is no page {number}: it has {len(document)}")
        page = document[number - 1]
        longest = max(*page.get_size(), 1.0)
        image = page.render(scale=min(_SCALE, _LONGEST_SIDE / longest)).to_pil()
    packed = io.BytesIO()
    image.convert("RGB").save(packed, "PNG")
    return packed.getvalue()
