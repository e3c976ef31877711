"""Parse HTML, PDF, Office files, source code and other formats to text and a title.

markitdown's converters are called directly. Its main class guesses types with a slow model, and
passes a corrupt file to the converter of another type.
"""

import functools
import io
import json
import logging
import re
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, time
from pathlib import PurePosixPath
from typing import Any

from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.archives import bomb
from rag_pipeline.loading.code import CODE_SUFFIXES, symbols_metadata
from rag_pipeline.loading.extras import is_installed
from rag_pipeline.loading.formats import (
    Parsed,
    add_row,
    read_epub,
    read_mail,
    read_notebook,
    read_odt,
    read_outlook_mail,
    read_rtf,
)
from rag_pipeline.loading.html import convert_in_linear_time, decode_html, read_nested
from rag_pipeline.loading.text import decode, one_line

_NOISY_LOGGERS = ("bs4", "markitdown", "mammoth", "openpyxl")
_ONE_AT_A_TIME = threading.Lock()
"""Silencing loggers affects the whole process, so one parser runs at a time."""

_MAX_CELLS = 20_000_000
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_DOCX_STYLES = "p[style-name='Title'] => h1:fresh"
_PLACEHOLDER_TITLES = {"", "untitled", "(anonymous)", "powerpoint presentation", "word document"}


Parser = Callable[[str, bytes, int], Parsed]
"""Takes a document's id, its bytes and `documents.max_bytes`."""


def parse(document_id: str, raw: bytes, suffix: str, max_bytes: int) -> Parsed:
    """Convert one file with a suffix of PARSERS to Markdown; the same bytes give the same text.

    Raise DocumentError for encrypted, corrupt and hostile files, and for files without text.
    """
    parser = PARSERS[suffix]
    try:
        with _ONE_AT_A_TIME, _silence():
            parsed = parser(document_id, raw, max_bytes)
    except DocumentError:
        raise
    except RecursionError:
        raise DocumentError(document_id, f"corrupt {suffix}: nested too deeply") from None
    except MemoryError:
        raise DocumentError(document_id, f"{suffix} needs more memory than there is") from None
    # Parsers of hostile bytes raise any exception; one document must not stop the others.
    except Exception as error:  # noqa: BLE001
        reason = one_line(str(error))[:200] or type(error).__name__
        raise DocumentError(document_id, f"corrupt {suffix}: {reason}") from None
    title = one_line(parsed.title)
    # Page maps and symbols hold offsets in the unchanged text.
    is_final = parsed.page_map or suffix in CODE_SUFFIXES
    text = parsed.text if is_final else _clean(parsed.text)
    title = "" if title.lower() in _PLACEHOLDER_TITLES else title
    return parsed._replace(text=text, title=title)


def _parse_html(document_id: str, raw: bytes, max_bytes: int) -> Parsed:
    from bs4 import BeautifulSoup

    html = decode_html(document_id, raw)
    nested = read_nested(html)
    if nested is not None:
        return Parsed(*nested)
    # lxml closes open <p> and <li> elements; the converter's parser nests them thousands deep.
    soup = BeautifulSoup(html, "lxml")
    title = soup.title.get_text() if soup.title else ""
    for element in soup(["script", "style"]):
        element.extract()
    return Parsed(_markdown(str(soup).encode(), ".html"), title)


def _parse_pdf(document_id: str, raw: bytes, max_bytes: int) -> Parsed:
    from rag_pipeline.loading.pdf.parse import read_pdf

    read = read_pdf(document_id, raw)
    return Parsed(
        read.text, read.title, read.page_map.to_bytes(), read.metadata, read.missing_extra
    )


def _parse_office(suffix: str, document_id: str, raw: bytes, max_bytes: int) -> Parsed:
    title = _checked_office_title(document_id, raw, suffix, max_bytes)
    return Parsed(_markdown(raw, suffix), title)


def _parse_xlsx(document_id: str, raw: bytes, max_bytes: int) -> Parsed:
    """Write each sheet as a Markdown table, row by row.

    markitdown uses a data frame, which writes empty cells as `NaN`, and needs all memory for one
    cell in a far corner.
    """
    title = _checked_office_title(document_id, raw, ".xlsx", max_bytes)
    from openpyxl import load_workbook

    workbook = load_workbook(io.BytesIO(raw), read_only=True, data_only=True, keep_links=False)
    parts: list[str] = []
    blank: dict[str, list[tuple[int, int]]] = {}
    cells = 0
    for sheet in workbook.worksheets:
        sheet.reset_dimensions()  # the declared extent is often wrong
        rows: list[str] = []
        filled = 0
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            cells += len(row) + 1
            if cells > _MAX_CELLS:
                raise DocumentError(document_id, f".xlsx has more than {_MAX_CELLS:,} cells")
            values = [_cell(value) for value in row]
            while values and not values[-1]:
                values.pop()
            if values:
                if (skipped := number - filled - 1) > 0:
                    blank.setdefault(one_line(sheet.title), []).append((filled + 1, skipped))
                filled = number
                add_row(rows, values)
        if rows:
            parts.append("\n".join([f"## {one_line(sheet.title)}", "", *rows]))
    metadata = {"blank_rows": json.dumps(blank)} if blank else {}
    return Parsed("\n\n".join(parts), title, metadata=metadata)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, date | time):
        return str(value).removesuffix(" 00:00:00")
    return one_line(str(value)).replace("|", "\\|")


def _parse_epub(document_id: str, raw: bytes, max_bytes: int) -> Parsed:
    _checked_office_title(document_id, raw, ".epub", max_bytes)
    return read_epub(raw, _text_of_html(document_id))


def _parse_odt(document_id: str, raw: bytes, max_bytes: int) -> Parsed:
    _checked_office_title(document_id, raw, ".odt", max_bytes)
    return read_odt(raw)


def _parse_rtf(document_id: str, raw: bytes, max_bytes: int) -> Parsed:
    if not raw.startswith(b"{\\rtf"):
        raise DocumentError(document_id, r"not RTF: it does not begin with {\rtf")
    return read_rtf(raw)


def _parse_code(suffix: str, document_id: str, raw: bytes, max_bytes: int) -> Parsed:
    text, title = decode(document_id, raw, suffix), PurePosixPath(document_id).name
    if not is_installed("code"):
        return Parsed(text, title, missing_extra="code")
    return Parsed(text, title, metadata=symbols_metadata(text, suffix))


def _text_of_html(document_id: str) -> Callable[[bytes], str]:
    return lambda html: _clean(_parse_html(document_id, html, len(html)).text)


def _checked_office_title(document_id: str, raw: bytes, suffix: str, max_bytes: int) -> str:
    """Return the title in the properties; refuse encrypted files, zip bombs and XML entities."""
    from defusedxml.common import DTDForbidden
    from defusedxml.ElementTree import fromstring, iterparse

    if raw.startswith(b"\xd0\xcf\x11\xe0"):
        reason = f"unsupported type: a legacy Office file; save it as a real {suffix}"
        if "EncryptedPackage".encode("utf-16-le") in raw:
            reason = f"encrypted {suffix}: it needs a password"
        raise DocumentError(document_id, reason)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        entries = archive.infolist()
        if any(entry.flag_bits & 1 for entry in entries):
            raise DocumentError(document_id, f"encrypted {suffix}: it needs a password")
        if reason := bomb(entries, len(raw), max_bytes, "parts", suffix):
            raise DocumentError(document_id, reason)
        for entry in entries:
            if not entry.filename.lower().endswith((".xml", ".rels")):
                continue
            with archive.open(entry) as part:
                try:
                    next(iterparse(part, events=("start",), forbid_dtd=True), None)
                except DTDForbidden:
                    reason = f"corrupt {suffix}: {entry.filename} declares XML entities"
                    raise DocumentError(document_id, reason) from None
                except SyntaxError:
                    continue  # not XML; the converter fails if it needs this part
        if "docProps/core.xml" not in archive.namelist():
            return ""
        try:
            properties = fromstring(archive.read("docProps/core.xml"), forbid_dtd=True)
        except SyntaxError:
            return ""
        return properties.findtext("{http://purl.org/dc/elements/1.1/}title") or ""


@functools.cache
def _converter(suffix: str) -> Any:
    from markitdown.converters import DocxConverter, HtmlConverter, PptxConverter

    convert_in_linear_time()
    return {".html": HtmlConverter, ".docx": DocxConverter, ".pptx": PptxConverter}[suffix]()


def _markdown(raw: bytes, suffix: str) -> str:
    from markitdown import StreamInfo

    info = StreamInfo(extension=suffix, charset="utf-8" if suffix == ".html" else None)
    # strict: a fallback to plain text would depend on the depth of the call stack.
    options = {"style_map": _DOCX_STYLES} if suffix == ".docx" else {}
    result = _converter(suffix).convert(io.BytesIO(raw), info, strict=True, **options)
    return str(result.markdown)


def _clean(text: str) -> str:
    """Remove control characters, and collapse blank lines."""
    text = re.sub(r"\r\n?|\x0c", "\n", text)
    text = _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n")


@contextmanager
def _silence() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _NOISY_LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


PARSER_VERSIONS = {
    ".pdf": 4,
    **dict.fromkeys((".ipynb", ".eml", ".msg", ".epub", ".odt", ".rtf", *CODE_SUFFIXES), 2),
}
"""Version of a parser by suffix, 1 by default. Raise it when the parser's output changes: the
documents of that parser become stale."""

PARSERS: dict[str, Parser] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), _parse_html),
    ".pdf": _parse_pdf,
    **{suffix: functools.partial(_parse_office, suffix) for suffix in (".docx", ".pptx")},
    ".xlsx": _parse_xlsx,
    ".ipynb": lambda name, raw, _: read_notebook(name, raw, _clean),
    ".eml": lambda name, raw, _: read_mail(name, raw, _text_of_html(name)),
    ".msg": lambda name, raw, _: read_outlook_mail(name, raw, _text_of_html(name)),
    ".epub": _parse_epub,
    ".odt": _parse_odt,
    ".rtf": _parse_rtf,
    **{suffix: functools.partial(_parse_code, suffix) for suffix in CODE_SUFFIXES},
}
"""The parser of each suffix."""
