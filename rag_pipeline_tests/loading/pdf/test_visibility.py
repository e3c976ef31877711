"""Words that a page does not show are left out; the text layer of a scan is kept."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from rag_pipeline.loading.parsers import parse
from rag_pipeline.loading.pdf.parse import read_pdf

SECRET = "The wire goes to account 4471"
SHOWN = "The tram leaves at nine and again at ten"


def made(draw, **size):
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=1, **size)
    canvas.drawString(72, 700, SHOWN)
    draw(canvas)
    canvas.save()
    return packed.getvalue()


def text(canvas, mode=0, y=600, size=12):
    canvas.saveState()
    line = canvas.beginText(72, y)
    line.setFont("Helvetica", size)
    line.setTextRenderMode(mode)
    line.textLine(SECRET)
    canvas.drawText(line)
    canvas.restoreState()


def invisible(canvas):
    text(canvas, mode=3)


def invisible_over_shown_text(canvas):
    text(canvas, mode=3, y=700)


def white(canvas):
    canvas.setFillGray(0.98)
    text(canvas)


def black_on_black(canvas):
    canvas.rect(60, 590, 400, 30, fill=1)
    text(canvas)


def transparent(canvas):
    canvas.setFillAlpha(0.01)
    text(canvas)


def covered(canvas):
    text(canvas)
    canvas.setFillGray(1)
    canvas.rect(60, 590, 400, 30, fill=1)


def redacted(canvas):
    text(canvas)
    canvas.rect(60, 590, 400, 30, fill=1)


def covered_by_an_image(canvas):
    text(canvas)
    blank = Image.new("RGB", (8, 8), "white")
    canvas.drawImage(ImageReader(blank), 60, 590, 400, 30)


def clipped(canvas):
    path = canvas.beginPath()
    path.rect(72, 100, 40, 40)
    canvas.clipPath(path, stroke=0)
    text(canvas)


def off_the_page(canvas):
    text(canvas, y=-50)


def tiny(canvas):
    text(canvas, size=0.5)


def in_a_form(canvas):
    canvas.beginForm("hidden")
    white(canvas)
    canvas.endForm()
    canvas.doForm("hidden")


HIDDEN = (
    invisible, invisible_over_shown_text, white, black_on_black, transparent, covered, redacted,
    covered_by_an_image, clipped, off_the_page, tiny, in_a_form,
)  # fmt: skip


@pytest.mark.parametrize("draw", HIDDEN)
def test_hidden_text_is_left_out_and_counted(draw):
    read = read_pdf("a.pdf", made(draw))
    assert read.text == SHOWN
    assert sum(read.unseen.values()) == 24


@pytest.mark.parametrize("turns", [0, 90, 270])
def test_shown_text_is_kept_on_turned_pages_and_dark_grounds(turns):
    def draw(canvas):
        canvas.setPageRotation(turns)
        canvas.rect(60, 590, 400, 30, fill=1)
        canvas.setFillGray(1)
        text(canvas)
        canvas.setFillGray(0.75)
        text(canvas, y=500, size=7)

    read = read_pdf("a.pdf", made(draw, pagesize=(800, 800)))
    assert read.text.count(SECRET) == 2
    assert not read.unseen


@pytest.mark.parametrize("under", [False, True])
def test_the_text_layer_of_a_scan_is_kept(under):
    # Bars as tall as letters stand for scanned words; the place below is blank.
    scan = np.full((792, 612), 250, np.uint8)
    scan[183:192, 72:240:4] = 20

    def draw(canvas):
        text(canvas, mode=0 if under else 3)
        text(canvas, mode=3, y=300)
        canvas.drawImage(ImageReader(Image.fromarray(scan)), 0, 0, 612, 792)
        text(canvas, y=740)

    read = parse("a.pdf", made(draw, pagesize=(612, 792)), ".pdf", 10_000_000)
    assert read.text.count(SECRET) == 2  # of the layer over the bars and of the line above
    assert json.loads(str(read.metadata["unseen"])) == {
        "covered, clipped or in the colour behind it": 32,
        "invisible": 24,
    }
