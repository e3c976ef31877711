"""Convert notebooks, mails, e-books, OpenDocument and RTF files to Markdown with a title."""

import io
import json
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote

from rag_pipeline.datamodels import MetadataValue
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.html import html_text
from rag_pipeline.loading.text import clean, decode, one_line

_ODF_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_ODF_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_ODF_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"
_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_OPF = "{http://www.idpf.org/2007/opf}"
_MAX_OUTPUT = 2_000
_MAX_REPEATED = 100
_MAIL_FIELDS = ("From", "To", "Cc", "Date", "Subject")
_MAX_FIELD = 10_000


class Parsed(NamedTuple):
    """Hold the Markdown of a file, and the title that the file declares, or "".

    - `page_map`: a packed `PageMap`, or None for formats that have no pages.
    - `missing_extra`: the extra that would read more of the file, or "".
    - `unseen`: the number of characters that no reader sees, by reason. `parse` moves it to
      `metadata`.
    """

    text: str
    title: str = ""
    page_map: bytes | None = None
    metadata: Mapping[str, MetadataValue] = MappingProxyType({})
    missing_extra: str = ""
    unseen: Mapping[str, int] = MappingProxyType({})


def read_notebook(document_id: str, raw: bytes) -> Parsed:
    """Return a Jupyter notebook as Markdown. Code is fenced, and followed by its output.

    The metadata field `cells` holds the offset of each cell in the text.
    """
    notebook = json.loads(decode(document_id, raw, ".ipynb")[0])
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    parts: list[str] = []
    starts: list[int] = []
    at = 0
    for cell in notebook["cells"]:
        text = clean(_cell_text(cell, language))
        starts.append(at)
        if text:
            parts.append(text)
            at += len(text) + 2
    return Parsed("\n\n".join(parts), metadata={"cells": json.dumps(starts)})


def _cell_text(cell: dict[str, Any], language: str) -> str:
    source = "".join(cell.get("source", ""))
    if cell.get("cell_type") != "code":
        return source
    outputs = [_output(output) for output in cell.get("outputs", ())]
    shown = [f"```text\n{output}\n```" for output in outputs if output.strip()]
    return "\n\n".join([f"```{language}\n{source}\n```", *shown]) if source.strip() else ""


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    text = "".join(output.get("text") or data.get("text/markdown") or data.get("text/plain") or "")
    return text if len(text) <= _MAX_OUTPUT else f"{text[:_MAX_OUTPUT]}…"


def read_mail(document_id: str, raw: bytes) -> Parsed:
    """Return a mail's (RFC 5322) fields, its text, and the names of its attachments.

    At most 10,000 characters of a field are read, because `email` takes quadratic time on long
    fields.
    """
    from email import message_from_bytes
    from email.message import EmailMessage
    from email.policy import EmailPolicy

    class Bounded(EmailPolicy):
        def header_fetch_parse(self, name: str, value: str) -> Any:
            return super().header_fetch_parse(name, value[:_MAX_FIELD])

    message = message_from_bytes(raw, policy=Bounded())
    assert isinstance(message, EmailMessage)
    fields = {name: one_line(str(v)) for name in _MAIL_FIELDS if (v := message[name])}
    if not fields:
        raise DocumentError(document_id, "not a mail: it has none of From, To, Date and Subject")
    body = message.get_body(("plain", "html"))
    text = _mail_text(document_id, body) if body is not None else ""
    unseen: Counter[str] = Counter()
    if body is not None and body.get_content_subtype() == "html":
        text = html_text(document_id, text.encode(), unseen)
    names = [part.get_filename() or "" for part in message.iter_attachments()]
    sent = getattr(message["Date"], "datetime", None)
    return _mail(fields, text, names, sent.date().isoformat() if sent else "", unseen)


def _mail_text(document_id: str, body: Any) -> str:
    try:
        return str(body.get_content())
    except LookupError:  # a charset that Python does not know, such as "unknown-8bit"
        pass
    try:
        return str(body.get_payload(decode=True).decode())
    except UnicodeDecodeError:
        charset = body.get_param("charset")
        raise DocumentError(
            document_id, f"its charset {charset!r:.80} is unknown, and it is not UTF-8 text"
        ) from None


def _mail(
    fields: dict[str, str], text: str, attached: list[str], date: str, unseen: Counter[str]
) -> Parsed:
    heads = [f"{name}: {value}" for name, value in fields.items()]
    names = [one_line(name) or "unnamed" for name in attached]
    heads += [f"Attachments: {', '.join(names)}"] if names else []
    metadata: dict[str, MetadataValue] = {
        name.lower(): fields[name] for name in ("From", "To") if name in fields
    }
    if date:
        metadata["date"] = date
    title = fields.get("Subject", "")
    return Parsed("\n".join([*heads, "", text]), title, metadata=metadata, unseen=unseen)


def read_outlook_mail(document_id: str, raw: bytes) -> Parsed:
    """Return an Outlook mail's fields, its text, and the names of its attachments."""
    from oxmsg import Message

    message = Message.load(raw)
    headers = message.message_headers
    people = [
        f"{one.name} <{one.email_address}>" if one.name != one.email_address else one.name
        for one in message.recipients
    ]
    sent = message.sent_date
    given = {
        "From": message.sender,
        "To": headers.get("To") or ", ".join(people),
        "Cc": headers.get("Cc"),
        "Date": headers.get("Date") or (f"{sent:%a, %d %b %Y %H:%M:%S %z}" if sent else ""),
        "Subject": message.subject,
    }
    fields = {name: one_line(value) for name, value in given.items() if value}
    text = message.body or ""
    unseen: Counter[str] = Counter()
    if not text.strip() and message.html_body:
        text = html_text(document_id, message.html_body.encode(), unseen)
    if not fields and not text.strip():
        raise DocumentError(document_id, "not a mail: it has no sender, no subject and no text")
    names = [one.file_name or "" for one in message.attachments]
    day = sent.date().isoformat() if sent else ""
    return _mail(fields, text.replace("\r\n", "\n"), names, day, unseen)


def read_epub(document_id: str, raw: bytes) -> Parsed:
    """Return an EPUB's chapters in reading order."""
    from defusedxml.ElementTree import fromstring

    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        container = fromstring(archive.read("META-INF/container.xml"), forbid_dtd=True)
        package = container.find(f".//{_CONTAINER}rootfile").get("full-path")
        opf = fromstring(archive.read(package), forbid_dtd=True)
        files = {
            item.get("id"): item.get("href")
            for item in opf.iter(f"{_OPF}item")
            if "html" in str(item.get("media-type"))
        }
        chapters = [files.get(item.get("idref")) for item in opf.iter(f"{_OPF}itemref")]
        folder = posixpath.dirname(package)
        paths = (posixpath.join(folder, unquote(chapter)) for chapter in chapters if chapter)
        unseen: Counter[str] = Counter()
        texts = [
            html_text(document_id, archive.read(posixpath.normpath(path)), unseen) for path in paths
        ]
        title = opf.findtext(f".//{_DUBLIN_CORE}title") or ""
        author = opf.findtext(f".//{_DUBLIN_CORE}creator") or ""
    metadata = {"author": one_line(author)} if author else {}
    return Parsed("\n\n".join(texts), title, metadata=metadata, unseen=unseen)


def read_odt(document_id: str, raw: bytes) -> Parsed:
    """Return an OpenDocument text: headings, paragraphs, lists and tables."""
    from defusedxml.ElementTree import fromstring

    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        content = fromstring(archive.read("content.xml"), forbid_dtd=True)
        title = ""
        if "meta.xml" in archive.namelist():
            meta = fromstring(archive.read("meta.xml"), forbid_dtd=True)
            title = meta.findtext(f".//{_DUBLIN_CORE}title") or ""
    body = content.find(f"{_ODF_OFFICE}body/{_ODF_OFFICE}text")
    return Parsed("\n\n".join(_blocks(body)), title)


def _blocks(element: Any) -> Iterator[str]:
    for child in element:
        if child.tag == f"{_ODF_TEXT}h":
            level = min(int(child.get(f"{_ODF_TEXT}outline-level", "1")), 6)
            yield f"{'#' * level} {one_line(_inline(child))}"
        elif child.tag == f"{_ODF_TEXT}p":
            yield _inline(child)
        elif child.tag == f"{_ODF_TEXT}list":
            items = ("\n".join(_blocks(item)) for item in child)
            yield "\n".join("- " + item.replace("\n", "\n  ") for item in items if item.strip())
        elif child.tag == f"{_ODF_TABLE}table":
            yield _table(child)
        elif child.tag == f"{_ODF_TEXT}section":
            yield from _blocks(child)


def _table(table: Any) -> str:
    rows: list[str] = []
    for row in table.iter(f"{_ODF_TABLE}table-row"):
        cells: list[str] = []
        for cell in row:
            text = one_line(" ".join(_blocks(cell))).replace("|", "\\|")
            repeated = int(cell.get(f"{_ODF_TABLE}number-columns-repeated", "1"))
            cells += [text] * min(repeated, _MAX_REPEATED)
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            add_row(rows, cells)
    return "\n".join(rows)


def add_row(rows: list[str], cells: list[str]) -> None:
    """Add a row to the lines of a Markdown table. The first row becomes the head."""
    rows.append(f"| {' | '.join(cells)} |")
    if len(rows) == 1:
        rows.append("|" + " --- |" * len(cells))


def _inline(element: Any) -> str:
    parts = [element.text or ""]
    for child in element:
        if child.tag == f"{_ODF_TEXT}s":
            parts.append(" " * min(int(child.get(f"{_ODF_TEXT}c", "1")), _MAX_REPEATED))
        elif child.tag in (f"{_ODF_TEXT}line-break", f"{_ODF_TEXT}tab"):
            parts.append("\n" if child.tag.endswith("break") else "\t")
        else:
            parts.append(_inline(child))
        parts.append(child.tail or "")
    return "".join(parts)


def read_rtf(document_id: str, raw: bytes) -> Parsed:
    """Return the text and the declared title of an RTF file."""
    from striprtf.striprtf import rtf_to_text

    if not raw.startswith(b"{\\rtf"):
        raise DocumentError(document_id, r"not RTF: it does not begin with {\rtf")
    source = raw.decode("latin-1")
    declared = re.search(r"\{\\title\s+([^{}\\]{1,200})\}", source)
    return Parsed(rtf_to_text(source, errors="replace"), declared[1] if declared else "")
