"""Convert image files to PDF, so that the same code reads and shows all scans."""

import hashlib
import io
from dataclasses import replace
from pathlib import PurePosixPath

from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.formats import Parsed
from rag_pipeline.loading.page_map import PageMap

IMAGE_TYPES = {
    ".png": "image/png",
    **dict.fromkeys((".jpg", ".jpeg"), "image/jpeg"),
    **dict.fromkeys((".tif", ".tiff"), "image/tiff"),
    ".bmp": "image/bmp",
    ".webp": "image/webp",
}
"""The media types of image files, by suffix."""
_LONGEST_POINTS = 842
"""Maximum side of a page in PDF points: the height of A4. Small images have 72 pixels per inch."""


def read_image(document_id: str, raw: bytes) -> Parsed:
    """Read the words of an image by OCR. Raise DocumentError if it has no words or is corrupt."""
    from rag_pipeline.loading.pdf.parse import read_pdf

    parsed = read_pdf(document_id, as_pdf(document_id, raw))
    assert parsed.page_map is not None
    own = replace(PageMap.from_bytes(parsed.page_map), file_hash=hashlib.sha256(raw).hexdigest())
    return parsed._replace(page_map=own.to_bytes())


def as_pdf(document_id: str, raw: bytes) -> bytes:
    """Return an image file as a PDF with one page per frame. Return other files unchanged."""
    suffix = PurePosixPath(document_id).suffix.lower()
    if suffix not in IMAGE_TYPES:
        return raw
    from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(raw)) as image:
            frames = []
            for frame in ImageSequence.Iterator(image):
                upright = ImageOps.exif_transpose(frame).convert("RGBA")
                page = Image.new("RGBA", upright.size, "white")
                page.alpha_composite(upright)
                frames.append(page.convert("RGB"))
    except UnidentifiedImageError:
        raise DocumentError(document_id, f"corrupt {suffix}: it is not an image") from None
    packed = io.BytesIO()
    dots = max(72.0, max(frames[0].size) * 72 / _LONGEST_POINTS)
    frames[0].save(
        packed, "PDF", save_all=True, append_images=frames[1:], resolution=dots, quality=95
    )
    return packed.getvalue()
