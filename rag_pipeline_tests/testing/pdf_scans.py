"""PDFs of pictures of pages: drawn, laid askew, with noise, as a scanner leaves them."""

import io

import numpy as np
import pypdfium2
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

_NOISE = 12
"""The standard deviation of the noise, of 255."""


def scanned(raw: bytes, turn: int = 0, angle: float = 0.7, dpi: int = 200, pages: int = 1) -> bytes:
    """Return a PDF of images of the first pages, turned by quarters and askew by degrees."""
    chance = np.random.default_rng(1)
    document = pypdfium2.PdfDocument(raw)
    out = io.BytesIO()
    canvas = Canvas(out)
    for number in range(min(len(document), pages)):
        drawn = document[number].render(scale=dpi / 72).to_pil().convert("L")
        askew = drawn.rotate(angle, fillcolor=255, resample=Image.Resampling.BICUBIC)
        grey = np.asarray(askew, dtype=float)
        noisy = np.clip(grey + chance.normal(0, _NOISE, grey.shape), 0, 255).astype(np.uint8)
        image = Image.fromarray(noisy).rotate(turn, expand=True)
        width, height = (side * 72 / dpi for side in image.size)
        packed = io.BytesIO()
        image.save(packed, "JPEG", quality=80)
        packed.seek(0)
        canvas.setPageSize((width, height))
        canvas.drawImage(ImageReader(packed), 0, 0, width, height)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def mixed_pdf() -> bytes:
    """Return a PDF of a page with text and a page that is a picture of a line."""
    drawn = io.BytesIO()
    line = Canvas(drawn, pagesize=(300, 60))
    line.setFont("Helvetica", 14)
    line.drawString(20, 25, "The rent falls due in March.")
    line.save()
    picture = pypdfium2.PdfDocument(drawn.getvalue())[0].render(scale=200 / 72).to_pil()
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(420, 220), invariant=1)
    canvas.drawString(30, 100, "Fees are due in March, and again in September of each year.")
    canvas.showPage()
    canvas.setPageSize((300, 60))
    canvas.drawImage(ImageReader(picture), 0, 0, 300, 60)
    canvas.save()
    return out.getvalue()
