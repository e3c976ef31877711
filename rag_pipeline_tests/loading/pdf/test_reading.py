"""Text, headings, tables, furniture and pages of PDFs that are made from known text."""

from itertools import pairwise

import pytest

from rag_pipeline.loading.page_map import PageMap
from rag_pipeline.loading.pdf.parse import read_pdf
from rag_pipeline_tests.testing.pdf_layouts import Sheet
from rag_pipeline_tests.testing.pdf_measures import measure
from rag_pipeline_tests.testing.pdf_set import MadePdf, makers

MAKERS = dict(makers())


@pytest.mark.parametrize("name", MAKERS)
def test_a_made_pdf_is_read_as_written(name):
    made: MadePdf = MAKERS[name]()
    read = read_pdf(name, made.raw)
    found = measure(made, read.text, read.page_map)
    assert found.characters >= 0.995
    assert found.headings is None or found.headings >= 0.9
    assert found.cells is None or found.cells >= 0.95
    assert found.furniture is None or found.furniture >= 0.98
    assert found.pages is None or found.pages >= 0.99
    assert read.title == made.title


FOOTERS = {
    "beside a page number": (["Alster GmbH, Elbchaussee 7, HRB 9021", "Confidential   1 of 1"], []),
    "beside a page word": (["Alster GmbH, Elbchaussee 7", "Seite 3"], []),
    "without a page number": (["Alster GmbH, IBAN DE02 1203", "Phone 040 555"], [0, 1]),
    "a footnote": (["1 The fee includes all taxes.", "Page 1"], [0]),
    "a small table": (["Fee in EUR   19"], [0]),
}


@pytest.mark.parametrize("name", FOOTERS)
def test_the_footer_of_a_single_page_is_known_by_its_page_number(name):
    lines, kept = FOOTERS[name]
    sheet = Sheet((595, 842), "Helvetica", 11)
    for at in (700, 684, 668):
        sheet.canvas.setFont("Helvetica", 11)
        sheet.canvas.drawString(70, at, "It is due in May and June.")
    sheet.canvas.setFont("Helvetica", 8)
    for number, text in enumerate(lines):
        for part, words in enumerate(text.split("   ")):
            sheet.canvas.drawString(70 + 300 * part, 50 - 11 * number, words)
    read = read_pdf("letter", sheet.finish())
    assert "It is due in May and June." in read.text
    for number, text in enumerate(lines):
        assert (text.split()[0] in read.text.split()) == (number in kept)


def test_boxes_match_the_drawn_lines():
    made = MAKERS["clauses-0"]()
    read = read_pdf("clauses-0", made.raw)
    title = read.text.index("SERVICES AGREEMENT")
    placed = PageMap.from_bytes(read.page_map)
    (box,) = placed.within(title, title + 5)
    # Drawn centred on a page of 612 x 792 points, with the baseline 90 below the top.
    assert box.page == 1
    assert box.y0 < 90 < box.y1
    assert abs((box.x0 + box.x1) / 2 - 306) < 2
    assert placed.sizes[0] == (612, 792)


def test_the_box_of_a_tables_row_begins_below_the_text_of_the_row_above():
    read = read_pdf("invoice-0", next(m for n, m in MAKERS.items() if "invoice" in n)().raw)
    placed = PageMap.from_bytes(read.page_map)
    lines = zip(placed.starts, placed.boxes, strict=True)
    rows = [box for start, box in lines if read.text[start] == "|"]
    assert len(rows) > 3
    assert all(above.y1 <= below.y0 for above, below in pairwise(rows))
