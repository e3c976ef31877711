"""Cells are asked for by the name of their row and the heading of their column."""

import pytest

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Document
from rag_pipeline.questions.cells import asked_cells
from rag_pipeline.questions.facts import read_facts
from rag_pipeline.questions.generation import make_questions

PARTS = """part_number,description,unit_price_usd,supplier
FX-100,Oil filter element,12.40,Donnel & Pike
BL-310,V-belt 1200 mm,18.75,Rothbury Belts
PM-902,Water pump,131.00,Ignis Parts
"""
STAFF = "| Name | Office | Start date |\n| --- | --- | --- |\n" + "".join(
    f"| {name} | {office} | {start} |\n"
    for name, office, start in (
        ("Amelia Stone", "Leeds", "2019-03-01"),
        ("Bruno Keller", "York", "2021-09-15"),
        ("Carla Mendes", "Hull", "2022-01-10"),
    )
)
PRICES = """## Preise

| Bezeichnung | Preis (EUR) | Nitrat (mg) | Prüfer |
| --- | --- | --- | --- |
| Rohr 15 mm | 7.4 | 3,1 | H. Adler |
| Kugelhahn | 14.25 | 2,5 | S. Baumann |
| Dichtung | 6.1 | 2,2 | K. Vogel |
"""
FORM = "| Field | Entry |\n| --- | --- |\n" + "".join(
    f"| {field} | {entry} |\n"
    for field, entry in (
        ("Person hurt", "K. Boyle"),
        ("Place", "hall 3"),
        ("Reported by", "P. Lund"),
    )
)
DUTCH = "De prijzen van de boten gelden voor het hele seizoen.\n\n" + PRICES.replace(
    "Bezeichnung", "Boot"
).replace("Preis (EUR)", "Prijs").replace("Prüfer", "Leraar").replace(
    "Preise", "Prijzen van de boten"
)
BOXES = """| Where | Size | Power (hp) |
| --- | --- | --- |
| Shed | **large** | 4 |
| Pontoon | small | 6 |
| Loft | tiny | 9 |
"""
VALUES = """| Merkmal | Wert | Anzahl |\n| --- | --- | --- |\n| Spannung | 230 V | 1 |
| Weitere Leistung | 5 W | 3 |\n| Geräuschpegel | 46 dB(A) | 4 |\n"""
BOATS = BOXES.replace("Where", "Boat")
HOURLY = """| Item | Price (£) | Unit | Number |
| --- | --- | --- | --- |
| Simulator | 15 | half hour | 2 |
| Badge | 8 | each | 4 |
| Slip | 9 | per day | 3 |
"""
LEVELS = """Die Stufen der Meldungen des Kernels sind in der Tabelle.

| Name | Antwort |
| --- | --- |
| KERN\\_EMERG | Das System ist unbenutzbar |
| `KERN_CRIT` | Zustände mit Fehlern |
| [KERN\\_INFO] | Nur zur Information |
| KERN_SAME | " |
"""
KEYS = """| Wheel | Zoom in and out at the present position |
| --- | --- |
| Shift + wheel | Move up or down |
| Right button | Open menu |
| Escape key | Close menu |
"""
MODEL = BOXES.replace("Where", "factor(stage)2 0.66730")
LOG = "Date,Animal,Fee\n2025-01-07,Rolo,22\n2025-02-11,Nibbles,18\n2025-03-19,Hettie,22\n"
TOTALS = "| Item | Q1 |\n| --- | --- |\n| Online ads | 5 |\n| Total | 9 |\n| Online ads | 4 |\n"


@pytest.mark.parametrize(
    ("name", "media_type", "text", "expected"),
    [
        ("parts.csv", "text/csv", PARTS, {
            ("what is the part number for “Oil filter element”", "FX-100"),
            ("what is the unit price in USD for “Water pump”", "131.00"),
            ("who is the supplier for “V-belt 1200 mm”", "Rothbury Belts"),
        }),
        ("staff.md", "text/markdown", STAFF, {
            ("what is the office of Amelia Stone", "Leeds"),
            ("what is the start date of Carla Mendes", "2022-01-10"),
            ("what is the office of Bruno Keller", "York"),
        }),
        ("preise.md", "text/markdown", PRICES, {
            ("wie hoch ist der Preis in EUR für „Rohr 15 mm“", "7.4"),
            ("wer ist der Prüfer für „Dichtung“", "K. Vogel"),
            ("wer ist der Prüfer für „Kugelhahn“", "S. Baumann"),
        }),
        ("form.md", "text/markdown", FORM, set()),  # "Entry" is no noun of a cell
        ("boten.md", "text/markdown", DUTCH, set()),  # no questions in a language without forms
        ("more.md", "text/markdown", STAFF.replace("| --- | --- | --- |\n", ""), set()),
        ("boxes.md", "text/markdown", BOXES, set()),  # the size is not of the place
        ("motors.md", "text/markdown", BOATS, {
            ("what is the size of “Shed”", "large"),
            ("what is the power in hp of “Loft”", "9"),
            ("what is the size of “Pontoon”", "small"),
        }),
        # A head that is no noun gives its turn to the next column.
        ("stores.md", "text/markdown", BOATS.replace("Power (hp)", "In stock (kg)"), {
            ("what is the size of “Shed”", "large"),
            ("what is the size of “Pontoon”", "small"),
            ("what is the size of “Loft”", "tiny"),
        }),
        ("prices.md", "text/markdown", HOURLY, {
            ("what is the price in £ per half hour for “Simulator”", "15"),
            ("what is the price in £ per day for “Slip”", "9"),
            ("what is the price in £ for “Badge”", "8"),
        }),
        ("stufen.md", "text/markdown", LEVELS, {
            ("wie lautet die Antwort von KERN_EMERG", "Das System ist unbenutzbar"),
            ("wie lautet die Antwort von KERN_CRIT", "Zustände mit Fehlern"),
            ("wie lautet die Antwort von KERN_INFO", "Nur zur Information"),
        }),
        # An identifier keeps its capitals, and a common word names no row.
        ("load.md", "text/markdown", BOATS.replace("Power (hp)", "maxLoad value"), {
            ("what is the size of “Shed”", "large"),
            ("what is the size of “Pontoon”", "small"),
            ("what is the maxLoad value for “Loft”", "9"),
        }),
        ("words.md", "text/markdown", BOATS.lower(), set()),
        ("model.md", "text/markdown", MODEL, set()),
        # A first row of sentences is no head, and a picture is neither name nor answer.
        ("keys.md", "text/markdown", KEYS, set()),
        ("icons.md", "text/markdown", BOATS.replace("small", "![s](s.png)"), {
            ("what is the size of “Shed”", "large"),
            ("what is the power in hp of “Loft”", "9"),
            ("what is the power in hp of “Pontoon”", "6"),
        }),
        # A plain value is asked for by its row, a count and a row that leans on another not at all.
        ("werte.md", "text/markdown", VALUES, {
            ("wie hoch ist die Spannung", "230 V"),
            ("wie hoch ist der Geräuschpegel", "46 dB(A)"),
        }),
        # A log has no names of rows, and a sum or a repeated name is no row of its own.
        ("log.csv", "text/csv", LOG, set()),
        ("totals.md", "text/markdown", TOTALS, set()),
    ],
)  # fmt: skip
def test_the_questions_about_a_table(name: str, media_type: str, text: str, expected) -> None:
    document = Document(name, "hash", text, media_type=media_type)
    cells = list(asked_cells(document))
    assert {(cell.question, cell.said) for cell in cells} == expected
    assert all(cell.said in text[cell.row.start : cell.row.end] for cell in cells)
    facts = (fact for fact in read_facts(document) if fact.kind == "cell")
    assert [fact.answer for fact in facts] == [cell.said for cell in cells]


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        ("", "", 3),
        ("| 4 |", "| |", 0),  # a row that may be the end of the row above
        ("4", "weak", 0),  # without figures, the head may be a row
    ],
)
def test_a_table_of_a_pdf_is_asked_only_if_its_layout_is_certain(old, new, number) -> None:
    text = BOATS.replace(old, new).replace("| 6 |", "| strong |" if new == "weak" else "| 6 |")
    assert (
        len(list(asked_cells(Document("a.pdf", "h", text, media_type="application/pdf")))) == number
    )


def test_the_gold_of_a_cell_is_its_row_and_the_question_names_the_table() -> None:
    documents = [
        Document("spare_parts.csv", "p", PARTS, "spare parts", "text/csv"),
        Document("staff.md", "s", STAFF, "staff list", "text/markdown"),
    ]
    rows = make_questions(documents, 6, Lexical()).rows
    asked = {row["query"].lower(): row for row in rows}
    (query,) = (q for q in asked if "water pump" in q)
    assert "what is the unit price in usd for “water pump”" in query
    assert "the table “spare parts”" in query
    (span,) = asked[query]["gold_spans"]
    assert PARTS[span["start"] : span["end"]] == "PM-902,Water pump,131.00,Ignis Parts"
    assert asked[query]["answer"] == "131.00"
