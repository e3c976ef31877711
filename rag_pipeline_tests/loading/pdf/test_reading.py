"""Text, headings, tables, furniture and pages of PDFs that are made from known text."""

import pytest

from rag_pipeline.loading.page_map import PageMap
from rag_pipeline.loading.pdf.parse import read_pdf
from rag_pipeline_tests.testing.pdf_measures import measure
from rag_pipeline_tests.testing.pdf_set import MadePdf, makers

MAKERS = dict(makers())


def test_the_set_has_more_than_thirty_files():
    assert len(MAKERS) >= 30


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
