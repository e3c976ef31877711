"""Pages that are images: recognised where the extra is there, named where it is not."""

import io
import sys

import pytest
from PIL import Image, ImageDraw, ImageFont

from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import DocumentError, MissingExtraError
from rag_pipeline.loading.formats import Parsed
from rag_pipeline.loading.parser_process import render_apart
from rag_pipeline.loading.parsers import parse
from rag_pipeline.loading.pdf.parse import read_pdf
from rag_pipeline.loading.quality import TextQuality
from rag_pipeline_tests.testing.pdf_layouts import Sheet
from rag_pipeline_tests.testing.pdf_measures import character_accuracy
from rag_pipeline_tests.testing.pdf_scans import mixed_pdf, scanned
from rag_pipeline_tests.testing.pdf_set import MadePdf

TEXT = (
    "The harbour master records the temperature of the water before the tide turns. Our second "
    "survey compares three independent ledgers with considerable patience."
)

INSTALL_OCR = str(MissingExtraError("", "ocr")).partition("run: ")[2]
"""The command that is held to work in rag_pipeline_tests/test_errors.py."""


def small_page() -> MadePdf:
    """Return a page of two short columns, of few lines: recognition is slow."""
    sheet = Sheet((420, 220), "Helvetica", 11)
    for left, text in ((30, TEXT), (225, TEXT.replace("harbour", "station"))):
        sheet.column(left, left + 165, 190, 20)
        sheet.paragraph(text, indent=0)
    return MadePdf("small", sheet.finish(), sheet.texts)


def quality(read: Parsed) -> TextQuality:
    return TextQuality.from_json(str(read.metadata["text_quality"]))


@pytest.mark.long
@pytest.mark.parametrize(("turn", "angle"), [(0, 0.6), (90, 0.0)])
def test_a_scan_of_two_columns_is_read(turn, angle):
    pytest.importorskip("rapidocr", reason="pip install 'rag_pipeline[ocr]'")
    made = small_page()
    read = read_pdf("small", scanned(made.raw, turn, angle))
    assert character_accuracy(made, read.text) >= 0.98
    found = quality(read)
    assert (found.recognised, found.unread) == (1, 0)
    assert found.confidence is not None
    assert found.confidence > 0.9


@pytest.mark.long
def test_each_frame_of_an_image_file_is_a_page():
    pytest.importorskip("rapidocr", reason="pip install 'rag_pipeline[ocr]'")
    frames = []
    for text, ground in (("Parking space 14", (0, 0, 0, 0)), ("Expires in May", (255,) * 4)):
        frames.append(Image.new("RGBA", (420, 60), ground))
        ImageDraw.Draw(frames[-1]).text((20, 15), text, "black", ImageFont.load_default(30))
    packed = io.BytesIO()
    frames[0].save(packed, "TIFF", save_all=True, append_images=frames[1:])
    read = parse("permit.TIF", packed.getvalue(), ".tif", 10**6)
    assert read.text.replace("## ", "") == "Parking space 14\n\nExpires in May"
    assert read.metadata["pages"] == 2
    shown = Image.open(
        io.BytesIO(render_apart("permit.TIF", packed.getvalue(), 2, DocumentsSource(path=".")))
    )
    assert shown.size == (672, 96)  # 420 x 60 points at 1.6 pixels each


@pytest.mark.parametrize("is_image", [False, True])
def test_without_the_extra_a_scan_is_refused_with_a_hint(monkeypatch, is_image):
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(DocumentError) as caught:
        if is_image:
            packed = io.BytesIO()
            Image.new("L", (300, 400), 200).save(packed, "JPEG")
            parse("scan.jpg", packed.getvalue(), ".jpg", 10**6)
        else:
            read_pdf("scan.pdf", scanned(small_page().raw))
    assert caught.value.reason == (
        f"no text: it is a scanned page; to read it, run `{INSTALL_OCR}` and `rag run`"
    )


def test_unread_pages_of_a_mixed_document_are_counted(monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    read = read_pdf("mixed.pdf", mixed_pdf())
    assert read.missing_extra == "ocr"
    assert read.text == "Fees are due in March, and again in September of each year."
    assert quality(read).unread == 1
    assert quality(read).warnings() == [
        "1 of 2 pages are images that were not read; "
        f"to read them, run `{INSTALL_OCR}` and `rag run`"
    ]
