"""Justified text with broken words, in columns, drawn line by line as typesetters do."""

import io
import random

from reportlab.lib.pagesizes import LETTER
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from rag_pipeline_tests.testing.pdf_prose import HEADINGS, paragraph, sentence

_BOLD = {"Times-Roman": "Times-Bold", "Helvetica": "Helvetica-Bold"}


class Sheet:
    """A canvas that records the written texts with their pages, in reading order."""

    def __init__(
        self, size: tuple[float, float], font: str, points: float,
        numbered: bool = False, turned: int = 0, ragged: bool = False,
    ) -> None:  # fmt: skip
        self.out = io.BytesIO()
        self.canvas = Canvas(self.out, pagesize=size)
        self.width, self.height = size
        self.font, self.points, self.page = font, points, 1
        self.texts: list[tuple[int, str]] = []
        self.notes: list[tuple[int, str]] = []
        self.headings: list[str] = []
        self.furniture: list[str] = []
        self.left = self.right = self.y = self.bottom = 0.0
        self._numbered, self._ragged, self._line = numbered, ragged, 0
        self._open: list[str] = []
        if turned:
            self.canvas.setPageRotation(turned)
            width, height = size if turned == 180 else size[::-1]
            move = {90: (width, 0), 180: (width, height), 270: (0, height)}[turned]
            self.canvas.translate(*move)
            self.canvas.rotate(turned)

    def heading(self, text: str, points: float) -> None:
        self.canvas.setFont(_BOLD[self.font], points)
        self.canvas.drawCentredString(self.width / 2, self.height - 90, text)
        self.headings.append(text)
        self.texts.append((self.page, text))

    def column(self, left: float, right: float, top: float, bottom: float) -> None:
        self.left, self.right, self.y, self.bottom = left, right, top, bottom

    def heading_in_column(self, text: str, points: float) -> None:
        """Write a heading in the column if it and a few lines fit."""
        if self.y - 5 * points < self.bottom:
            return
        self.y -= points * 1.7
        self.canvas.setFont(_BOLD[self.font], points)
        self.canvas.drawString(self.left, self.y, text)
        self.y -= points * 0.4
        self.headings.append(text)
        self.texts.append((self.page, text))

    def paragraph(self, text: str, indent: float | None = None, gap: float = 0) -> None:
        """Write justified lines; what finds no room waits for the next column."""
        indent = self.points * 1.2 if indent is None else indent
        self.y -= gap
        self._lines(text.split(), indent)

    def _lines(self, words: list[str], indent: float) -> None:
        leading = self.points * 1.2
        written: list[str] = []
        while words and self.y - leading >= self.bottom:
            self.y -= leading
            line, words, broken = self._fill(words, self.right - self.left - indent)
            self._draw(line, self.left + indent, bool(words))
            for index, word in enumerate(line):
                if written and written[-1].endswith("\0"):
                    written[-1] = written[-1][:-1] + word
                else:
                    written.append(word)
                if broken and index == len(line) - 1:
                    written[-1] = written[-1][:-1] + "\0"
            indent = 0
        text = " ".join(written)
        if text:
            self.texts.append((self.page, text))
        self._open = words

    def go_on(self) -> None:
        """Write at the top of a column what found no room in the one before."""
        words, self._open = self._open, []
        if words:
            self._lines(words, 0)

    def _fill(self, words: list[str], width: float) -> tuple[list[str], list[str], bool]:
        line: list[str] = []
        while words:
            trial = " ".join([*line, words[0]])
            if stringWidth(trial, self.font, self.points) <= width:
                line.append(words[0])
                words = words[1:]
                continue
            for cut in range(len(words[0]) - 3, 2, -1):
                head = words[0][:cut] + "-"
                room = stringWidth(" ".join([*line, head]), self.font, self.points) <= width
                if room and words[0].isalpha() and words[0].islower() and len(words[0]) > 7:
                    return [*line, head], [words[0][cut:], *words[1:]], True
            break
        if not line:
            return [words[0]], words[1:], False
        return line, words, False

    def _draw(self, line: list[str], x: float, justify: bool) -> None:
        text = " ".join(line)
        out = self.canvas.beginText(x, self.y)
        out.setFont(self.font, self.points)
        gaps = len(line) - 1
        room = self.right - x - stringWidth(text, self.font, self.points)
        out.setWordSpace(room / gaps if justify and gaps and not self._ragged else 0)
        out.textOut(text)
        self.canvas.drawText(out)
        if self._numbered:
            self._line += 1
            self.canvas.setFont(self.font, 7)
            self.canvas.drawRightString(self.left - 24, self.y, str(self._line))

    def note(self, mark: str, text: str, left: float, y: float) -> None:
        """Write a footnote of one line, under a short rule."""
        self.canvas.line(left, y + 12, left + 80, y + 12)
        self.canvas.setFont(self.font, self.points * 0.6)
        self.canvas.drawString(left, y + 3, mark)
        self.canvas.setFont(self.font, self.points * 0.8)
        self.canvas.drawString(left + 5, y, text)
        self.notes.append((self.page, f"{mark} {text}"))

    def running(self, text: str, x: float, y: float) -> None:
        self.canvas.setFont(self.font, 8)
        self.canvas.drawString(x, y, text)
        self.furniture.append(text)

    def next_page(self) -> None:
        self.canvas.showPage()
        self.page += 1

    def finish(self) -> bytes:
        """Return the PDF. Notes follow the text above them."""
        self.canvas.save()
        self.texts = _whole(self.texts, self.notes)
        return self.out.getvalue()


def _whole(texts: list[tuple[int, str]], notes: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Join halves of broken words, and put notes where the text before them ends."""
    result: list[tuple[int, str]] = []
    waiting = list(notes)
    for page, text in texts:
        if result and result[-1][1].endswith("\0"):
            head, _, rest = text.partition(" ")
            result[-1] = (result[-1][0], result[-1][1][:-1] + head)
            text = rest
        ended = not result or result[-1][1].endswith((".", "\0")) or not result[-1][1]
        while waiting and waiting[0][0] < page and ended:
            result.append(waiting.pop(0))
        if text:
            result.append((page, text))
    return [*((p, t.rstrip("\0")) for p, t in result), *waiting]


def two_columns(
    chance: random.Random, gutter: float = 18.0, font: str = "Times-Roman", size: float = 10.0,
    pages: int = 3, stamp: bool = False, notes: bool = False, ragged: bool = False,
    abstract_across: bool = False,
) -> Sheet:  # fmt: skip
    """Draw a paper: title and authors across, an abstract, two justified columns."""
    sheet = Sheet(LETTER, font, size, ragged=ragged)
    title = f"On the {chance.choice(HEADINGS)} of Tidal Rivers"
    sheet.heading(title, 17)
    sheet.canvas.setFont(font, 12)
    sheet.canvas.drawCentredString(306, 792 - 115, "Ada Hollis and Tomas Brandt")
    sheet.texts.append((1, "Ada Hollis and Tomas Brandt"))
    top = 792 - 150.0
    if abstract_across:
        sheet.column(100, 512, top, 560)
        sheet.heading_in_column("Abstract", 11)
        sheet.paragraph(paragraph(chance, 3, 4), indent=0)
        top = 545.0
    middle, number = (54 + 558) / 2, 1
    for page in range(pages):
        if stamp and page == 0:
            sheet.canvas.saveState()
            sheet.canvas.translate(28, 250)
            sheet.canvas.rotate(90)
            sheet.canvas.setFont("Times-Roman", 16)
            sheet.canvas.drawString(0, 0, "archive:2104.01234v2  [tide.SW]  9 Apr 2021")
            sheet.canvas.restoreState()
            sheet.furniture.append("archive:2104.01234v2")
        if page:
            sheet.running("Hollis and Brandt: Tidal Rivers", 54, 750)
            top = 720.0
        sheet.running(str(page + 1), 304, 30)
        for side in range(2):
            left = 54.0 if side == 0 else middle + gutter / 2
            right = middle - gutter / 2 if side == 0 else 558.0
            with_note = notes and side == 0
            sheet.column(left, right, top, 110 if with_note else 60)
            sheet.go_on()
            while sheet.y - 7 * size > sheet.bottom:
                sheet.heading_in_column(f"{number} {HEADINGS[number % 10]}", size * 1.2)
                number += 1
                for _ in range(chance.randint(1, 3)):
                    if sheet.y - 2 * size > sheet.bottom:
                        sheet.paragraph(paragraph(chance))
            if with_note:
                sheet.note(str(page + 1), " ".join(sentence(chance).split()[:6]) + ".", left, 75)
        if page + 1 < pages:
            sheet.next_page()
    sheet.furniture = [text for text in sheet.furniture if len(text) > 3]
    if sheet.texts[-1][1].endswith("\0"):  # the last page ends in the middle of a word
        sheet.texts[-1] = (sheet.texts[-1][0], sheet.texts[-1][1][:-1] + "-")
    return sheet
