"""The page of a source in its PDF, as an image with the cited words marked."""

import base64
import io
import shutil
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pytest
from PIL import Image

from rag_pipeline.assistant import open_assistant
from rag_pipeline.client.records import PageImage, PageQuery
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import InputError
from rag_pipeline.loading.quotes import Searchable
from rag_pipeline.serving.pages import page_view
from rag_pipeline_tests.testing.app_server import serving
from rag_pipeline_tests.testing.browser import needs_chromium
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import question, write_file, write_questions

SAMPLE = Path(__file__).parents[2] / "data/documents/agreements/nda"
NAME = "Corvanne_Quillmere_MNDA_executed.pdf"
CITED = "they survive without limit in time"
QUESTION = "For how long do the duties survive in respect of source code?"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("pages")
    documents = folder / "documents"
    documents.mkdir()
    shutil.copy(SAMPLE / NAME, documents)
    write_questions(folder, [question("q", QUESTION, NAME, CITED)])
    corpus = Corpus.load(write_file(folder))
    list(run(corpus.config, next(iter(corpus.config.all_configurations))))
    return corpus


def span_of(corpus: Corpus) -> dict[str, Any]:
    ((start, end),) = Searchable(corpus.document(NAME).text).find(CITED)
    return {"start": start, "end": end}


def shown(corpus: Corpus, document_id: str = NAME, **more: Any) -> PageImage:
    return page_view(open_assistant([corpus]), PageQuery(document_id=document_id, **more))


def test_the_boxes_hold_the_cited_words_and_the_image_is_of_that_page(released: Corpus) -> None:
    view = shown(released, **span_of(released))
    file = pdfium.PdfDocument(SAMPLE / NAME)
    page = file[view.page - 1]
    width, height = page.get_size()
    found = page.get_textpage()
    held = " ".join(
        found.get_text_bounded(
            left * width - 1,
            height * (1 - top - tall) - 1,
            (left + wide) * width + 1,
            height * (1 - top) + 1,
        )
        for left, top, wide, tall in view.boxes
    )
    assert CITED in " ".join(held.split())
    assert view.pages == len(file)
    image = Image.open(io.BytesIO(base64.b64decode(view.image.partition(",")[2])))
    assert image.size == pytest.approx((1.6 * width, 1.6 * height), abs=1)
    darkest, _ = image.convert("L").getextrema()
    assert isinstance(darkest, int | float)
    assert darkest < 60  # there is ink on it


def test_what_cannot_be_shown_is_said(released: Corpus) -> None:
    with pytest.raises(InputError, match="pages, not 99"):
        shown(released, page=99)
    with pytest.raises(InputError, match="no document"):
        shown(released, document_id="../tiny.yaml")
    path = released.config.documents_path / NAME
    before = path.read_bytes()
    path.write_bytes(before + b"\n")
    try:
        with pytest.raises(InputError, match="has changed since"):
            shown(released, page=1)
    finally:
        path.write_bytes(before)


@needs_chromium
def test_a_source_opens_at_its_page_with_the_words_marked(released, page):
    with serving(open_assistant([released])) as server:
        page.goto(server.url)
        page.fill("#question", QUESTION)
        page.press("#question", "Enter")
        page.wait_for_selector(".sheet i")
        assert "page " in page.inner_text("#sources")
        assert "characters" not in page.inner_text("#sources")
        shown = page.eval_on_selector("#document", "e => e.getBoundingClientRect().toJSON()")
        mark = page.eval_on_selector(".sheet i", "e => e.getBoundingClientRect().toJSON()")
        assert shown["top"] <= mark["top"] < mark["bottom"] <= shown["bottom"]
        page.click("text=Text")
        page.wait_for_selector("mark")
        page.click("#turn button")
        page.wait_for_selector(".sheet img")
        page.click("[aria-label='Next page']:not([disabled]), [aria-label='Previous page']")
