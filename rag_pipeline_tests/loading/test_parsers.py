"""Office files, PDF and HTML -> text and title."""

from pathlib import Path

import openpyxl
import pytest

from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.images import IMAGE_TYPES
from rag_pipeline.loading.parsers import PARSER_VERSIONS, parse
from rag_pipeline_tests.testing.formats import docx_bytes, pdf_bytes, pptx_bytes, saved, xlsx_bytes
from rag_pipeline_tests.testing.scanning import load


def test_docx(tmp_path: Path) -> None:
    document = load(tmp_path / "a.docx", docx_bytes())
    assert document.text == (
        "# Supply Agreement\n\n## Term\n\nTwo years.\n\n"
        "|  |  |\n| --- | --- |\n| k | v |\n| a | b |"
    )
    assert document.title == "Supply Agreement"
    assert document.media_type.endswith("wordprocessingml.document")
    assert load(tmp_path / "b.docx", docx_bytes("Core title")).title == "Core title"
    # A title that repeats the file's name says less than the first heading.
    assert load(tmp_path / "pay-scales.docx", docx_bytes("Pay-scales")).title == document.title


def test_pptx(tmp_path: Path) -> None:
    document = load(tmp_path / "a.pptx", pptx_bytes())
    assert document.text == "# Roadmap\nShip in May"
    assert document.title == "Roadmap"


def test_xlsx_has_no_filler_for_empty_cells(tmp_path: Path) -> None:
    document = load(tmp_path / "fee-list_2024.xlsx", xlsx_bytes())
    assert document.text == (
        "## Fees\n\n| fee |  | from |\n| --- | --- | --- |\n"
        "| 2.5 | True | 2024-01-02 |\n| a\\|b |  | x y |"
    )
    assert document.title == "fee list 2024"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            [["Rota of July"], [], ["Week", "Manager", "Desk"], ["6 July", "Ada", "Bo"]],
            "Rota of July\n\n| Week | Manager | Desk |\n| --- | --- | --- |\n| 6 July | Ada | Bo |",
        ),
        # A form's fields and values, and a list of one column, have no head below a title.
        ([["Lease"], ["Rent", 5]], "| Lease |\n| --- |\n| Rent | 5 |"),
        ([["Ada"], ["Bo"], ["Cy"]], "| Ada |\n| --- |\n| Bo |\n| Cy |"),
        ([["Ada"]], "| Ada |\n| --- |"),
    ],
)
def test_a_title_above_the_head_of_a_sheet_is_text(tmp_path: Path, rows, text: str) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    assert load(tmp_path / "rota.xlsx", saved(book)).text == f"## Sheet\n\n{text}"


def test_one_far_cell_of_a_sheet_costs_nothing(tmp_path: Path) -> None:
    file = openpyxl.Workbook()
    file.active["XFD1048576"] = "far"
    assert load(tmp_path / "a.xlsx", saved(file)).text.endswith("|  | far |\n|" + " --- |" * 16384)


def test_pdf(tmp_path: Path) -> None:
    document = load(tmp_path / "a.pdf", pdf_bytes("First page", "Second page"))
    assert document.text == "First page\n\nSecond page"
    assert document.title == "First page"
    assert load(tmp_path / "b.pdf", pdf_bytes("x", title="Ünïcode")).title == "Ünïcode"


def test_a_pdf_that_only_restricts_printing_is_read(tmp_path: Path) -> None:
    assert load(tmp_path / "a.pdf", pdf_bytes("Open", owner="secret")).text == "Open"


def test_html(tmp_path: Path) -> None:
    page = (
        "<html><head><title>The\n title</title><style>p{}</style></head><body><h1>Head</h1>"
        "<script>alert(1)</script><p>One<p>two &amp; <b>three</b><ul><li>x<li>y</ul></body>"
    )
    document = load(tmp_path / "a.html", page)
    assert document.text == "# Head\n\nOne\n\ntwo & **three**\n\n* x\n* y"
    assert (document.title, document.media_type) == ("The title", "text/html")
    assert load(tmp_path / "b.HTM", "<h2>Only head</h2>text").title == "Only head"


@pytest.mark.parametrize(
    "raw",
    [
        "<p>café €".encode(),
        "\ufeff<p>café €".encode(),
        "<p>café €".encode("utf-16"),
        '<meta charset="windows-1252"><p>café €'.encode("cp1252"),
        '<meta charset="iso-8859-1"><p>café €'.encode("cp1252"),
        '<meta charset="utf-16"><p>café €'.encode(),
        '<meta charset="no-such"><p>café €'.encode(),
        '<meta charset="base64"><p>café €'.encode(),
        '<?xml version="1.0" encoding="iso-8859-15"?><p>café €</p>'.encode("iso-8859-15"),
    ],
)
def test_html_encodings(tmp_path: Path, raw: bytes) -> None:
    assert load(tmp_path / "a.html", raw).text == "café €"


@pytest.mark.parametrize("tag", ["div", "table><tr><td", "b", "blockquote"])
def test_deep_html_is_read_at_any_stack_depth(tmp_path: Path, tag: str) -> None:
    page = f"<{tag}>" * 400 + "bottom" + "<p>after"

    def deeper(levels: int) -> str:
        return deeper(levels - 1) if levels else load(tmp_path / "a.html", page).text

    text = load(tmp_path / "a.html", page).text
    assert "bottom" in text
    assert "after" in text
    assert deeper(200) == text


def test_html_that_lxml_would_cut_off_is_refused() -> None:
    with pytest.raises(DocumentError, match="nested too deeply"):
        parse("a.html", b"<div>" * 3000 + b"bottom", ".html", 10**6)


def test_a_thousand_open_paragraphs_are_not_deep(tmp_path: Path) -> None:
    assert load(tmp_path / "a.html", "<p>x" * 1000).text == "\n\n".join(["x"] * 1000)


def test_menus_and_footers_of_a_page_are_left_out() -> None:
    page = (
        "<body><nav>Home Shop</nav><div role=navigation>Menu</div><main><h1>Pumps</h1><p>They turn."
        "</p><aside><p>Mind the seal.</p></aside><footer><p>Checked in May.</p></footer></main>"
        "<aside>Offers</aside><footer>Imprint</footer></body>"
    )
    read = parse("page.html", page.encode(), ".html", 10**6).text
    assert read.split() == "# Pumps They turn. Mind the seal. Checked in May.".split()
    only = parse("menu.html", b"<nav>All there is</nav>", ".html", 10**6).text
    assert only.strip() == "All there is"


def test_an_image_is_stale_with_the_parser_of_pdf() -> None:
    assert {PARSER_VERSIONS[suffix] for suffix in IMAGE_TYPES} == {PARSER_VERSIONS[".pdf"]}
