"""Tests of the form in which the assistant quotes."""

from dataclasses import replace

from rag_pipeline.assistant.results import with_column_names
from rag_pipeline.datamodels import Answer, Citation, Document
from rag_pipeline_tests.testing.chunking import scored

ROWS = "| Vehicle | MOT due | |\n|---|---|---|\n| Bus | 1 May | x |\n|  | 2 June | |\n"


def answered(text, *quotes):
    citations = []
    for number, quote in enumerate(quotes, 1):
        start = text.index(quote)
        citations.append(
            Citation(number, scored("a", text, 1.0).chunk_id, "a", start, start + len(quote), quote)
        )
    lines = [f"“{' '.join(c.text.split())}” [{c.number}]" for c in citations]
    return Answer("\n".join(["MOT due: 1 May", *lines]), True, tuple(citations))


def test_a_quoted_row_names_its_columns_once():
    rows = answered(ROWS, "| Bus | 1 May | x |", "|  | 2 June | |", "| Vehicle | MOT due | |")
    passages, read = [scored("a", ROWS, 1.0)], lambda _: Document("a", "", ROWS)
    assert with_column_names(rows, passages, read) == (
        "MOT due: 1 May\n“Vehicle: Bus · MOT due: 1 May · x” [1] [3]\n“MOT due: 2 June” [2] [3]"
    )
    text = "“\\| Bus \\| 1 May \\| x \\|” [1] “\\| Vehicle \\| MOT due \\| \\|” [3] |"
    compared = replace(rows, text=f"| a | {text}")
    assert with_column_names(compared, passages, read) == (
        "| a | “Vehicle: Bus · MOT due: 1 May · x” [1] [3] |"
    )
    head_alone = answered(ROWS, "| Vehicle | MOT due | |")
    assert with_column_names(head_alone, passages, read) == head_alone.text


def test_a_row_names_its_sheet_if_others_have_the_same_columns():
    table = "| Vehicle | Due |\n|---|---|\n| {} | May |\n"
    text = f"# Fleet\n\n## Ulm\n\n{table.format('Bus')}\n## Kiel\n\n{table.format('Van')}"
    row = answered(text, "| Van | May |")
    told = with_column_names(row, [scored("a", text, 1.0)], lambda _: Document("a", "", text))
    assert told == "MOT due: 1 May\n“Kiel · Vehicle: Van · Due: May” [1]"


def test_a_table_without_column_names_and_an_unread_document_are_quoted_as_they_are():
    text = "| Bus | 1 May |\n"
    single, passages = answered(text, text.strip()), [scored("a", text, 1.0)]
    known = {"a": Document("a", "", text)}
    for read in (lambda one: known[one.document_id], lambda one: None):
        assert with_column_names(single, passages, read) == single.text
