"""PDFs printed by a browser are read in the order of the page."""

import pytest

from rag_pipeline.loading.pdf.parse import read_pdf
from rag_pipeline_tests.testing.browser import needs_chromium
from rag_pipeline_tests.testing.pdf_browser import PRINTED, printed
from rag_pipeline_tests.testing.pdf_measures import measure


@needs_chromium
@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_page_is_read_in_order(name):
    made = printed(name)
    read = read_pdf(name, made.raw)
    found = measure(made, read.text, read.page_map)
    assert found.characters >= 0.995
    assert found.headings == 1
    assert read.title == made.title
