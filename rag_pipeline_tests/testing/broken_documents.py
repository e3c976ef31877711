"""Files and JSON lines that can't be used, each with a part of the reason that quarantine shows."""

import io
import zipfile

import docx
import openpyxl
import pptx

from rag_pipeline_tests.testing.formats import (
    docx_bytes,
    pdf_bytes,
    pptx_bytes,
    repacked,
    saved,
    xlsx_bytes,
)

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
    ("blank.txt", b" \r\n\t \n", "empty: it has no text"),
    ("mark.txt", b"\xef\xbb\xbf", "empty: it has no text"),
    ("zero-width.md", "\u200b\n".encode(), "empty: it has no text"),
    ("mark16.txt", b"\xff\xfe", "empty: it has no text"),
    ("cut.txt", "café".encode()[:-1], "not UTF-8 text: byte 0xc3 at offset 3; save it as UTF-8"),
    ("wrong.md", "# Über\xe9 süß".encode().replace(b"\xc3\xa9", b"\xe9"), "byte 0xe9 at offset 7"),
    ("noise.txt", bytes(range(1, 256)), "byte 0x80 at offset 127"),
    ("odd16.txt", b"\xff\xfea\x00b", "not UTF-16 text: byte 0x62 at offset 4"),
    ("lone16.txt", b"\xff\xfe\x00\xd8a\x00", "not UTF-16 text"),
    ("nul16.txt", "a\x00b".encode("utf-16"), "not valid text: NUL character at offset 1"),
    ("bad32.txt", b"\xff\xfe\x00\x00\xff\xff\xff\xff", "not UTF-32 text"),
    ("nul.txt", b"ab\x00c", "unsupported type .txt: binary (NUL byte at offset 2)"),
    ("nul", b"ab\x00c", "unsupported type (no suffix): binary"),
    ("image.png", b"\x89PNG\r\n\x1a\n" + bytes(9), "corrupt .png: it is not an image"),
    ("photo.jpg", b"\xff\xd8\xff\xe0abc", "corrupt .jpg: Truncated File Read"),
    ("moving.gif", b"GIF89a\x01", "unsupported type .gif: a GIF image"),
    ("old.doc", OLE, "unsupported type .doc: a legacy Office file"),
    ("pack.zip", BOMB, "possible zip bomb: "),
    ("pack.gz", b"\x1f\x8b\x08abc", "unsupported type .gz: a gzip archive"),
    ("letter.rtf", b"{\\rft1 Hi}", "not RTF: it does not begin with"),
    ("hidden.txt", pdf_bytes("x"), "unsupported type .txt: a PDF; name it .pdf"),
    ("empty.docx", b"", "empty: 0 bytes"),
    ("cut.docx", docx_bytes()[:5000], "corrupt .docx: File is not a zip file"),
    ("text.docx", b"not an office file", "corrupt .docx: File is not a zip file"),
    ("old.docx", OLE, "a legacy Office file; save it as a real .docx"),
    ("locked.docx", OLE + "EncryptedPackage".encode("utf-16-le"), "encrypted .docx: save it"),
    ("locked2.docx", encrypted_zip(), "encrypted .docx: save it without a password"),
    ("bomb.docx", BOMB, "possible zip bomb: "),
    ("other.docx", xlsx_bytes(), "corrupt .docx: "),
    ("bodyless.docx", repacked(docx_bytes(), word__document=None), "corrupt .docx: "),
    ("notxml.docx", repacked(docx_bytes(), word__document=b"<w:doc"), "corrupt .docx: "),
    ("tricks.docx", repacked(docx_bytes(), word__document=ENTITIES), "declares XML entities"),
    ("props.docx", repacked(docx_bytes(), docProps__core=ENTITIES), "declares XML entities"),
    ("utf16.docx", repacked(docx_bytes(), x=ENTITIES.decode().encode("utf-16")), "x.xml declares"),
    ("deep.docx", deep_docx(), "corrupt .docx: nested too deeply"),
    ("blank.docx", saved(docx.Document()), "empty: it has no text"),
    ("flipped.docx", docx_bytes().replace(b"PK\x01\x02", b"PK\x09\x09"), "corrupt .docx: "),
    ("cut.pptx", pptx_bytes()[:9000], "corrupt .pptx: File is not a zip file"),
    ("other.pptx", docx_bytes(), "corrupt .pptx: "),
    ("blank.pptx", saved(pptx.Presentation()), "empty: it has no text"),
    ("tricks.pptx", repacked(pptx_bytes(), ppt__presentation=ENTITIES), "declares XML entities"),
    ("cut.xlsx", xlsx_bytes()[:-30], "corrupt .xlsx: File is not a zip file"),
    ("other.xlsx", docx_bytes(), "corrupt .xlsx: "),
    ("blank.xlsx", saved(openpyxl.Workbook()), "empty: it has no text"),
    ("bomb.xlsx", repacked(xlsx_bytes(), xl__junk=bytes(30_000_000)), "possible zip bomb: "),
    ("notxml.xlsx", repacked(xlsx_bytes(), xl__workbook=b"<x"), "corrupt .xlsx: "),
    ("text.pdf", b"not a pdf", "corrupt .pdf: it doesn't begin with %PDF-"),
    ("head.pdf", b"%PDF-1.7\n", "corrupt .pdf: it is cut off"),
    ("cut.pdf", pdf_bytes("x" * 90)[:-200], "corrupt .pdf: it is cut off"),
    ("hollow.pdf", b"%PDF-1.7\n%%EOF", "corrupt .pdf: "),
    ("scan.pdf", pdf_bytes(""), "no text: probably scanned pages"),
    ("locked.pdf", pdf_bytes("x", password="secret"), "encrypted .pdf: save it without a password"),
    ("blank.html", b"<html><body> <p></p></body></html>", "empty: it has no text"),
    ("script.html", b"<script>alert(1)</script>", "empty: it has no text"),
    ("latin1.html", b"<p>caf\xe9", "not UTF-8 text: byte 0xe9 at offset 6"),
    ("broken.json", b'{"text": "x"', "not valid JSON: Expecting ',' delimiter (line 1, column 13)"),
    ("latin1.json", b'{"text": "\xe9"}', "not UTF-8 text: byte 0xe9 at offset 10"),
    ("utf16.json", '{"text": "x"}'.encode("utf-16"), "UTF-16 text: save JSON as UTF-8"),
    ("deep.json", b"[" * 100_000, "unusable JSON: nested too deeply"),
    ("number.json", b"1" * 5000, "unusable JSON: Exceeds the limit"),
    ("textless.json", b'{"text": null}', "text: None: expected a string"),
    ("blank.json", b'{"text": " "}', "empty: it has no text"),
    ("empty.json", b"", "not valid JSON"),
    ("nul.json", b'{"text": "a\\u0000"}', "not valid text: NUL character at offset 1"),
    ("empty.jsonl", b"\n \n", "empty: it has no documents"),
    ("utf16.jsonl", '{"text": "x"}'.encode("utf-16"), "UTF-16 text: save JSON as UTF-8"),
]


BROKEN_LINES: list[tuple[bytes, str]] = [
    (b"nonsense", "not valid JSON: Expecting value"),
    (b'{"text": "x"} trailing', "not valid JSON: Extra data"),
    (b'"text"', "expected a JSON object, not str"),
    (b"[]", "expected a JSON object, not list"),
    (b"{}", "text: missing; the object has nothing"),
    (b'{"body": "x", "id": 3}', "text: missing; the object has 'body', 'id'"),
    (b'{"text": ["x"]}', "text: ['x']: expected a string"),
    (b'{"text": ""}', "empty: it has no text"),
    (b'{"text": "caf\xe9"}', "not UTF-8 text: byte 0xe9 at offset 13"),
    (b'{"text": "x", "id": ""}', "id: '': expected visible characters"),
    (b'{"text": "x", "id": "a\\nb"}', "id: 'a\\nb': expected visible characters"),
    (b'{"text": "x", "id": "\\ud800"}', "expected visible characters"),
    (b'{"text": "x", "id": true}', "id: True: expected a string or an integer"),
    (b'{"text": "x", "document_id": 1.5}', "document_id: 1.5: expected a string or an integer"),
    (b'{"text": "x", "metadata": 3}', "metadata: 3: expected an object"),
    (b'{"text": "tab\there"}', "not valid JSON: Invalid control character"),
]
