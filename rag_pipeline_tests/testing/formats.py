"""Files of each format, made by other libraries than those that read them."""

import io
import zipfile
from datetime import date
from typing import Any

import docx
import openpyxl
import pptx
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas


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
