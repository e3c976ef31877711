"""Convert notebooks, e-books, OpenDocument and RTF files to Markdown with a title."""

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
from rag_pipeline.loading.html import html_text, to_markdown
from rag_pipeline.loading.text import clean, decode, one_line

_ODF_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_ODF_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_ODF_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"
_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_OPF = "{http://www.idpf.org/2007/opf}"
_MAX_OUTPUT = 2_000
_MAX_REPEATED = 100


class Parsed(NamedTuple):
    """The Markdown of a file, and the title that the file declares, or "".

    - `page_map`: a packed `PageMap`, or None for formats that have no pages.
    - `missing_extra`: the extra with which more of the file could be read, or "".
    - `unseen`: the numbers of characters, rows, cells and other parts that no person sees, by
      reason. `parse` moves them to `metadata`.
    """

    text: str
    title: str = ""
    page_map: bytes | None = None
    metadata: Mapping[str, MetadataValue] = MappingProxyType({})
    missing_extra: str = ""
    unseen: Mapping[str, int] = MappingProxyType({})


_SLIDE = re.compile(r"^<!-- Slide number: \d+ -->\n?", re.M)
_PICTURE = re.compile(r"^!\[(.*)\]\((\w+)\.jpg\)$", re.M)
"""A picture with its description, or else its name. The file's name is the picture's name."""


def read_slides(_: str, raw: bytes) -> Parsed:
    """Return slides as Markdown. The metadata field `slides` holds the offset of each slide."""
    parts, starts, offset = [], [], 0
    for slide in _SLIDE.split(to_markdown(raw, ".pptx"))[1:]:
        starts.append(offset)
        if text := clean(_PICTURE.sub(_described, slide)):
            parts.append(text)
            offset += len(text) + 2
    return Parsed("\n\n".join(parts), metadata={"slides": json.dumps(starts)})


def _described(picture: re.Match[str]) -> str:
    """Return a picture's description, or "" if it has none."""
    return "" if re.sub(r"\W", "", picture[1]) == picture[2] else picture[1]


def read_notebook(document_id: str, raw: bytes) -> Parsed:
    """Return a Jupyter notebook as Markdown with fenced code and its output.

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
    return Parsed("\n\n".join(_blocks(content.find(f"{_ODF_OFFICE}body/{_ODF_OFFICE}text"))), title)


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
    """Add a row to the lines of a Markdown table. The first row is the header."""
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
