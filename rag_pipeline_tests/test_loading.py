import hashlib
import io
import json
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from rag_pipeline.config import DocumentsSource
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import ConfigError, DocumentError
from rag_pipeline.loading import Rejected, Source, duplicate_groups, scan
from rag_pipeline.loading.folder import matcher


def items(root: Path, **settings: Any) -> list[Source | Rejected]:
    return list(scan(DocumentsSource(path=str(root), **settings), root))


def ids(root: Path, **settings: Any) -> list[str]:
    return [item.document_id for item in items(root, **settings)]


def outcomes(root: Path, **settings: Any) -> dict[str, Document | str]:
    """Load everything: a document or the reason why there is none, by document_id."""
    results: dict[str, Document | str] = {}
    for item in items(root, **settings):
        if isinstance(item, Rejected):
            results[item.document_id] = item.reason
            continue
        try:
            results[item.document_id] = item.load()
        except DocumentError as error:
            assert error.document_id == item.document_id
            results[item.document_id] = error.reason
    return results


def load(path: Path, raw: bytes | str, **settings: Any) -> Document:
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    (document,) = outcomes(path, **settings).values()
    assert isinstance(document, Document), document
    return document


# --- files of each format ---


def docx_bytes(title: str = "", *, body: str = "Two years.") -> bytes:
    file = docx.Document()
    file.core_properties.title = title
    file.add_paragraph("Supply Agreement", style="Title")
    file.add_heading("Term", 2)
    file.add_paragraph(body)
    table = file.add_table(rows=2, cols=2)
    for cell, text in zip([c for r in table.rows for c in r.cells], "kvab", strict=True):
        cell.text = text
    return saved(file)


def pptx_bytes(title: str = "Roadmap") -> bytes:
    file = pptx.Presentation()
    slide = file.slides.add_slide(file.slide_layouts[1])
    slide.shapes.title.text = title
    slide.placeholders[1].text = "Ship in May"
    return saved(file)


def xlsx_bytes() -> bytes:
    file = openpyxl.Workbook()
    file.active.title = "Fees"
    for row in (["fee", None, "from"], [], [2.5, True, date(2024, 1, 2)], ["a|b", None, "x\ny"]):
        file.active.append(row)
    file.create_sheet("Empty")
    return saved(file)


def pdf_bytes(*pages: str, title: str = "", password: str = "", owner: str = "") -> bytes:
    buffer = io.BytesIO()
    lock = StandardEncryption(password, ownerPassword=owner) if password or owner else None
    canvas = Canvas(buffer, encrypt=lock, invariant=1)
    canvas.setTitle(title or "untitled")
    for page in pages:
        canvas.drawString(72, 700, page)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def saved(file: Any) -> bytes:
    buffer = io.BytesIO()
    file.save(buffer)
    return buffer.getvalue()


def repacked(raw: bytes, **parts: bytes | None) -> bytes:
    """Replace or drop (None) parts of an Office file; `__` in a name stands for `/`."""
    changes = {name.replace("__", "/") + ".xml": content for name, content in parts.items()}
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(raw)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in {**dict.fromkeys(old.namelist()), **changes}:
            content = changes[name] if name in changes else old.read(name)
            if content is not None:
                new.writestr(name, content)
    return buffer.getvalue()


def test_docx(tmp_path: Path) -> None:
    document = load(tmp_path / "a.docx", docx_bytes())
    assert document.text == (
        "# Supply Agreement\n\n## Term\n\nTwo years.\n\n"
        "|  |  |\n| --- | --- |\n| k | v |\n| a | b |"
    )
    assert document.title == "Supply Agreement"
    assert document.media_type.endswith("wordprocessingml.document")
    assert load(tmp_path / "b.docx", docx_bytes("Core title")).title == "Core title"


def test_pptx(tmp_path: Path) -> None:
    document = load(tmp_path / "a.pptx", pptx_bytes())
    assert document.text == "<!-- Slide number: 1 -->\n# Roadmap\nShip in May"
    assert document.title == "Roadmap"


def test_xlsx_has_no_filler_for_empty_cells(tmp_path: Path) -> None:
    document = load(tmp_path / "fee-list_2024.xlsx", xlsx_bytes())
    assert document.text == (
        "## Fees\n\n| fee |  | from |\n| --- | --- | --- |\n"
        "| 2.5 | True | 2024-01-02 |\n| a\\|b |  | x y |"
    )
    assert document.title == "fee list 2024"


def test_one_far_cell_of_a_sheet_costs_nothing(tmp_path: Path) -> None:
    file = openpyxl.Workbook()
    file.active["XFD1048576"] = "far"
    assert load(tmp_path / "a.xlsx", saved(file)).text.endswith("|  | far |\n|" + " --- |" * 16384)


def test_pdf(tmp_path: Path) -> None:
    document = load(tmp_path / "a.pdf", pdf_bytes("First page", "Second page"))
    assert document.text == "First page\n\nSecond page"
    assert document.title == "First page"
    assert load(tmp_path / "b.pdf", pdf_bytes("x", title="Ünïcode")).title == "Ünïcode"


def test_pdf_that_only_restricts_printing_is_read(tmp_path: Path) -> None:
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
def test_deep_html_is_read_whatever_the_stack(tmp_path: Path, tag: str) -> None:
    page = f"<{tag}>" * 1000 + "bottom" + "<p>after"

    def deeper(levels: int) -> str:
        return deeper(levels - 1) if levels else load(tmp_path / "a.html", page).text

    text = load(tmp_path / "a.html", page).text
    assert "bottom" in text
    assert "after" in text
    assert deeper(200) == text


def test_a_thousand_open_paragraphs_are_not_deep(tmp_path: Path) -> None:
    assert load(tmp_path / "a.html", "<p>x" * 1000).text == "\n\n".join(["x"] * 1000)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("a.docx", docx_bytes()),
        ("a.pptx", pptx_bytes()),
        ("a.xlsx", xlsx_bytes()),
        ("a.pdf", pdf_bytes("one", "two")),
        ("a.html", b"<h1>x</h1><p>y"),
    ],
)
def test_the_same_bytes_give_the_same_document(tmp_path: Path, name: str, raw: bytes) -> None:
    assert load(tmp_path / name, raw) == load(tmp_path / name, raw)


# --- plain text ---


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_any_text_round_trips(text: str) -> None:
    raw = f"x{text}".encode()
    with tempfile.TemporaryDirectory() as folder:
        document = load(Path(folder) / "a.txt", raw)
    assert document.text == f"x{text}"
    assert document.content_hash == hashlib.sha256(raw).hexdigest()


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_json_text_round_trips_or_is_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text(json.dumps({"text": text}), encoding="utf-8")
        (result,) = outcomes(path).values()
    if isinstance(result, Document):
        assert result.text == text
        assert pa.array([result.text, result.title]).to_pylist() == [text, result.title]
    else:
        assert "\x00" in text or not text.strip("\ufeff\u200b").strip()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xef\xbb\xbfx", "\ufeffx"),
        ("é\r\n\r".encode("utf-16"), "é\r\n\r"),
        (b"\xfe\xff" + "é".encode("utf-16-be"), "é"),
        ("é".encode("utf-32"), "é"),
        (b"\x00\x00\xfe\xff" + "é".encode("utf-32-be"), "é"),
        (b"a\r\n\x0c\x1b b\t \n\n", "a\r\n\x0c\x1b b\t \n\n"),
        (b"y" * 3_000_000, "y" * 3_000_000),
    ],
)
def test_text_is_exactly_the_decoded_file(tmp_path: Path, raw: bytes, text: str) -> None:
    for name in ("a.txt", "a.md", "noext", "a.csv"):
        assert load(tmp_path / name, raw).text == text


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.txt", "\n\n  Supply   Agreement \nbody", "Supply Agreement"),
        ("a.txt", "\ufeffTitle\n", "Title"),
        ("my_own-file.txt", "w" * 121 + "\nTitle", "my own file"),
        ("my_own-file.txt", "---\nx", "my own file"),
        ("a.md", "intro\n\n## Two\n# One #\n", "One"),
        ("a.md", "## Two\ntext", "Two"),
        ("a.md", "```sh\n# comment\n```\n# Real\n", "Real"),
        ("a.md", "~~~\n```\n# comment\n~~~\n# Real\n", "Real"),
        ("a.md", "#hashtag line\n", "hashtag line"),
        ("a.md", "---\ntitle: Front\n---\n# Head\n", "Front"),
        ("a.md", "---\nauthor: x\n---\n\nFirst line\n", "First line"),
        ("a.md", "---\n[broken\n---\n# Head\n", "Head"),
        ("a.md", "---\n# no mapping\n---\n", "no mapping"),
        ("a.md", "# \n", "a"),
    ],
)
def test_titles(tmp_path: Path, name: str, text: str, title: str) -> None:
    document = load(tmp_path / name, text)
    assert (document.title, document.text) == (title, text)


def test_front_matter_becomes_metadata(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    front = (
        "---\r\ntitle: T\r\nyear: 2024\r\nsigned: 2024-05-01\r\nratio: 0.5\r\ndraft: true\r\n"
        "tags: [a, é]\r\nnested: {a: 1}\r\nnone:\r\nsuffix: faked\r\nbig: .inf\r\n---\r\nBody"
    )
    (tmp_path / "in" / "a.md").write_bytes(front.encode())
    document = outcomes(tmp_path)["in/a.md"]
    assert isinstance(document, Document)
    assert document.text == front
    assert document.metadata == {
        "year": 2024,
        "signed": "2024-05-01",
        "ratio": 0.5,
        "draft": True,
        "tags": '["a", "é"]',
        "big": "inf",
        "folder": "in",
        "suffix": ".md",
        "bytes": len(front.encode()),
    }


def test_yaml_aliases_cannot_grow(tmp_path: Path) -> None:
    laughs = "a: &a [x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
        for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)
    )
    document = load(tmp_path / "a.md", f"---\n{laughs}---\nBody")
    assert set(document.metadata) == {"a", "folder", "suffix", "bytes"}


def test_json_documents(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"text": "One", "title": "T"}')
    (tmp_path / "many.json").write_bytes(
        '\ufeff [ {"text": "é", "id": "mine"} ,\n{"text":"Zwei"}, 3]'.encode()
    )
    (tmp_path / "raw.json").write_text('{"name": "x"}\n')
    (tmp_path / "list.json").write_text("[1, 2]")
    results = outcomes(tmp_path)
    assert list(results) == sorted(results)
    reason = results.pop("many.json:2")
    assert reason == "expected a JSON object, not int"
    documents = {k: v for k, v in results.items() if isinstance(v, Document)}
    assert {k: v.text for k, v in documents.items()} == {
        "list.json": "[1, 2]",
        "many.json:1": "Zwei",
        "mine": "é",
        "one.json": "One",
        "raw.json": '{"name": "x"}\n',
    }
    assert documents["one.json"].title == "T"
    zwei = documents["many.json:1"]
    assert zwei.content_hash == hashlib.sha256(b'{"text":"Zwei"}').hexdigest()
    assert documents["raw.json"].media_type == "application/json"


def test_json_lines_survive_their_broken_neighbours(tmp_path: Path) -> None:
    good = json.dumps(
        {
            "id": 7,
            "text": "Sieben",
            "title": " The  title ",
            "year": 2024,
            "big": 2**70,
            "list": [1, "é"],
            "none": None,
            "metadata": {"year": 2025, "a": {"b": 1}, "s": "x\u0000\ud800"},
        }
    )
    lines = [
        '\ufeff{"text": "first"}',
        good,
        "",
        "{broken",
        '{"text": 5}',
        '{"text": "\\ud800"}',
        '{"text": "' + "x" * 300 + '"}',
        '{"text": "again", "document_id": "7"}',
        '{"document_id": "last", "text": "end"}',
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "d.jsonl").write_bytes("\r\n".join(lines).encode())
    (tmp_path / "in" / "e.txt").write_text("other")
    results = outcomes(tmp_path, max_bytes=len(good.encode()))
    assert {k: v for k, v in results.items() if isinstance(v, str)} == {
        "in/d.jsonl:4": "not valid JSON: Expecting property name enclosed in double quotes "
        "(line 1, column 2)",
        "in/d.jsonl:5": "text: 5: expected a string",
        "in/d.jsonl:6": "not valid text: lone surrogate at offset 0",
        "in/d.jsonl:7": f"oversized: 314 bytes, and documents.max_bytes is {len(good.encode())}",
        "in/d.jsonl:8": "duplicate document_id '7': in/d.jsonl:2 has it already",
    }
    documents = {k: v for k, v in results.items() if isinstance(v, Document)}
    assert list(documents) == ["7", "in/d.jsonl:1", "in/e.txt", "last"]
    seven = documents["7"]
    assert seven.content_hash == hashlib.sha256(good.encode()).hexdigest()
    assert (seven.text, seven.title) == ("Sieben", "The title")
    assert seven.metadata == {
        "year": 2025,
        "big": str(2**70),
        "list": '[1, "é"]',
        "a": '{"b": 1}',
        "s": "x\ufffd\ufffd",
        "folder": "in",
        "suffix": ".jsonl",
        "bytes": len(good.encode()),
    }


# --- documents that can't be used: one bad file never costs a good one ---

BOMB = repacked(docx_bytes(), word__document=b"<a>" + b" " * 12_000_000 + b"</a>")
ENTITIES = b'<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z "&x;&x;">]><a>&z;</a>'
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)


def deep_docx() -> bytes:
    start = docx_bytes()
    with zipfile.ZipFile(io.BytesIO(start)) as archive:
        body = archive.read("word/document.xml")
    nested = b"<w:tbl><w:tr><w:tc>" * 200 + b"<w:p/>" + b"</w:tc></w:tr></w:tbl>" * 200
    return repacked(start, word__document=body.replace(b"<w:p>", nested + b"<w:p>", 1))


def encrypted_zip() -> bytes:
    raw = bytearray(docx_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = raw.find(signature)
        while at >= 0:
            raw[at + flags] |= 1
            at = raw.find(signature, at + 4)
    return bytes(raw)


BROKEN: list[tuple[str, bytes, str]] = [
    ("empty.txt", b"", "empty: 0 bytes"),
    ("blank.txt", b" \r\n\t \n", "empty: no text in it"),
    ("mark.txt", b"\xef\xbb\xbf", "empty: no text in it"),
    ("zero-width.md", "\u200b\n".encode(), "empty: no text in it"),
    ("mark16.txt", b"\xff\xfe", "empty: no text in it"),
    ("latin1.txt", b"caf\xe9 au lait", "not UTF-8 text: byte 0xe9 at offset 3; save it as UTF-8"),
    ("latin1.md", b"# T\xfctel", "byte 0xfc at offset 3"),
    ("cut.txt", "café".encode()[:-1], "byte 0xc3 at offset 3"),
    ("surrogate.txt", b"ab\xed\xa0\x80", "byte 0xed at offset 2"),
    ("overlong.txt", b"\xc0\xaf", "byte 0xc0 at offset 0"),
    ("odd16.txt", b"\xff\xfea\x00b", "not UTF-16 text: byte 0x62 at offset 4"),
    ("lone16.txt", b"\xff\xfe\x00\xd8a\x00", "not UTF-16 text"),
    ("nul16.txt", "a\x00b".encode("utf-16"), "not valid text: NUL character at offset 1"),
    ("bad32.txt", b"\xff\xfe\x00\x00\xff\xff\xff\xff", "not UTF-32 text"),
    ("nul.txt", b"ab\x00c", "unsupported type .txt: binary (NUL byte at offset 2)"),
    ("nul", b"ab\x00c", "unsupported type (no suffix): binary"),
    ("image.png", b"\x89PNG\r\n\x1a\n" + bytes(9), "unsupported type .png: a PNG image"),
    ("photo.jpg", b"\xff\xd8\xff\xe0abc", "unsupported type .jpg: a JPEG image"),
    ("moving.gif", b"GIF89a\x01", "unsupported type .gif: a GIF image"),
    ("old.doc", OLE, "unsupported type .doc: a legacy Office file"),
    ("pack.zip", BOMB, "unsupported type .zip: a zip archive"),
    ("pack.gz", b"\x1f\x8b\x08abc", "unsupported type .gz: a gzip archive"),
    ("letter.rtf", b"{\\rtf1 Hi}", "unsupported type .rtf: an RTF document"),
    ("hidden.txt", pdf_bytes("x"), "unsupported type .txt: a PDF; name it .pdf"),
    ("empty.docx", b"", "empty: 0 bytes"),
    ("cut.docx", docx_bytes()[:5000], "corrupt .docx: File is not a zip file"),
    ("text.docx", b"not an office file", "corrupt .docx: File is not a zip file"),
    ("old.docx", OLE, "a legacy Office file; save it as a real .docx"),
    ("locked.docx", OLE + "EncryptedPackage".encode("utf-16-le"), "encrypted .docx: it needs a"),
    ("locked2.docx", encrypted_zip(), "encrypted .docx: it needs a password"),
    ("bomb.docx", BOMB, "zip bomb? "),
    ("other.docx", xlsx_bytes(), "corrupt .docx: "),
    ("bodyless.docx", repacked(docx_bytes(), word__document=None), "corrupt .docx: "),
    ("notxml.docx", repacked(docx_bytes(), word__document=b"<w:doc"), "corrupt .docx: "),
    ("tricks.docx", repacked(docx_bytes(), word__document=ENTITIES), "declares XML entities"),
    ("props.docx", repacked(docx_bytes(), docProps__core=ENTITIES), "declares XML entities"),
    ("utf16.docx", repacked(docx_bytes(), x=ENTITIES.decode().encode("utf-16")), "x.xml declares"),
    ("deep.docx", deep_docx(), "corrupt .docx: nested too deeply"),
    ("blank.docx", saved(docx.Document()), "empty: no text in it"),
    ("flipped.docx", docx_bytes().replace(b"PK\x01\x02", b"PK\x09\x09"), "corrupt .docx: "),
    ("cut.pptx", pptx_bytes()[:9000], "corrupt .pptx: File is not a zip file"),
    ("other.pptx", docx_bytes(), "corrupt .pptx: "),
    ("blank.pptx", saved(pptx.Presentation()), "empty: no text in it"),
    ("tricks.pptx", repacked(pptx_bytes(), ppt__presentation=ENTITIES), "declares XML entities"),
    ("cut.xlsx", xlsx_bytes()[:-30], "corrupt .xlsx: File is not a zip file"),
    ("other.xlsx", docx_bytes(), "corrupt .xlsx: "),
    ("blank.xlsx", saved(openpyxl.Workbook()), "empty: no text in it"),
    ("bomb.xlsx", repacked(xlsx_bytes(), xl__junk=bytes(30_000_000)), "zip bomb? "),
    ("notxml.xlsx", repacked(xlsx_bytes(), xl__workbook=b"<x"), "corrupt .xlsx: "),
    ("text.pdf", b"not a pdf", "corrupt .pdf: it doesn't start like a PDF"),
    ("head.pdf", b"%PDF-1.7\n", "corrupt .pdf: cut off"),
    ("cut.pdf", pdf_bytes("x" * 90)[:-200], "corrupt .pdf: cut off"),
    ("hollow.pdf", b"%PDF-1.7\n%%EOF", "corrupt .pdf: "),
    ("scan.pdf", pdf_bytes(""), "no text: scanned pages?"),
    ("locked.pdf", pdf_bytes("x", password="secret"), "encrypted .pdf: it needs a password"),
    ("blank.html", b"<html><body> <p></p></body></html>", "empty: no text in it"),
    ("script.html", b"<script>alert(1)</script>", "empty: no text in it"),
    ("latin1.html", b"<p>caf\xe9", "not UTF-8 text: byte 0xe9 at offset 6"),
    ("broken.json", b'{"text": "x"', "not valid JSON: Expecting ',' delimiter (line 1, column 13)"),
    ("latin1.json", b'{"text": "\xe9"}', "not UTF-8 text: byte 0xe9 at offset 10"),
    ("utf16.json", '{"text": "x"}'.encode("utf-16"), "UTF-16 text: JSON must be UTF-8"),
    ("deep.json", b"[" * 100_000, "not usable JSON: nested too deeply"),
    ("number.json", b"1" * 5000, "not usable JSON: Exceeds the limit"),
    ("textless.json", b'{"text": null}', "text: None: expected a string"),
    ("blank.json", b'{"text": " "}', "empty: no text in it"),
    ("empty.json", b"", "not valid JSON"),
    ("nul.json", b'{"text": "a\\u0000"}', "not valid text: NUL character at offset 1"),
    ("empty.jsonl", b"\n \n", "empty: no documents in it"),
    ("utf16.jsonl", '{"text": "x"}'.encode("utf-16"), "UTF-16 text: JSON must be UTF-8"),
]

BROKEN_LINES: list[tuple[bytes, str]] = [
    (b"nonsense", "not valid JSON: Expecting value"),
    (b'{"text": "x"} trailing', "not valid JSON: Extra data"),
    (b'"text"', "expected a JSON object, not str"),
    (b"[]", "expected a JSON object, not list"),
    (b"{}", "text: missing; the object has nothing"),
    (b'{"body": "x", "id": 3}', "text: missing; the object has 'body', 'id'"),
    (b'{"text": ["x"]}', "text: ['x']: expected a string"),
    (b'{"text": ""}', "empty: no text in it"),
    (b'{"text": "caf\xe9"}', "not UTF-8 text: byte 0xe9 at offset 13"),
    (b'{"text": "x", "id": ""}', "id: '': expected visible characters"),
    (b'{"text": "x", "id": "a\\nb"}', "id: 'a\\nb': expected visible characters"),
    (b'{"text": "x", "id": "\\ud800"}', "expected visible characters"),
    (b'{"text": "x", "id": true}', "id: True: expected a string or an integer"),
    (b'{"text": "x", "document_id": 1.5}', "document_id: 1.5: expected a string or an integer"),
    (b'{"text": "x", "metadata": 3}', "metadata: 3: expected an object"),
    (b'{"text": "tab\there"}', "not valid JSON: Invalid control character"),
]


@pytest.mark.parametrize(("name", "raw", "reason"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_broken_files_are_quarantined_in_silence(
    tmp_path: Path,
    name: str,
    raw: bytes,
    reason: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    recwarn: pytest.WarningsRecorder,
) -> None:
    (tmp_path / name).write_bytes(raw)
    (tmp_path / "good.txt").write_text("good")
    results = outcomes(tmp_path, max_bytes=2_000_000)
    assert isinstance(results.pop("good.txt"), Document)
    assert list(results) == [name]
    said = results[name]
    assert isinstance(said, str)
    assert reason in said
    assert "\n" not in said
    assert len(said) < 300
    assert capfd.readouterr() == ("", "")
    assert (caplog.text, list(recwarn)) == ("", [])


@pytest.mark.parametrize(("line", "reason"), BROKEN_LINES)
def test_broken_lines_are_quarantined_alone(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"text": "before"}\n' + line + b'\n{"text": "after"}')
    results = outcomes(path)
    said = results.pop("d.jsonl:2")
    assert isinstance(said, str)
    assert reason in said
    assert {k: v.text for k, v in results.items() if isinstance(v, Document)} == {
        "d.jsonl:1": "before",
        "d.jsonl:3": "after",
    }


def test_truncation_anywhere_gives_a_document_or_a_reason(tmp_path: Path) -> None:
    for name, raw in (
        ("a.docx", docx_bytes()),
        ("a.xlsx", xlsx_bytes()),
        ("a.pdf", pdf_bytes("one")),
    ):
        for part in range(1, 8):
            (tmp_path / f"{part}-{name}").write_bytes(raw[: len(raw) * part // 8])
    results = outcomes(tmp_path)
    assert len(results) == 21
    assert all(isinstance(r, str) and r.startswith("corrupt ") for r in results.values())


def test_oversized_files_are_refused_by_hash_alone(tmp_path: Path) -> None:
    (tmp_path / "big.json").write_text("[1, 2, 3, 4, 5]")
    (tmp_path / "big.txt").write_bytes(b"x" * 11)
    (tmp_path / "fits.txt").write_bytes(b"x" * 10)
    big_json, big_text, fits = items(tmp_path, max_bytes=10)
    assert isinstance(fits, Source)
    assert fits.n_bytes == 10
    assert big_text == Rejected(
        "big.txt",
        hashlib.sha256(b"x" * 11).hexdigest(),
        "oversized: 11 bytes, and documents.max_bytes is 10",
    )
    assert isinstance(big_json, Rejected)


# --- folders ---


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


NAMES = ["a.txt", "b.md", "sub/c.txt", "sub/deep/d.txt", ".hidden.txt", ".git/e.txt", "sub/.f.txt"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["**/*"], [], ["a.txt", "b.md", "sub/c.txt", "sub/deep/d.txt"]),
        (["*"], [], ["a.txt", "b.md"]),
        (["**/*.txt"], [], ["a.txt", "sub/c.txt", "sub/deep/d.txt"]),
        (["**"], ["**/*.txt"], ["b.md"]),
        (["sub/**"], [], ["sub/c.txt", "sub/deep/d.txt"]),
        (["sub/*"], [], ["sub/c.txt"]),
        (["./sub/*.txt", "*.md"], [], ["b.md", "sub/c.txt"]),
        (["**/*"], ["sub"], ["a.txt", "b.md", "sub/c.txt", "sub/deep/d.txt"]),
        (["**/*"], ["sub/**"], ["a.txt", "b.md"]),
        (["**/*"], ["**/deep/**", "?.md"], ["a.txt", "sub/c.txt"]),
        (["**/[c-d].txt"], [], ["sub/c.txt", "sub/deep/d.txt"]),
        (["**/deep/*"], [], ["sub/deep/d.txt"]),
        ([".git/*"], [], [".git/e.txt"]),
        (["**/.*"], [], [".hidden.txt", "sub/.f.txt"]),
        ([".*", "*"], [".h*"], ["a.txt", "b.md"]),
    ],
)
def test_globs(tmp_path: Path, include: list[str], exclude: list[str], expected: list[str]) -> None:
    fill(tmp_path, *NAMES)
    assert ids(tmp_path, include=include, exclude=exclude) == expected


@given(st.lists(st.sampled_from(["a", "bb", "c.txt"]), min_size=1, max_size=4))
def test_double_star_spans_any_depth(segments: list[str]) -> None:
    assert matcher("**/*", hidden=False)(segments)
    assert matcher("**/" + segments[-1], hidden=False)(segments)
    assert matcher(segments[0] + "/**", hidden=False)(segments)
    assert not matcher("**/*/" * len(segments) + "*", hidden=False)(segments)


def test_order_is_by_document_id(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "a/z.txt", "a-b.txt", "a.txt", "Z.txt", "é.txt")
    assert ids(tmp_path) == ["Z.txt", "a-b.txt", "a.txt", "a/z.txt", "b.txt", "é.txt"]


def test_scan_hashes_as_it_advances(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "b.txt")
    listed = scan(DocumentsSource(path="x"), tmp_path)
    next(listed)
    (tmp_path / "b.txt").unlink()
    assert next(listed) == Rejected("b.txt", "", "cannot read the file: No such file or directory")


def test_a_file_that_changes_or_goes_is_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    sources = [item for item in items(tmp_path) if isinstance(item, Source)]
    (tmp_path / "a.txt").write_text("two")
    (tmp_path / "b.jsonl").write_text('{"text": "three"}\n{"text": "two"}\n')
    for source in sources:
        with pytest.raises(DocumentError, match="it changed after it was listed; run again"):
            source.load()
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DocumentError, match="cannot read the file: No such file"):
        sources[0].load()


def test_sources_can_be_sent_to_another_process(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt")
    (source,) = items(tmp_path)
    assert isinstance(source, Source)
    assert pickle.loads(pickle.dumps(source)).load() == source.load()


def test_one_file_is_a_corpus(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "b.txt")
    assert ids(tmp_path / "a.txt", include=["*.md"]) == ["a.txt"]


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ([], {}, "no documents in .*: the folder is empty"),
        (
            ["a.txt", "b.txt"],
            {"include": ["*.md"]},
            r"none of the 2 files in .* matches \['\*.md'\]",
        ),
        (["a.txt"], {"exclude": ["**"]}, r"without matching exclude \['\*\*'\]"),
        (["a.txt"], {"include": ["/a.txt/x"]}, "documents.include: none of the 1 files"),
        ([".a.txt"], {}, "none of the 1 files"),
    ],
)
def test_nothing_to_load(
    tmp_path: Path, names: list[str], settings: dict[str, Any], message: str
) -> None:
    fill(tmp_path, *names)
    with pytest.raises(ConfigError, match=message):
        items(tmp_path, **settings)


def test_no_root(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file or folder: .*/none"):
        items(tmp_path / "none")


def test_links_and_special_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(root, "real.txt", "x.txt/inner.txt")
    fill(tmp_path, "outside.txt", "root2/sibling.txt", "out/o.txt")
    (root / "inside-link.txt").symlink_to("real.txt")
    (root / "escape.txt").symlink_to("../outside.txt")
    (root / "sibling.txt").symlink_to("../root2/sibling.txt")
    (root / "broken.txt").symlink_to("nowhere.txt")
    (root / "loop1.txt").symlink_to("loop2.txt")
    (root / "loop2.txt").symlink_to("loop1.txt")
    (root / "x.txt" / "up").symlink_to("..")
    (root / "folder").symlink_to("../out")
    os.mkfifo(root / "pipe.txt")
    results = outcomes(root)
    good = {k for k, v in results.items() if isinstance(v, Document)}
    assert good == {"real.txt", "inside-link.txt", "x.txt/inner.txt"}
    assert {k: v for k, v in results.items() if isinstance(v, str)} == {
        "escape.txt": f"a link that leaves the documents folder: {tmp_path.resolve()}/outside.txt",
        "sibling.txt": "a link that leaves the documents folder: "
        f"{tmp_path.resolve()}/root2/sibling.txt",
        "broken.txt": "a broken link: there is no nowhere.txt",
        "loop1.txt": "a link that leads back to itself",
        "loop2.txt": "a link that leads back to itself",
        "x.txt/up": "a link to a folder, which is not followed",
        "folder": "a link to a folder, which is not followed",
        "pipe.txt": "not a regular file",
    }


def test_a_root_behind_a_link_is_fine(tmp_path: Path) -> None:
    fill(tmp_path, "real/a.txt")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "b.txt").symlink_to("a.txt")
    assert isinstance(outcomes(tmp_path / "link")["b.txt"], Document)


def test_names_that_cannot_be_shown_or_stored(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    (tmp_path / "new\nline.txt").write_text("x")
    (tmp_path / "cafe\u0301.txt").write_text("x")
    results = outcomes(tmp_path)
    assert isinstance(results.pop("cafe\u0301.txt"), Document)
    reason = "the file name has control characters or is not UTF-8; rename it"
    assert results == {"caf\\udce9.txt": reason, "new\\nline.txt": reason}
    for name in results:
        name.encode()


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder in which file permissions count, even where tests are run by root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for path in (folder, *folder.iterdir()):
            path.chmod(0o755)


def without_privileges(function: Callable[[], Any]) -> Any:
    if os.getuid() == 0:
        os.seteuid(65534)
    try:
        return function()
    finally:
        os.seteuid(os.getuid())


def test_unreadable_files_and_folders(unprivileged: Path) -> None:
    fill(unprivileged, "a.txt", "b.txt", "c.jsonl", "closed/d.txt")
    for name in ("b.txt", "c.jsonl", "closed"):
        (unprivileged / name).chmod(0)
    results = without_privileges(lambda: outcomes(unprivileged))
    assert isinstance(results.pop("a.txt"), Document)
    assert results == {
        "b.txt": "cannot read the file: Permission denied",
        "c.jsonl": "cannot read the file: Permission denied",
        "closed": "cannot read the folder: Permission denied",
    }
    unprivileged.chmod(0)
    with pytest.raises(ConfigError, match=r"cannot read .*: Permission denied"):
        without_privileges(lambda: items(unprivileged))


# --- duplicates ---


def test_same_bytes_are_kept_and_reported(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "b.txt", "sub/c.txt")
    (tmp_path / "d.txt").write_text("other")
    found = items(tmp_path)
    assert all(isinstance(item, Source) for item in found)
    assert duplicate_groups((i.document_id, i.content_hash) for i in found) == [
        ["a.txt", "b.txt", "sub/c.txt"]
    ]


def test_duplicate_groups_are_sorted_and_ignore_unknown_hashes() -> None:
    pairs = [("z", "1"), ("m", "2"), ("b", "1"), ("a", "2"), ("x", ""), ("y", ""), ("q", "3")]
    assert duplicate_groups(pairs) == [["a", "m"], ["b", "z"]]
    assert duplicate_groups([]) == []


def test_every_document_id_is_unique(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "1", "id": "a.jsonl:2"}\n{"text": "2"}\n{broken\n{"text": "3", "id": "b.txt"}\n'
        '{"text": "4", "id": "a.jsonl:3"}'
    )
    (tmp_path / "b.txt").write_text("file")
    listed = items(tmp_path)
    names = [item.document_id for item in listed]
    assert names == sorted(set(names))
    results = outcomes(tmp_path)
    texts = {k: v.text for k, v in results.items() if isinstance(v, Document)}
    assert texts == {"a.jsonl:2": "1", "b.txt": "3", "a.jsonl:3": "4"}
    assert len(results) == 6
    assert all(i.content_hash for i in listed)
