"""Convert HTML, PDF, Office files, source code and other formats to text and a title.

This module calls markitdown's converters directly. The main class of markitdown guesses types with
a slow model, and passes a corrupt file to the converter of another type.
"""

import io
import json
import re
import threading
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, time
from itertools import chain, islice, takewhile
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from rag_pipeline.datamodels import MetadataValue
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.archives import bomb, member_of
from rag_pipeline.loading.code import CODE_SUFFIXES, symbols_metadata
from rag_pipeline.loading.extras import is_installed
from rag_pipeline.loading.formats import (
    Parsed,
    add_row,
    read_epub,
    read_notebook,
    read_odt,
    read_rtf,
    read_slides,
)
from rag_pipeline.loading.html import read_html, to_markdown
from rag_pipeline.loading.images import IMAGE_TYPES, read_image
from rag_pipeline.loading.mails import read_mail, read_outlook_mail
from rag_pipeline.loading.text import clean, decode, one_line
from rag_pipeline.loading.unseen import (
    FORMULAS,
    WITHOUT_WIDTH,
    docx_without_unseen,
    unseen_metadata,
    without_zero_width,
)

_ONE_AT_A_TIME = threading.Lock()
"""Held by the running parser, because ignoring warnings affects the whole process."""

_MAX_CELLS = 20_000_000
_MAX_COLUMNS = 16_384
_TRUE = ("1", "true")
_PLACEHOLDER_TITLES = {"", "untitled", "(anonymous)", "powerpoint presentation", "word document"}
_ZIPPED = (".docx", ".pptx", ".xlsx", ".epub", ".odt")


def parse(document_id: str, raw: bytes, suffix: str, max_bytes: int) -> Parsed:
    """Convert a file whose suffix is in `PARSERS` to Markdown. Source code stays unchanged.

    The same bytes give the same text. Raise DocumentError for encrypted, corrupt and hostile files,
    and for PDF files without text.
    """
    title = ""
    try:
        with _ONE_AT_A_TIME, warnings.catch_warnings(action="ignore"):
            if suffix in _ZIPPED:
                title = _checked_office_title(document_id, raw, suffix, max_bytes)
            parsed = PARSERS[suffix](document_id, raw)
    except DocumentError:
        raise
    except RecursionError:
        raise DocumentError(document_id, f"corrupt {suffix}: nested too deeply") from None
    except MemoryError:
        raise DocumentError(document_id, f"{suffix} needs more memory than is available") from None
    except Exception as error:  # noqa: BLE001 - a hostile document must not stop the others
        reason = one_line(str(error))[:200] or type(error).__name__
        raise DocumentError(document_id, f"corrupt {suffix}: {reason}") from None
    title = one_line(parsed.title or title)
    stem = PurePosixPath(unquote(document_id)).stem
    # Page maps and symbols hold offsets in the unchanged text.
    is_final = parsed.page_map or suffix in CODE_SUFFIXES
    text, unseen = parsed.text, dict(parsed.unseen)
    if not is_final:
        text, unseen[WITHOUT_WIDTH] = without_zero_width(clean(text))
    return parsed._replace(
        text=text,
        title="" if title.lower() in (*_PLACEHOLDER_TITLES, stem.lower()) else title,
        metadata={**parsed.metadata, **unseen_metadata(unseen)},
        unseen={},
    )


def _parse_pdf(document_id: str, raw: bytes) -> Parsed:
    from rag_pipeline.loading.pdf.parse import read_pdf

    return read_pdf(document_id, raw)


def _parse_html(document_id: str, raw: bytes) -> Parsed:
    text, title, unseen = read_html(document_id, raw, of_page=True)
    return Parsed(text, title, unseen=unseen)


def _parse_mail(document_id: str, raw: bytes) -> Parsed:
    return read_mail(document_id, raw, is_member=member_of(document_id) is not None)


def _parse_docx(_: str, raw: bytes) -> Parsed:
    raw, unseen = docx_without_unseen(raw)
    return Parsed(to_markdown(raw, ".docx"), unseen=unseen)


_MOST_ABOVE = 2
"""Maximum number of rows above the head of a sheet's table."""
_LEAST_HEAD = 3
"""Minimum number of cells of a head below such rows. Two cells may be a field and its value."""
_NOT_COMPUTED = re.compile(rb"(?:</f>|<f\b[^<>]*/>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>")
"""Matches the end of an Excel cell that has a formula but no stored value."""


def _parse_xlsx(document_id: str, raw: bytes) -> Parsed:
    """Return each sheet as a Markdown table, with marks on hidden rows, columns and sheets."""
    # markitdown would write empty cells as `NaN`, and run out of memory on one far cell.
    from openpyxl import load_workbook

    workbook = load_workbook(io.BytesIO(raw), read_only=True, data_only=True, keep_links=False)
    parts: list[str] = []
    blank: dict[str, list[tuple[int, int]]] = {}
    cells = Counter[str]()
    hidden: Counter[str] = Counter()
    for sheet in workbook.worksheets:
        sheet.reset_dimensions()  # the declared extent is often wrong
        title = one_line(sheet.title)
        if sheet.sheet_state != "visible":
            title = f"{title} (hidden sheet)"
            hidden["hidden sheets"] += 1
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            written = archive.read(sheet._worksheet_path.lstrip("/"))
        hidden_rows, hidden_columns = _hidden_parts(written)
        hidden[FORMULAS] += len(_NOT_COMPUTED.findall(written))
        rows: list[str] = []
        above, filled_rows = _rows_below(_filled_rows(sheet, document_id, cells))
        filled = 0
        for number, values in filled_rows:
            if (skipped := number - filled - 1) > 0:
                blank.setdefault(title, []).append((filled + 1, skipped))
            filled = number
            if not rows:
                shown = [n for n, value in enumerate(values, 1) if n in hidden_columns and value]
                hidden["hidden columns"] += len(shown)
                for n in shown:
                    values[n - 1] += " (hidden column)"
            if number in hidden_rows:
                values[0] = f"{values[0]} (hidden row)".lstrip()
                hidden["hidden rows"] += 1
            add_row(rows, values)
        if rows:
            parts.append("\n".join([f"## {title}", "", *above, *rows]))
    metadata = {"blank_rows": json.dumps(blank)} if blank else {}
    return Parsed("\n\n".join(parts), metadata=metadata, unseen=hidden)


def _filled_rows(
    sheet: Any, document_id: str, cells: Counter[str]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each row with a value. Count all cells of a workbook."""
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        cells["read"] += len(row) + 1
        if cells["read"] > _MAX_CELLS:
            raise DocumentError(document_id, f".xlsx has more than {_MAX_CELLS:,} cells")
        values = [_cell(value) for value in row]
        while values and not values[-1]:
            values.pop()
        if values:
            yield number, values


def _rows_below(
    rows: Iterator[tuple[int, list[str]]],
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Split rows into the lines of text above a table, and the rows from its head on.

    One or two rows of a single cell are text if the next row, the head, has at least three cells.
    """
    first = list(islice(rows, _MOST_ABOVE + 1))
    single = [values[0] for _, values in takewhile(lambda row: len(row[1]) == 1, first)]
    head = first[len(single)][1] if len(single) < len(first) else []
    if not single or sum(map(bool, head)) < _LEAST_HEAD:
        return [], chain(first, rows)
    return [line for cell in single for line in (cell, "")], chain(first[len(single) :], rows)


def _hidden_parts(sheet: bytes) -> tuple[set[int], set[int]]:
    """Return the numbers (from 1) of the hidden rows and hidden columns in a sheet's XML."""
    # openpyxl reads these numbers only if it keeps the whole sheet in memory.
    from defusedxml.ElementTree import iterparse

    rows: set[int] = set()
    columns: set[int] = set()
    before = 0
    for _, element in iterparse(io.BytesIO(sheet), forbid_dtd=True) if b"hidden=" in sheet else ():
        kind, given = element.tag.rpartition("}")[2], element.attrib
        if kind == "row":
            before = int(given.get("r", before + 1))
            rows |= {before} if given.get("hidden") in _TRUE else set()
            element.clear()
        elif kind == "col" and given.get("hidden") in _TRUE:
            last = min(int(given["max"]), _MAX_COLUMNS)
            columns.update(range(int(given["min"]), last + 1))
    return rows, columns


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, date | time):
        return str(value).removesuffix(" 00:00:00")
    return one_line(str(value)).replace("|", "\\|")


def _parse_code(document_id: str, raw: bytes) -> Parsed:
    path = PurePosixPath(document_id)
    suffix = path.suffix.lower()
    text, encoding = decode(document_id, raw, suffix)
    guessed: dict[str, MetadataValue] = {"encoding": encoding} if encoding else {}
    if not is_installed("code"):
        return Parsed(text, path.name, metadata=guessed, missing_extra="code")
    return Parsed(text, path.name, metadata={**symbols_metadata(text, suffix), **guessed})


def _checked_office_title(document_id: str, raw: bytes, suffix: str, max_bytes: int) -> str:
    """Return a file's title or "". Raise DocumentError for encryption, bombs and XML entities."""
    from defusedxml.common import DTDForbidden
    from defusedxml.ElementTree import fromstring, iterparse

    if raw.startswith(b"\xd0\xcf\x11\xe0"):
        reason = f"unsupported type: a legacy Office file; save it as a real {suffix}"
        if "EncryptedPackage".encode("utf-16-le") in raw:
            reason = f"encrypted {suffix}: save it without a password"
        raise DocumentError(document_id, reason)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        entries = archive.infolist()
        if any(entry.flag_bits & 1 for entry in entries):
            raise DocumentError(document_id, f"encrypted {suffix}: save it without a password")
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
                    continue  # not XML: the converter fails if it needs this part
        if "docProps/core.xml" not in archive.namelist():
            return ""
        try:
            properties = fromstring(archive.read("docProps/core.xml"), forbid_dtd=True)
        except SyntaxError:
            return ""
        return properties.findtext("{http://purl.org/dc/elements/1.1/}title") or ""


PARSER_VERSIONS = {
    **dict.fromkeys((".pdf", *IMAGE_TYPES), 12),  # an image is read as a page of a PDF
    **dict.fromkeys((".eml", ".msg"), 5),
    **dict.fromkeys((".epub", ".html", ".htm", ".xhtml"), 6),
    **dict.fromkeys((".pptx", ".xlsx"), 5),
    **dict.fromkeys((".docx", ".csv", ".tsv"), 4),
    **dict.fromkeys((".ipynb", ".odt", ".rtf", *CODE_SUFFIXES), 2),
}
"""The version of each suffix's parser, by default 1. A new version makes its documents stale."""

PARSERS: dict[str, Callable[[str, bytes], Parsed]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), _parse_html),
    ".pdf": _parse_pdf,
    ".docx": _parse_docx,
    ".pptx": read_slides,
    ".xlsx": _parse_xlsx,
    ".ipynb": read_notebook,
    ".eml": _parse_mail,
    ".msg": read_outlook_mail,
    ".epub": read_epub,
    ".odt": read_odt,
    ".rtf": read_rtf,
    **dict.fromkeys(IMAGE_TYPES, read_image),
    **dict.fromkeys(CODE_SUFFIXES, _parse_code),
}
"""The parser of each suffix: a function of a document's id and bytes."""
