import io
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from docx import Document as WordFile
from openpyxl import Workbook
from PIL import Image
from pptx import Presentation

from rag_pipeline.datamodels import Document
from rag_pipeline.loading.places import Place, place_of
from rag_pipeline_tests.testing.formats import saved
from rag_pipeline_tests.testing.scanning import at, load, outcomes

SAMPLE = Path(__file__).parents[2] / "data/documents"


def test_another_reader_finds_every_line_of_a_pdf_on_the_same_page() -> None:
    held = checked = 0
    for path in sorted(SAMPLE.rglob("*.pdf")):
        (document,) = outcomes(path).values()
        assert isinstance(document, Document)
        file = pdfium.PdfDocument(path)
        pages = ["".join(page.get_textpage().get_text_range().split()) for page in file]
        for line in document.text.split("\n"):
            words = "".join(line.split())
            found = [number for number, text in enumerate(pages, 1) if words in text]
            if len(words) < 20 or len(found) != 1 or document.text.count(line) != 1:
                continue
            checked += 1
            held += at(document, line).page == found[0]
            assert [box[0] for box in at(document, line).record()["boxes"]] == found
    assert checked > 100
    assert held == checked


def test_markdown_places_name_headings_without_the_title(tmp_path: Path) -> None:
    text = "intro\n\n# Lease\n\nTop.\n\n## Term\n\n### Notice\n\nThirty days.\n\n"
    text += "```\n# no\ncode\n```\n"
    document = load(tmp_path / "a.md", text)
    assert at(document, "intro") == Place("line 1", line=1)
    assert at(document, "Top.") == Place("section Lease", section="Lease", line=5)
    assert at(document, "Thirty").label == "section Term › Notice"
    assert at(document, "code").section == "Term › Notice"
    assert at(document, "## Term\n\n### Notice").label == "section Term", "nothing is below Notice"
    assert at(document, "Top.\n\n## Term\n\n### Notice\n\nThirty").label == (
        "section Lease to Term › Notice"
    )


def test_a_section_is_named_by_the_words_of_links_in_its_heading(tmp_path: Path) -> None:
    # As mdBook, Sphinx and VitePress write them.
    html = '<h1><a href="#guide">The guide</a></h1><p>Top.</p>'
    html += '<h2>Fees<a href="#fees" title="Link to this heading">¶</a></h2><p>Five euros.</p>'
    html += '<h3>Notice <a href="#notice">\u200b</a></h3><p>Thirty days.</p>'
    document = load(tmp_path / "a.html", html)
    assert document.title == "The guide"
    assert at(document, "Five").section == "Fees"
    assert at(document, "Thirty").section == "Fees › Notice"


def test_plain_text_has_lines(tmp_path: Path) -> None:
    document = load(tmp_path / "a.txt", "one\r\n# two\r\n\r\nthree")
    assert at(document, "three").record() == {"label": "line 4", "line": 4}
    assert at(document, "\r\n\r\nthree").line == 4
    assert at(document, "one\r\n# two").label == "lines 1 to 2"


def test_html_and_word_have_sections_and_paragraphs(tmp_path: Path) -> None:
    html = load(tmp_path / "a.html", "<p>First.</p><p>Second.</p><h2>Fees</h2><p>Five euros.</p>")
    assert at(html, "Second.") == Place("paragraph 2")
    assert at(html, "Five") == Place("section Fees", section="Fees")
    word = WordFile()
    word.add_heading("Duties", 1)
    word.add_paragraph("Be on time.")
    assert at(load(tmp_path / "a.docx", saved(word)), "Be on time").section == "Duties"


def test_slides_are_counted(tmp_path: Path) -> None:
    deck = Presentation()
    for words in ("Opening", "", "Closing"):
        deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = words
    image = io.BytesIO()
    Image.new("RGB", (9, 9)).save(image, "png")
    pictures = [deck.slides[2].shapes.add_picture(image, 0, 0) for _ in range(2)]
    for picture, words in zip(pictures, ("Picture 7", "Our harbour"), strict=True):
        picture.name = "Picture 7"
        picture._element.nvPicPr.cNvPr.set("descr", words)
    document = load(tmp_path / "a.pptx", saved(deck))
    assert at(document, "Opening") == Place("slide 1", slide=1)
    assert at(document, "Closing") == Place("slide 3", slide=3)
    assert document.text == "# Opening\n\nOur harbour\n# Closing"


def test_rows_of_a_sheet_count_blank_rows(tmp_path: Path) -> None:
    book = Workbook()
    prices = book.active
    prices.title = "Prices"
    for row, words in ((3, "Item"), (4, "Rope"), (7, "Sail"), (8, "Mast")):
        prices.cell(row, 1, words)
    book.create_sheet("Terms").append(["Thirty days"])
    document = load(tmp_path / "a.xlsx", saved(book))
    assert [at(document, w).row for w in ("Item", "Rope", "Sail", "Mast")] == [3, 4, 7, 8]
    assert at(document, "Mast").label == "sheet Prices, row 8"
    assert at(document, "Thirty") == Place("sheet Terms, row 1", sheet="Terms", row=1)
    thirty = document.text.index("Thirty")
    across = place_of(document, document.text.index("## Terms") - 2, thirty + len("Thirty"))
    assert across.label == "sheet Terms, row 1"
    mast = document.text.index("Mast")
    assert place_of(document, mast, thirty).label == "sheet Prices, row 8 to sheet Terms, row 1"
    assert place_of(document, mast, document.text.index("Thirty") - 3).row == 8


@pytest.mark.parametrize(
    ("words", "pointer", "label"),
    [
        ("Ada", "/people/0/name", "/people/0/name"),
        ("Bob", "/people/1/name", "/people/1/name"),
        ('"a/b~c": true', "/a~1b~0c", "/a~1b~0c"),
        ('Ada"}, {"name": "Bob', "/people/0/name", "/people/0/name to /people/1/name"),
        ("{", "", "the whole file"),
    ],
)
def test_json_has_pointers(tmp_path: Path, words: str, pointer: str, label: str) -> None:
    text = '{"people": [{"name": "Ada"}, {"name": "Bob"}], "a/b~c": true}'
    place = at(load(tmp_path / "a.json", text), words)
    assert (place.pointer, place.label) == (pointer, label)


def test_rows_below_a_sheets_title_keep_their_numbers(tmp_path: Path) -> None:
    book = Workbook()
    for cells in (["Rota"], [], ["Week", "Manager", "Desk"], ["6 July", "Ada", "Bo"]):
        book.active.append(cells)
    document = load(tmp_path / "rota.xlsx", saved(book))
    for said, row in (("Rota", 1), ("| Week", 3), ("| 6 July", 4)):
        start = document.text.index(said)
        assert place_of(document, start, start + len(said)).row == row
    head = "| Week | Manager | Desk |"
    assert at(document, head).label == "sheet Sheet, row 3 (column names)"
    assert at(document, "| 6 July | Ada | Bo |").label == "sheet Sheet, row 4"
    label = place_of(document, 0, document.text.index(head) + len(head)).label
    assert label == "sheet Sheet, rows 1 to 3", "more than column names"


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("I approve the pump.", "paragraph 2, by Ada Lo"),
        ("j’ai payé.", "paragraph 3, by Ada Lo"),
        ("Delivery is in May.", "paragraph 4"),
        ("> I ordered it.", "paragraph 5"),  # by the one who got the mail
        ("We pay.", "paragraph 5"),
        ("I answer.", "paragraph 6, by Ada Lo"),
        ("I asked.", "paragraph 9"),
    ],
)
def test_a_first_person_in_a_mail_is_its_sender(tmp_path: Path, words: str, label: str) -> None:
    mail = "From: Ada Lo <ada@a.example>\nContent-Type: text/plain; charset=utf-8\n\n"
    mail += (
        "I approve the pump.\n\nj’ai payé.\n\nDelivery is in May.\n\n> I ordered it. We pay.\n\n"
    )
    mail += "I answer.\n\n-----Original Message-----\n\nFrom: Bo Day\n\nI asked.\n"
    document = load(tmp_path / "a.eml", mail)
    assert at(document, words).label == label
