"""Layouts of papers: authors side by side, figures at the top of a page, references."""

import io

from reportlab.lib.utils import simpleSplit
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from rag_pipeline.loading.pdf.parse import read_pdf

WIDTH, HEIGHT = 612, 792
LEFT, MIDDLE, RIGHT = 58, 315, 554
COLUMN = 239
PROSE = (
    "The harbour master records the temperature of the water before the tide turns and sends the "
    "figures to three independent observers who compare them with those of earlier years in order "
    "to find out which of the instruments drift and by how much they do so over a longer season. "
)


class Paper:
    """Pages of lines, each at a place from the top left corner."""

    def __init__(self) -> None:
        self._out = io.BytesIO()
        self.canvas = Canvas(self._out, pagesize=(WIDTH, HEIGHT), invariant=1)

    def put(self, x: float, y: float, text: str, size: float = 10, bold: bool = False) -> None:
        self.canvas.setFont("Times-Bold" if bold else "Times-Roman", size)
        self.canvas.drawString(x, HEIGHT - y, text)

    def centred(self, x: float, y: float, text: str, size: float = 10, bold: bool = False) -> None:
        font = "Times-Bold" if bold else "Times-Roman"
        self.put(x - stringWidth(text, font, size) / 2, y, text, size, bold)

    def justified(
        self, x: float, y: float, text: str, width: float, hanging: float = 0, full: bool = False
    ) -> float:
        """Set a paragraph, its lines after the first one further in; return where it ends.

        With `full`, its last line reaches the end as well.
        """
        lines = simpleSplit(text, "Times-Roman", 10, width - hanging)
        for number, line in enumerate(lines):
            start = x + (hanging if number else 0)
            room = x + width - start - stringWidth(line, "Times-Roman", 10)
            drawn = self.canvas.beginText(start, HEIGHT - y)
            drawn.setFont("Times-Roman", 10)
            if (full or number < len(lines) - 1) and line.count(" "):
                drawn.setWordSpace(room / line.count(" "))
            drawn.textOut(line)
            self.canvas.drawText(drawn)
            y += 12
        return y

    def text(self) -> str:
        self.canvas.save()
        return read_pdf("paper.pdf", self._out.getvalue()).text


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_authors_are_read_in_order_and_columns_begin_beside_a_figure():
    paper = Paper()
    paper.centred(306, 100, "Late Interaction over Compressed Passages", 17, bold=True)
    authors = {
        160: ("Alice Hartwell-Montgomery", "University of Northbridge", "alice@northbridge.edu"),
        306: ("Bernd Okafor-Lindqvist", "Institute for Data Systems", "bernd@systems.example"),
        452: ("Cecilia van Steenbergen", "Laboratory of Fictions", "cecilia@fictions.example"),
    }
    for x, lines in authors.items():
        for number, line in enumerate(lines):
            paper.centred(x, 150 + 14 * number, line, 11)
    paper.centred(306, 225, "Abstract", 9, bold=True)
    end = paper.justified(78, 240, PROSE, 456)
    top = end + 20
    paper.put(MIDDLE, top, "2 Method", 14, bold=True)
    paper.put(200, top + 12, "ours, two bits", 8)
    paper.put(120, top + 47, "BM25", 8)
    end = paper.justified(MIDDLE, top + 20, PROSE * 3, COLUMN)
    paper.justified(LEFT, top + 90, "Figure 1: Quality against the size of the index.", COLUMN)
    paper.put(LEFT, top + 125, "1 Introduction", 14, bold=True)
    paper.justified(LEFT, top + 145, "Retrieval has improved. " + PROSE * 2, COLUMN)
    text = paper.text()
    assert text.startswith("# Late Interaction over Compressed Passages\n")
    everyone = [word for lines in authors.values() for word in lines]
    assert in_order(text, *everyone, "Abstract", "Figure 1", "1 Introduction", "2 Method")
    assert "|" not in text
    assert "## Abstract\n\nThe harbour master" in text


def test_references_in_one_column_are_joined_below_a_table_across_both():
    paper = Paper()
    paper.centred(306, 80, "Table 1: Effectiveness on four collections, the best values in bold.")
    for row in range(5):
        for column in range(6):
            cell = f"{10 * row + column}.5" if column and row else f"Name {row} {column}"
            paper.put(110 + 70 * column, 100 + 12 * row, cell)
    for rule in (90, 103, 152):
        paper.canvas.line(108, HEIGHT - rule, 510, HEIGHT - rule)
    end = paper.justified(LEFT, 190, PROSE * 2, COLUMN)
    paper.put(LEFT, end + 20, "References", 12, bold=True)
    y = end + 40
    for number in (1, 2):
        first = f"[{number}] A. Hartwell and B. Okafor. 2019. A bench-"
        y = paper.justified(LEFT, y, first, COLUMN, full=True)
        y = paper.justified(LEFT + 15, y, "mark for retrieval. " + PROSE[:70], COLUMN - 15) + 6
    text = paper.text()
    for number in (1, 2):
        assert f"[{number}] A. Hartwell and B. Okafor. 2019. A benchmark for retrieval. " in text
    entries = text[text.index("[1]") :].splitlines()
    assert [line[:3] for line in entries if line] == ["[1]", "[2]"]


def test_a_heading_before_a_table_is_a_heading():
    paper = Paper()
    end = paper.justified(LEFT, 80, PROSE, 496)
    paper.put(LEFT, end + 25, "Appendix B: Prices", 13, bold=True)
    for row, cells in enumerate(
        (("Item", "Pieces", "Euro"), ("Rope", "4", "12.50"), ("Buoy", "2", "40.00"))
    ):
        for x, cell in zip((LEFT, 250, 400), cells, strict=True):
            paper.put(x, end + 50 + 14 * row, cell)
    paper.canvas.setLineWidth(0.5)
    for row in range(4):
        y = HEIGHT - (end + 40 + 14 * row)
        paper.canvas.line(LEFT - 4, y, 460, y)
    text = paper.text()
    assert "# Appendix B: Prices\n\n| Item | Pieces | Euro |" in text


def test_a_compound_of_known_words_keeps_its_hyphen():
    paper = Paper()
    paper.put(LEFT, 100, "Hard negatives are sampled anew in each round. We call this hard-")
    paper.put(LEFT, 112, "negative mining, as others do.")
    assert "this hard-negative mining" in paper.text()


def test_a_centred_title_of_two_lines_is_one_heading():
    paper = Paper()
    paper.centred(306, 100, "Deep Readings of Bidirectional Tide Tables", 17, bold=True)
    paper.centred(306, 122, "for Harbours of the Northern Coast", 17, bold=True)
    for x in (LEFT, MIDDLE):
        paper.justified(x, 200, PROSE * 6, COLUMN)
    title = "Deep Readings of Bidirectional Tide Tables for Harbours of the Northern Coast"
    assert paper.text().startswith(f"# {title}\n")


def test_a_sentence_continues_after_a_figure_with_labels():
    paper = Paper()
    end = paper.justified(LEFT, 100, PROSE * 5, COLUMN)
    paper.justified(LEFT, end, "They were read to the whole board of the Northern Har-", COLUMN)
    paper.put(MIDDLE + 20, 100, "Add & Norm", 8)
    paper.put(MIDDLE + 20, 130, "Encoder", 8)
    paper.justified(MIDDLE, 160, "Figure 1: The instruments.", COLUMN)
    paper.justified(MIDDLE, 190, "bour of Stavanger. " + PROSE * 5, COLUMN)
    assert "of the Northern Harbour of Stavanger. The harbour master" in paper.text()
    paper = Paper()
    end = paper.justified(LEFT, 100, PROSE * 5, COLUMN)
    last = "They were read aloud to all of the members of the"
    paper.justified(LEFT, end, last, COLUMN, full=True)
    paper.justified(MIDDLE, 100, "Stavanger board before noon. " + PROSE * 4, COLUMN)
    assert "all of the members of the Stavanger board before noon." in paper.text()


def test_rows_of_numbers_between_two_lines_are_split():
    paper = Paper()
    paper.justified(LEFT, 60, PROSE * 2, 496)
    for x in (100, 260, 340, 420):
        paper.canvas.line(x, HEIGHT - 150, x, HEIGHT - 210)
    for y in (150, 170, 210):
        paper.canvas.line(100, HEIGHT - y, 420, HEIGHT - y)
    rows = (("Data set", "Train", "Test"), ("Natural Harbours", "79,168", "3,610"),
            ("Tidal Records", "78,785", "11,313"))  # fmt: skip
    for row, y in zip(rows, (164, 184, 202), strict=True):
        for cell, x in zip(row, (104, 264, 344), strict=True):
            paper.put(x, y, cell)
    text = paper.text()
    assert "| Natural Harbours | 79,168 | 3,610 |\n| Tidal Records | 78,785 | 11,313 |" in text


def test_an_accent_is_composed_with_its_letter():
    paper = Paper()
    paper.justified(LEFT, 60, PROSE * 2, 496)
    paper.put(LEFT, 150, "Senj")
    x = LEFT + stringWidth("Senj", "Times-Roman", 10)
    accent = paper.canvas.beginText(x, HEIGHT - 150)
    accent.setFont("Times-Roman", 10)
    accent.textOut("¯")
    paper.canvas.drawText(accent)
    paper.put(x, 150, "o of the harbour")
    assert "Senjō of the harbour" in paper.text()


def test_a_narrow_abstract_is_one_paragraph():
    paper = Paper()
    paper.centred(306, 80, "Tides", 17, bold=True)
    paper.centred(306, 110, "Abstract", 12, bold=True)
    y = paper.justified(98, 130, PROSE * 2, 416)
    for head in ("1 Instruments", "2 Observers", "3 Seasons", "4 Figures"):
        paper.put(LEFT, y + 21, head, 14, bold=True)
        y = paper.justified(LEFT, y + 41, PROSE, 496)
    assert f"## Abstract\n\n{(PROSE * 2).strip()}\n\n## 1 Instruments" in paper.text()


def test_a_centred_and_a_flush_heading_are_two_headings():
    paper = Paper()
    paper.centred(306, 100, "FORM 10-K", 10, bold=True)
    paper.put(LEFT, 114, "Item 1A. Risk Factors", 10, bold=True)
    paper.justified(LEFT, 128, PROSE * 2, 496)
    assert "FORM 10-K\n\n## Item 1A. Risk Factors\n\nThe harbour" in paper.text()


def test_a_table_with_a_line_under_each_row_keeps_multi_line_cells():
    paper = Paper()
    paper.justified(LEFT, 60, PROSE, 496)
    rows = (
        (["Kind"], ["Limit"], ["Who approves it"]),
        (["Hotel"], ["150 euros a night"], ["The head of the department, before the journey",
                                            "is booked, in writing"]),
        (["Meals"], ["40 euros a day"], ["Nobody"]),
        (["Rail"], ["second class"], ["First class above four hours, by the head", "of finance"]),
    )  # fmt: skip
    y = 160
    for number, row in enumerate(rows):
        for cell, x in zip(row, (LEFT + 4, 164, 284), strict=True):
            for line, text in enumerate(cell):
                paper.put(x, y + 12 * line, text, bold=number == 0)
        y += 12 * max(map(len, row)) + 8
        for x0, x1 in ((LEFT, 160), (160, 280), (280, RIGHT)):
            paper.canvas.line(x0, HEIGHT - y + 14, x1, HEIGHT - y + 14)
    assert paper.text().endswith(
        "| Kind | Limit | Who approves it |\n| --- | --- | --- |\n"
        "| Hotel | 150 euros a night | The head of the department, before the journey is booked, "
        "in writing |\n| Meals | 40 euros a day | Nobody |\n"
        "| Rail | second class | First class above four hours, by the head of finance |"
    )


def test_a_command_option_is_not_a_list_item():
    paper = Paper()
    paper.justified(LEFT, 60, PROSE, 496)
    for y, text in ((140, "curl -X POST https://example.org \\"), (152, "-d '{\"days\": 3}'")):
        paper.put(LEFT, y, text)
    paper.put(LEFT, 180, "-  Half days count as half.")
    assert "\n-d '{\"days\": 3}'\n\n- Half days count" in paper.text()


def test_a_note_number_is_separated_from_its_word():
    paper = Paper()
    paper.justified(LEFT, 60, PROSE, 496)
    paper.put(LEFT, 150, "They work at the Institute")
    x = LEFT + stringWidth("They work at the Institute", "Times-Roman", 10)
    paper.put(x, 146, "12", 7)
    paper.put(x + 8, 150, "and measure 40 m")
    paper.put(x + 8 + stringWidth("and measure 40 m", "Times-Roman", 10), 146, "2", 7)
    assert "the Institute 12 and measure 40 m2" in paper.text()
