"""Files of each format, made by libraries other than the ones that read them."""

import io
import zipfile
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Any

import docx
import openpyxl
import pptx
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas


@cache
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


@cache
def pptx_bytes(title: str = "Roadmap") -> bytes:
    file = pptx.Presentation()
    slide = file.slides.add_slide(file.slide_layouts[1])
    slide.shapes.title.text = title
    slide.placeholders[1].text = "Ship in May"
    return saved(file)


@cache
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


def packed(members: Mapping[str, bytes | str], level: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", level) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def repacked(raw: bytes, **parts: bytes | None) -> bytes:
    """Replace or drop (None) parts of an Office file; `__` in a name means `/`."""
    changes = {name.replace("__", "/") + ".xml": content for name, content in parts.items()}
    with zipfile.ZipFile(io.BytesIO(raw)) as old:
        members = {name: old.read(name) for name in old.namelist()} | changes
    return packed({name: content for name, content in members.items() if content is not None})
