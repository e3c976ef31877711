"""PDFs whose text is known because they are made from it, by several programs and in many layouts.

`made_pdfs` returns them; `pdf_layouts` draws those of several columns.
"""

import io
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fpdf import FPDF
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4, LETTER, landscape
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    ListFlowable,
    ListItem,
    PageBreak,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    Table,
    TableStyle,
)

from rag_pipeline_tests.testing.pdf_layouts import Sheet, two_columns
from rag_pipeline_tests.testing.pdf_prose import HEADINGS, paragraph, sentence


@dataclass
class MadePdf:
    """A PDF with its expected content: texts with pages from 1, and furniture to leave out."""

    name: str
    raw: bytes = b""
    texts: list[tuple[int, str]] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)
    furniture: list[str] = field(default_factory=list)
    title: str = ""


def paper(name: str, seed: int, **style: Any) -> MadePdf:
    """Return a paper of two columns, as LaTeX sets it."""
    return _of_sheet(name, two_columns(random.Random(seed), **style))


def report(name: str, seed: int, pages: int = 4, font: str = "Helvetica") -> MadePdf:
    """Return a report with running headers and footers, headings of two levels and lists."""
    chance = random.Random(seed)
    made = MadePdf(name, title=f"Annual Report of Station {seed}")
    styles = getSampleStyleSheet()
    bold = {"Helvetica": "Helvetica-Bold", "Times-Roman": "Times-Bold"}[font]
    body = ParagraphStyle("b", fontName=font, fontSize=10, leading=13, alignment=4, spaceAfter=7)
    one = ParagraphStyle("h1", parent=styles["Heading1"], fontName=bold, fontSize=15)
    two = ParagraphStyle("h2", parent=styles["Heading2"], fontName=bold, fontSize=12)
    story: list[object] = [Paragraph(made.title, styles["Title"])]
    made.headings.append(made.title)
    made.texts.append((1, made.title))
    for page in range(1, pages + 1):
        head = f"{page}. {HEADINGS[(page + seed) % 10]}"
        under = f"{page}.1 {HEADINGS[(page + seed + 3) % 10]}"
        for text, style in ((head, one), (paragraph(chance, 5, 7), body), (under, two)):
            story.append(Paragraph(text, style))
            made.texts.append((page, text))
        made.headings += [head, under]
        items = [sentence(chance) for _ in range(3)]
        story.append(
            ListFlowable([ListItem(Paragraph(i, body)) for i in items], bulletType="bullet")
        )
        made.texts += [(page, item) for item in items]
        last = paragraph(chance, 6, 8)
        story += [Paragraph(last, body), PageBreak()]
        made.texts.append((page, last))
    running = f"River Commission — Station {seed}"
    made.furniture += [running, *(f"Page {n} of {pages}" for n in range(1, pages + 1))]

    def furniture(canvas: Canvas, document: SimpleDocTemplate) -> None:
        canvas.setFont(font, 8)
        canvas.drawString(72, A4[1] - 40, running)
        canvas.drawRightString(A4[0] - 72, 34, f"Page {document.page} of {pages}")

    out = io.BytesIO()
    SimpleDocTemplate(out, pagesize=A4).build(story, furniture, furniture)
    made.raw = out.getvalue()
    return made


def invoice(name: str, seed: int, style: str) -> MadePdf:
    """Return an invoice with a table in a grid, between rules, or only aligned."""
    chance = random.Random(seed)
    made = MadePdf(name, title=f"Invoice {4000 + seed}")
    rows = [["Item", "Quantity", "Unit price", "Amount"]]
    for _ in range(chance.randint(6, 12)):
        count, price = chance.randint(1, 30), chance.randint(100, 9999) / 100
        what = chance.choice(
            ("Brass valve", "Copper pipe", "Gauge glass", "Felt washer", "Lamp oil")
        )
        rows.append([f"{what} {chance.randint(2, 90)}", str(count), f"{price:.2f}",
                     f"{count * price:,.2f}"])  # fmt: skip
    made.cells = rows
    lines = {
        "grid": [("GRID", (0, 0), (-1, -1), 0.5, colors.black)],
        "rules": [("LINEABOVE", (0, 0), (-1, 0), 1, colors.black),
                  ("LINEBELOW", (0, 0), (-1, 0), 0.5, colors.black),
                  ("LINEBELOW", (0, -1), (-1, -1), 1, colors.black)],
        "aligned": [],
    }[style]  # fmt: skip
    table = Table(rows, colWidths=[170, 80, 90, 90])
    table.setStyle(TableStyle([*lines, ("ALIGN", (1, 0), (-1, -1), "RIGHT")]))
    styles = getSampleStyleSheet()
    before, after = paragraph(chance, 2, 3), paragraph(chance, 2, 3)
    story = [Paragraph(made.title, styles["Title"]), Paragraph(before, styles["Normal"]),
             Spacer(1, 14), table, Spacer(1, 14), Paragraph(after, styles["Normal"])]  # fmt: skip
    out = io.BytesIO()
    SimpleDocTemplate(out, pagesize=A4).build(story)
    made.raw = out.getvalue()
    made.headings = [made.title]
    flat = [" ".join(row) for row in rows]
    made.texts = [(1, text) for text in (made.title, before, *flat, after)]
    return made


def statement(name: str, seed: int) -> MadePdf:
    """Return a balance sheet as an annual report sets it: shaded rows, signs apart, no rules."""
    chance = random.Random(seed)
    made = MadePdf(name, title="Consolidated Balance Sheets")
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=LETTER)
    canvas.setFont("Times-Bold", 16)
    canvas.drawCentredString(LETTER[0] / 2, 700, made.title)
    rows: list[tuple[float, str, list[int]]] = [(0, "Assets", []), (0, "Current assets", [])]
    labels = ("Cash and cash equivalents", "Accounts receivable, net of allowances", "Other")
    rows += [(16, label, [chance.randint(-900, 9999) for _ in range(3)]) for label in labels]
    rows += [(32, "Total current assets", [chance.randint(10_000, 99_999) for _ in range(3)])]
    made.cells = [["(Dollars in millions)", "December 31, 2024", "December 31, 2023",
                   "December 31, 2022"]]  # fmt: skip
    canvas.setFont("Times-Bold", 9)
    for column, year in enumerate(("2024", "2023", "2022")):
        canvas.drawRightString(390 + 75 * column, 662, "December 31,")
        canvas.drawRightString(390 + 75 * column, 650, year)
    canvas.setFont("Times-Roman", 9)
    canvas.drawString(60, 650, "(Dollars in millions)")
    for number, (indent, label, figures) in enumerate(rows):
        y = 634 - 14 * number
        if number % 2 == 0:
            canvas.setFillColorRGB(0.8, 0.93, 1)
            canvas.rect(58, y - 4, 490, 14, stroke=0, fill=1)
            canvas.setFillColorRGB(0, 0, 0)
        canvas.drawString(60 + indent, y, label)
        signed = number in (2, 5)
        cells = [f"({-n:,})" if n < 0 else f"{n:,}" for n in figures]
        for column, cell in enumerate(cells):
            if signed:
                canvas.drawString(342 + 75 * column, y, "$")
            canvas.drawRightString(390 + 75 * column, y, cell.rstrip(")"))
            if cell.endswith(")"):
                canvas.drawString(391 + 75 * column, y, ")")
        made.cells.append([label, *(f"${c}" if signed else c for c in cells or ["", "", ""])])
    after = paragraph(chance, 2, 3)
    words = Paragraph(after, ParagraphStyle("b", fontName="Times-Roman", fontSize=10, leading=12))
    _, height = words.wrap(LETTER[0] - 120, 300)
    words.drawOn(canvas, 60, 634 - 14 * len(rows) - 20 - height)
    canvas.save()
    flat = [" ".join(filter(None, row)) for row in made.cells]
    made.texts = [(1, text) for text in (made.title, *flat, after)]
    made.headings, made.raw = [made.title], out.getvalue()
    return made


def slides(name: str, seed: int) -> MadePdf:
    """Return slides: a large title, a few points, a footer with a number."""
    chance = random.Random(seed)
    made = MadePdf(name)
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=landscape(LETTER))
    width, height = landscape(LETTER)
    for page in range(1, 6):
        title = f"{HEADINGS[(page + seed) % 10]} in Year {page}"
        canvas.setFont("Helvetica-Bold", 30)
        canvas.drawString(60, height - 80, title)
        made.headings.append(title)
        made.texts.append((page, title))
        y = height - 150
        canvas.setFont("Helvetica", 18)
        for _ in range(4):
            point = " ".join(sentence(chance).split()[:8])
            canvas.drawString(70, y, "•")
            canvas.drawString(92, y, point)
            made.texts.append((page, point))
            y -= 50
        canvas.setFont("Helvetica", 10)
        canvas.drawString(60, 24, "River Commission, spring meeting")
        canvas.drawRightString(width - 60, 24, str(page))
        canvas.showPage()
    canvas.save()
    made.furniture, made.title = ["River Commission, spring meeting"], made.headings[0]
    made.raw = out.getvalue()
    return made


def notes(name: str, seed: int) -> MadePdf:
    """Return a book's pages with footnotes under the text that runs on over them."""
    sheet = Sheet(A4, "Times-Roman", 11)
    chance = random.Random(seed)
    sheet.heading("A Survey of the Estuary", 20)
    for page in range(1, 4):
        sheet.column(72, A4[0] - 72, A4[1] - (72 if page > 1 else 120), 150)
        sheet.go_on()
        while sheet.y - 30 > sheet.bottom:
            sheet.paragraph(paragraph(chance, 4, 5))
        sheet.note(f"{page}", sentence(chance), 72, 100)
        sheet.next_page()
    return _of_sheet(name, sheet)


def clauses(name: str, seed: int) -> MadePdf:
    """Return a contract: headings in capitals and numbered clauses."""
    chance = random.Random(seed)
    sheet = Sheet(LETTER, "Times-Roman", 11)
    sheet.heading("SERVICES AGREEMENT", 16)
    sheet.column(90, LETTER[0] - 90, LETTER[1] - 130, 80)
    for number, head in enumerate(("DEFINITIONS", "TERM AND TERMINATION", "LIABILITY"), 1):
        sheet.heading_in_column(f"{number}. {head}", 11)
        for clause in range(1, 4):
            sheet.paragraph(f"{number}.{clause} {paragraph(chance, 2, 3)}", indent=0, gap=6)
    return _of_sheet(name, sheet)


def newsletter(name: str, seed: int) -> MadePdf:
    """Return a page of three columns."""
    chance = random.Random(seed)
    sheet = Sheet(A4, "Helvetica", 9)
    sheet.heading("The Estuary Courier", 24)
    for column in range(3):
        left = 45 + column * 172
        sheet.column(left, left + 156, A4[1] - 130, 80)
        sheet.go_on()
        while sheet.y - 30 > sheet.bottom:
            sheet.paragraph(paragraph(chance, 2, 4))
    return _of_sheet(name, sheet)


def line_numbers(name: str, seed: int) -> MadePdf:
    """Return a manuscript whose lines are numbered in the margin."""
    chance = random.Random(seed)
    sheet = Sheet(LETTER, "Times-Roman", 12, numbered=True)
    sheet.heading("A Manuscript on Tides", 18)
    sheet.column(100, LETTER[0] - 72, LETTER[1] - 120, 80)
    for _ in range(6):
        sheet.paragraph(paragraph(chance, 3, 4))
    return _of_sheet(name, sheet)


def turned(name: str, seed: int, degrees: int) -> MadePdf:
    """Return a page that is displayed turned, with its text level."""
    chance = random.Random(seed)
    sheet = Sheet(A4, "Helvetica", 11, turned=degrees)
    sheet.heading("Drawings of the Weir", 18)
    sheet.column(72, sheet.width - 72, sheet.height - 120, 72)
    for _ in range(3):
        sheet.paragraph(paragraph(chance, 3, 4))
    return _of_sheet(name, sheet)


def _of_sheet(name: str, sheet: Sheet) -> MadePdf:
    raw = sheet.finish()
    return MadePdf(
        name, raw, sheet.texts, sheet.headings, furniture=sheet.furniture, title=sheet.headings[0]
    )


_CJK = {
    "STSong-Light": (
        "河口观测年度报告",
        "守夜人在潮水退去之前记录了水的温度。委员会比较了三本独立的账簿。",
    ),
    "HeiseiMin-W3": (
        "河口の観測について",
        "灯台守は満潮の前に水温を記録した。委員会は三冊の帳簿を比較した。",
    ),
    "MSung-Light": (
        "河口觀測報告",
        "守夜人在潮水退去之前記錄了水的溫度。委員會比較了三本獨立的帳簿。",
    ),
}


def cjk(name: str, font: str) -> MadePdf:
    """Return a page of Chinese or Japanese, without blanks between words."""
    pdfmetrics.registerFont(UnicodeCIDFont(font))
    title, text = _CJK[font]
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4)
    canvas.setFont(font, 20)
    canvas.drawString(72, A4[1] - 90, title)
    canvas.setFont(font, 11)
    body, y = text * 6, A4[1] - 130
    for start in range(0, len(body), 36):
        canvas.drawString(72, y, body[start : start + 36])
        y -= 18
    canvas.save()
    return MadePdf(name, out.getvalue(), [(1, title), (1, body)], [title], title=title)


def of_fpdf(name: str, seed: int) -> MadePdf:
    """Return a document of another program: justified paragraphs and a bordered table."""
    chance = random.Random(seed)
    made = MadePdf(name, title="Logbook of the Weir")
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Times", "B", 20)
    pdf.multi_cell(0, 10, made.title, new_x="LMARGIN", new_y="NEXT")
    made.headings.append(made.title)
    made.texts.append((1, made.title))
    for number in range(2):
        head = f"{number + 1} {HEADINGS[(seed + number) % 10]}"
        pdf.ln(4)
        pdf.set_font("Times", "B", 14)
        pdf.multi_cell(0, 8, head, new_x="LMARGIN", new_y="NEXT")
        made.headings.append(head)
        pdf.set_font("Times", "", 11)
        text = paragraph(chance, 5, 7)
        pdf.multi_cell(0, 5.5, text, align="J", new_x="LMARGIN", new_y="NEXT")
        made.texts += [(1, head), (1, text)]
    rows = [["Station", "Depth", "Salt"]]
    rows += [[f"S{n}", f"{chance.randint(2, 40)}.5", f"{chance.randint(1, 35)}"] for n in range(6)]
    made.cells = rows
    pdf.ln(4)
    with pdf.table(width=110, align="LEFT") as table:
        for row in rows:
            table.row(row)
    made.texts += [(1, " ".join(row)) for row in rows]
    made.raw = bytes(pdf.output())
    return made


def makers() -> Iterator[tuple[str, Callable[[], MadePdf]]]:
    """Yield the names of the born-digital PDFs with their makers."""
    styles: list[dict[str, Any]] = [
        {}, {"gutter": 12.0, "stamp": True}, {"font": "Helvetica", "size": 9.0, "pages": 4},
        {"gutter": 14.0, "stamp": True, "notes": True, "size": 10.0},
        {"ragged": True, "notes": True}, {"abstract_across": True, "stamp": True},
    ]  # fmt: skip
    fonts = ("Helvetica", "Times-Roman", "Helvetica", "Times-Roman")
    rules = ("grid", "rules", "aligned", "grid", "rules", "aligned")
    made: list[tuple[str, Callable[..., MadePdf], tuple[Any, ...]]] = [
        *((f"report-{n}", report, (n, 3 + n, font)) for n, font in enumerate(fonts)),
        *((f"invoice-{kind}-{n}", invoice, (n, kind)) for n, kind in enumerate(rules)),
        *((f"slides-{n}", slides, (n,)) for n in range(3)),
        *((f"notes-{n}", notes, (n,)) for n in range(3)),
        *((f"fpdf-{n}", of_fpdf, (n,)) for n in range(3)),
        *((f"statement-{n}", statement, (n,)) for n in range(2)),
        *((f"clauses-{n}", clauses, (n,)) for n in range(2)),
        *((f"newsletter-{n}", newsletter, (n,)) for n in range(2)),
        *((f"lines-{n}", line_numbers, (n,)) for n in range(2)),
        *((f"turned-{n}", turned, (n, n)) for n in (90, 180, 270)),
        *((f"cjk-{font}", cjk, (font,)) for font in _CJK),
    ]
    for seed, style in enumerate(styles):
        yield f"paper-{seed}", partial(paper, f"paper-{seed}", seed, **style)
    for name, make, given in made:
        yield name, partial(make, name, *given)
