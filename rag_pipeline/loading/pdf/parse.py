"""Convert a PDF to Markdown in reading order, with its title and the position of each line."""

import ctypes
import gc
import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pypdfium2.raw as pdfium

from rag_pipeline.datamodels import MetadataValue
from rag_pipeline.errors import DocumentError, installation
from rag_pipeline.loading.extras import is_installed
from rag_pipeline.loading.formats import Parsed
from rag_pipeline.loading.page_map import PageMap
from rag_pipeline.loading.parser_process import more_room
from rag_pipeline.loading.pdf.columns import read_columns, table_line
from rag_pipeline.loading.pdf.elements import Line, Page, Word
from rag_pipeline.loading.pdf.figures import TableCells
from rag_pipeline.loading.pdf.furniture import without_furniture, without_line_numbers
from rag_pipeline.loading.pdf.glyphs import read_glyphs
from rag_pipeline.loading.pdf.headings import (
    declared_title,
    demote_front_matter,
    set_levels,
    title_block,
    without_marks,
)
from rag_pipeline.loading.pdf.hyphens import Hyphens
from rag_pipeline.loading.pdf.markdown import plain, to_markdown
from rag_pipeline.loading.pdf.paragraphs import Styles, blocks_of
from rag_pipeline.loading.pdf.render import MAX_PIXELS, too_large
from rag_pipeline.loading.pdf.tables import ruled_tables
from rag_pipeline.loading.quality import measure

_PASSWORD_ERRORS = (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)
_MAX_RECOGNISED = 500
"""Maximum number of recognised pages in a document. Further scans count as unread."""
_RECOGNITION_SECONDS = 120.0
_RECOGNITION_BYTES = 3 << 30
_MAX_UNMAPPED = 0.3
_FEW = 30
_MIN_IMAGE = 0.3
_MAX_PAGES = 20_000
_HEAD = 0.45
_STAND_IN = "\ufffc"
_STAND_IN_SIZE = 8.0


def read_pdf(document_id: str, raw: bytes) -> Parsed:
    """Convert a PDF to Markdown. Raise DocumentError if it is encrypted, corrupt or has no text."""
    if b"%PDF-" not in raw[:1024]:
        raise DocumentError(document_id, "corrupt .pdf: it doesn't begin with %PDF-")
    if b"%%EOF" not in raw:
        raise DocumentError(document_id, "corrupt .pdf: it is cut off and has no %%EOF mark")
    with _opened(document_id, raw) as document:
        declared = declared_title(_declared_title(document))
        pages: list[Page] = []
        for number in range(_count(document_id, document)):
            recognised = sum(page.confidence is not None for page in pages)
            pages.append(_read(document, number, recognised < _MAX_RECOGNISED))
    text, title, page_map = _composed(pages)
    if not text:
        raise DocumentError(document_id, _without_text(pages))
    left_out = not is_installed("ocr") and any(
        is_unread(page) and page.image_pixels <= MAX_PIXELS for page in pages
    )
    return Parsed(
        text,
        declared or title,
        replace(page_map, file_hash=hashlib.sha256(raw).hexdigest()).to_bytes(),
        _metadata(text, pages),
        "ocr" if left_out else "",
        sum((page.unseen for page in pages), Counter[str]()),
    )


def _composed(pages: list[Page]) -> tuple[str, str, PageMap]:
    heights = [page.height for page in pages]
    body = Styles([page.lines for page in pages]).body
    kept = without_furniture([page.lines for page in pages], heights, body)
    blocks, styles = blocks_of(kept, heights)
    titled = title_block(blocks, styles)
    demote_front_matter(blocks, titled)
    set_levels(blocks, titled)
    hyphens = Hyphens(line.text for block in blocks for line in block.lines)
    text, page_map = to_markdown(blocks, hyphens, pages)
    return text, without_marks(plain(titled, hyphens)) if titled else "", page_map


def _without_text(pages: list[Page]) -> str:
    scans = sum(is_unread(page) for page in pages)
    largest = max(page.image_pixels for page in pages)
    if largest > MAX_PIXELS:
        return f"no text: {too_large(largest)}"
    if scans and not is_installed("ocr"):
        what = "it is a scanned page" if scans == 1 else f"{scans:,} pages are scanned"
        return f"no text: {what}; to read it, run `{installation('ocr')}` and `rag run`"
    if any(page.characters for page in pages):
        return "no text: the fonts don't map their shapes to letters"
    if scans or any(page.confidence is not None for page in pages):
        return "no text: OCR found no words in its images"
    return "no text: probably scanned pages"


def _metadata(text: str, pages: list[Page]) -> dict[str, MetadataValue]:
    seen = [page.confidence for page in pages if page.confidence is not None]
    quality = measure(
        text,
        [page.characters for page in pages],
        sum(page.unmapped for page in pages),
        unread=sum(is_unread(page) for page in pages),
        recognised=len(seen),
        confidence=sum(seen) / len(seen) if seen else None,
    )
    return {"pages": len(pages), "text_quality": quality.to_json()}


def is_unread(page: Page) -> bool:
    """Return whether a page that was not read by OCR probably shows text that only OCR can read."""
    if page.confidence is not None:
        return False
    broken = page.characters and page.unmapped > _MAX_UNMAPPED * page.characters
    few = page.characters < _FEW and page.image_share > _MIN_IMAGE
    return bool(broken or few)


def _count(document_id: str, document: Any) -> int:
    count = int(pdfium.FPDF_GetPageCount(document))
    if count < 1:
        raise DocumentError(document_id, "corrupt .pdf: it has no pages")
    if count > _MAX_PAGES:
        raise DocumentError(document_id, f".pdf has {count:,} pages, more than {_MAX_PAGES:,}")
    return count


def _read(document: Any, number: int, may_recognise: bool) -> Page:
    page = pdfium.FPDF_LoadPage(document, number)
    if not page:
        return Page()
    try:
        read = read_glyphs(page)
        small = read.image_pixels <= MAX_PIXELS
        if may_recognise and small and is_unread(read) and is_installed("ocr"):
            from rag_pipeline.loading.pdf.ocr import recognise

            with more_room(_RECOGNITION_SECONDS, _RECOGNITION_BYTES):
                read = replace(recognise(page), unseen=read.unseen)
        _lay_out(read, number)
        return read
    finally:
        pdfium.FPDF_ClosePage(page)


def _lay_out(page: Page, number: int) -> None:
    """Replace the words of page `number` (from 0) by lines and tables in reading order."""
    rest, tables = ruled_tables(without_line_numbers(page.words), page.rules)
    for index, table in enumerate(tables):
        rest += _stand_ins(index, table)
    head = _HEAD * page.height if number == 0 else 0
    page.lines = _with_tables(read_columns(rest, head), tables)
    for line in page.lines:
        line.page = number
    page.words, page.rules = [], []


def _stand_ins(index: int, table: TableCells) -> list[Word]:
    words = [word for row in table[0] for word in row]
    x0, x1 = min(w.x0 for w in words), max(w.x1 for w in words)
    y, end = min(w.base for w in words), max(w.base for w in words)
    found = []
    while y <= end + 0.1:
        found.append(Word(f"{_STAND_IN}{index}", x0, x1, y, _STAND_IN_SIZE))
        y += _STAND_IN_SIZE
    return found


def _with_tables(lines: list[Line], tables: list[TableCells]) -> list[Line]:
    found: list[Line] = []
    placed: set[int] = set()
    for line in lines:
        if not line.text.startswith(_STAND_IN):
            found.append(line)
            continue
        for part in line.text.split(_STAND_IN)[1:]:
            digits = part.split()[0] if part.split() else ""
            if digits.isdigit() and int(digits) not in placed and int(digits) < len(tables):
                placed.add(int(digits))
                found.append(table_line(*tables[int(digits)], line.column))
    for index, table in enumerate(tables):
        if index not in placed:
            found.append(table_line(*table, -1 - index))
    return found


@contextmanager
def _opened(document_id: str, raw: bytes) -> Iterator[Any]:
    pdfium.FPDF_InitLibrary()
    document = pdfium.FPDF_LoadMemDocument64(raw, len(raw), None)
    if not document:
        if pdfium.FPDF_GetLastError() in _PASSWORD_ERRORS:
            raise DocumentError(document_id, "encrypted .pdf: save it without a password")
        raise DocumentError(document_id, "corrupt .pdf: its pages can't be found")
    try:
        yield document
    finally:
        pdfium.FPDF_CloseDocument(document)
        gc.collect(0)


def _declared_title(document: Any) -> str:
    length = pdfium.FPDF_GetMetaText(document, b"Title", None, 0)
    if not 2 < length < 20_000:
        return ""
    buffer = ctypes.create_string_buffer(length)
    pdfium.FPDF_GetMetaText(document, b"Title", buffer, length)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace")
