"""Notebooks, mails, e-books, OpenDocument, RTF and separated values, and the places in them."""

import json
import re
from email.message import EmailMessage
from pathlib import Path

import pytest

from rag_pipeline.datamodels import Document
from rag_pipeline.loading.unseen import unseen_warning
from rag_pipeline_tests.testing.formats import packed
from rag_pipeline_tests.testing.outlook import outlook_mail
from rag_pipeline_tests.testing.scanning import at, load, outcomes

ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def odt(body: str) -> bytes:
    content = (
        f"<office:document-content {ODF}><office:body><office:text>{body}</office:text>"
        f"</office:body></office:document-content>"
    )
    meta = f"<office:document-meta {ODF}><dc:title>Supply</dc:title></office:document-meta>"
    return packed({"content.xml": content, "meta.xml": meta})


def epub() -> bytes:
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>The Sea</dc:title>'
        "<dc:creator>A. Writer</dc:creator></metadata><manifest>"
        '<item id="b" href="two.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="a" href="on%20e.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="c" href="cover.png" media-type="image/png"/></manifest>'
        '<spine><itemref idref="a"/><itemref idref="c"/><itemref idref="b"/></spine></package>'
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="text/book.opf"/></rootfiles></container>'
    )
    return packed(
        {
            "META-INF/container.xml": container,
            "text/book.opf": package,
            "text/two.xhtml": "<html><body><h1>Storm</h1><p>It blew.</p></body></html>",
            "text/on e.xhtml": "<html><body><h1>Calm</h1><p>It slept.</p></body></html>",
        }
    )


def notebook() -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["# Fees\n", "What is paid."]},
        {"cell_type": "code", "source": "", "outputs": []},
        {
            "cell_type": "code",
            "source": ["fee = 3   \n", "fee"],
            "outputs": [
                {"output_type": "stream", "text": ["paid\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "3"}},
                {"output_type": "display_data", "data": {"image/png": "iVBORw0K"}},
            ],
        },
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()


def odd_mail(charset: str, body: bytes) -> bytes:
    return b"Subject: a\r\nContent-Type: text/plain; charset=%s\r\n\r\n%s" % (
        charset.encode(),
        body,
    )


def mail(html: bool = False) -> bytes:
    message = EmailMessage()
    message["Subject"] = "Kündigung"
    message["From"] = "Ana <ana@example.org>"
    message["To"] = "bo@example.org"
    message["Date"] = "Mon, 4 Mar 2024 10:00:00 +0100"
    message.set_content("Hiermit kündige ich zum 30. Juni.")
    if html:
        message.set_content("<p>Hiermit <b>kündige</b> ich.</p>", subtype="html")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a.pdf")
    return message.as_bytes()


def refusal(path: Path, raw: bytes) -> str:
    path.write_bytes(raw)
    (found,) = outcomes(path).values()
    assert isinstance(found, str)
    return found


def test_notebooks_have_cells(tmp_path: Path) -> None:
    document = load(tmp_path / "a.ipynb", notebook())
    assert document.text == (
        "# Fees\nWhat is paid.\n\n```python\nfee = 3\nfee\n```\n\n```text\npaid\n\n```\n\n"
        "```text\n3\n```"
    )
    assert document.title == "Fees"
    assert at(document, "What is paid").label == "cell 1"
    assert at(document, "fee = 3").label == at(document, "```text\n3").label == "cell 3"


@pytest.mark.parametrize(
    ("html", "text"), [(False, "kündige ich zum 30. Juni."), (True, "kündige")]
)
def test_mails(tmp_path: Path, html: bool, text: str) -> None:
    (tmp_path / "a.eml").write_bytes(mail(html))
    document = outcomes(tmp_path)["a.eml"]
    assert isinstance(document, Document)
    assert document.text.startswith(
        "From: Ana <ana@example.org>\nTo: bo@example.org\nDate: Mon, 04 Mar 2024"
    )
    assert text in document.text and "<b>" not in document.text
    assert "Attachments: a.pdf" in document.text
    assert document.title == "Kündigung"
    assert document.metadata["date"] == "2024-03-04"
    assert document.metadata["from"] == "Ana <ana@example.org>"


@pytest.mark.parametrize(
    ("plain", "html", "text"),
    [
        ("Please see the HTML part.", "<p>We accept <b>15 mm</b> plates.</p>", "**15 mm** plates"),
        ("We accept 15 mm plates.", "<p>We accept <b>15 mm</b> plates.</p>", "We accept 15 mm"),
        ("We accept 15 mm plates.", "<p> </p>", "We accept 15 mm"),
    ],
)
def test_the_alternative_of_a_mail_that_says_more_is_read(
    tmp_path: Path, plain: str, html: str, text: str
) -> None:
    message = EmailMessage()
    message["Subject"] = "Plates"
    message.set_content(plain)
    message.add_alternative(html, subtype="html")
    document = load(tmp_path / "a.eml", message.as_bytes())
    assert text in document.text and "HTML part" not in document.text


@pytest.mark.parametrize("html", [False, True])
def test_mails_of_outlook(tmp_path: Path, html: bool) -> None:
    body = {0x1013: "<html><body><p>Wir <b>kündigen</b>.</p></body></html>"}
    raw = outlook_mail(
        {0x0037: "Kündigung", 0x0C1A: "Ana", 0x0C1F: "ana@example.org"}
        | (body if html else {0x1000: "Wir kündigen.\r\nZum März."}),
        [("Bo", "bo@example.org"), ("Cy", "cy@example.org")],
        ["Anlage.pdf"],
        # 1,709,542,800 s after 1970, which is 134,774 days after 1601
        (1_709_542_800 + 134_774 * 86_400) * 10_000_000,
    )
    document = load(tmp_path / "a.msg", raw)
    assert document.text.startswith(
        'From: "Ana" <ana@example.org>\nTo: Bo <bo@example.org>, Cy <cy@example.org>\n'
        "Date: Mon, 04 Mar 2024 09:00:00 +0000\nSubject: Kündigung\nAttachments: Anlage.pdf\n"
    )
    assert ("Wir **kündigen**." if html else "Wir kündigen.\nZum März.") in document.text
    assert document.title == "Kündigung"
    assert document.metadata["date"] == "2024-03-04"
    assert document.media_type == "application/vnd.ms-outlook"
    assert unseen_warning(document.metadata["unseen"]) == "not read: 1 attachment"


def test_epubs_are_read_in_reading_order(tmp_path: Path) -> None:
    document = load(tmp_path / "a.epub", epub())
    assert document.text == "# Calm\n\nIt slept.\n\n# Storm\n\nIt blew."
    assert (document.title, document.metadata["author"]) == ("The Sea", "A. Writer")
    assert at(document, "It blew").label == "section Storm"


def test_open_document_texts(tmp_path: Path) -> None:
    body = (
        '<text:h text:outline-level="2">Term</text:h>'
        '<text:p>Two<text:s text:c="2"/>years<text:line-break/>or <text:span>three</text:span>.'
        "</text:p><text:list><text:list-item><text:p>one</text:p></text:list-item>"
        "<text:list-item><text:p>two</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>fee</text:p></table:table-cell>"
        '<table:table-cell table:number-columns-repeated="2"/></table:table-row><table:table-row>'
        "<table:table-cell><text:p>a|b</text:p></table:table-cell></table:table-row></table:table>"
    )
    document = load(tmp_path / "a.odt", odt(body))
    assert document.text == (
        "## Term\n\nTwo  years\nor three.\n\n- one\n- two\n\n| fee |\n| --- |\n| a\\|b |"
    )
    assert document.title == "Supply"
    assert at(document, "or three").label == "section Term"


def test_rtf(tmp_path: Path) -> None:
    raw = rb"{\rtf1\ansi{\info{\title Lease}}{\b Term}\par Two ye\'e4rs \u8364? 5.\par}"
    document = load(tmp_path / "a.rtf", raw)
    assert (document.text, document.title) == ("Term\nTwo yeärs € 5.", "Lease")


def test_separated_values_are_read_unchanged_and_have_rows(tmp_path: Path) -> None:
    text = 'name,fee\n"a\n,""b""",1\n\nc,2\n'
    document = load(tmp_path / "stock_list.csv", text.encode())
    assert (document.text, document.title) == (text, "stock list")
    assert [at(document, w).label for w in ("name", '"a', ",1", "c,2")] == [
        "row 1",
        "row 2",
        "row 2",
        "row 3",
    ]


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("a.ipynb", b"[", "corrupt .ipynb"),
        ("a.ipynb", b"{}", "corrupt .ipynb: 'cells'"),
        ("a.eml", b"hello", "not a mail: it has no From, To"),
        ("c.eml", odd_mail("unknown-8bit", b"caf\xe9"), "charset 'unknown-8bit' is unknown"),
        ("a.epub", b"PK", "corrupt .epub: File is not a zip file"),
        ("a.epub", packed({"a": "b"}), "corrupt .epub: .*META-INF/container.xml"),
        ("a.odt", packed({"content.xml": "<a>"}), "corrupt .odt"),
        (
            "a.odt",
            packed({"content.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}),
            "declares XML entities",
        ),
        ("a.odt", odt("<text:p/>"), "no text"),
        ("a.rtf", b"text", "not RTF"),
        ("a.msg", b"\xd0\xcf\x11\xe0", "corrupt .msg: .* not an Outlook MSG file"),
        ("b.msg", outlook_mail({}), "not a mail: it has no sender"),
    ],
)
def test_broken_files_are_refused_with_their_reason(
    tmp_path: Path, name: str, raw: bytes, reason: str
) -> None:
    assert re.search(reason, refusal(tmp_path / name, raw))


def test_a_book_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    assert "zip bomb" in refusal(tmp_path / "a.epub", packed({"a.xhtml": b"0" * 40_000_000}))


def test_a_mail_of_an_unknown_charset_is_read_as_utf8(tmp_path: Path) -> None:
    for charset in ("utf8mb4-x", "base64"):
        document = load(tmp_path / "a.eml", odd_mail(charset, "Café".encode()))
        assert document.text.endswith("\nCafé")
