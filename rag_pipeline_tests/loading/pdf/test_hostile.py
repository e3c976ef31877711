"""Hostile PDFs give text or a reason; what follows them is read as if they had not been."""

import pytest

from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.parser_process import parse_apart
from rag_pipeline.loading.pdf.parse import read_pdf
from rag_pipeline.loading.pdf.render import render_page
from rag_pipeline_tests.testing.formats import pdf_bytes
from rag_pipeline_tests.testing.hostile_pdfs import hostile_pdfs, vast_image

SETTINGS = DocumentsSource(path="documents", parse_seconds=20)
HURRIED = DocumentsSource(path="documents", parse_seconds=3)


@pytest.mark.long
@pytest.mark.parametrize("bases", [1, pytest.param(11, marks=pytest.mark.bench)])
def test_hostile_files_give_text_or_a_reason(bases):
    good = pdf_bytes("Fees are due in March.")
    reasons: dict[str, str] = {}
    read = 0
    for name, raw in hostile_pdfs(bases):
        try:
            # Several files would take any time; the last two are refused or read for a reason.
            settings = SETTINGS if name in ("locked", "open to all") else HURRIED
            read += bool(parse_apart(name, raw, ".pdf", settings).text)
        except DocumentError as error:
            reasons[name] = error.reason
            assert error.reason
            parsed = parse_apart("good.pdf", good, ".pdf", SETTINGS)
            assert parsed.text == "Fees are due in March."
    assert read and len(reasons) > 5
    assert reasons["locked"] == "encrypted .pdf: save it without a password"
    assert "open to all" not in reasons


def test_an_image_too_large_to_decode_is_neither_recognised_nor_shown():
    raw = vast_image()
    what = "its images have 3,600,000,000 pixels, more than 300,000,000 per page"
    with pytest.raises(DocumentError) as refused:
        read_pdf("map.pdf", raw)
    assert refused.value.reason == f"no text: {what}"
    with pytest.raises(DocumentError) as hidden:
        render_page("map.pdf", raw, 1)
    assert hidden.value.reason == f"page 1 can't be shown: {what}"
