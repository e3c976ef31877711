"""The rows of tables for the two sides of a comparison."""

import pytest

from rag_pipeline.answering.sides import rows_of_sides
from rag_pipeline.datamodels import Document, ScoredChunk, SearchResult

STAFF = "| Shop | Staff | Rent |\n| --- | --- | --- |\n| Emden | 4 | 2140 |\n| Leer | 7 | 3900 |\n"
PRICES = (
    "| Boat | Emden | Leer |\n| --- | --- | --- |\n"
    "| Row boat | 17 | 19 |\n| Pedal boat | 38 | 41 |\n"
)
SHEETS = (
    "## Emden\n\n| Konto | Budget |\n| --- | --- |\n| Löhne | 214 |\n| Material | 58 |\n\n"
    "## Leer\n\n| Account | Budget |\n| --- | --- |\n| Wages | 118 |\n| Materials | 24 |\n"
)
BERTHS = (
    "## Emden\n\n| Jetty | Berths |\n| --- | --- |\n| Jetty 1 | 5 |\n| Jetty 2 | 9 |\n\n"
    "## Leer\n\n| Jetty | Berths |\n| --- | --- |\n| Jetty 1 | 8 |\n| Jetty 3 | 7 |\n"
)


def rows(text: str, query: str, sides: tuple[str, str] = ("Emden", "Leer")) -> list[list[str]]:
    document = Document("a.xlsx", "", text)
    chunk = ScoredChunk(f"a.xlsx#0-{len(text)}", "a.xlsx", 0, len(text), text, 1.0)
    found = rows_of_sides(SearchResult(query=query, chunks=[chunk]), sides, lambda _: document)
    return [[citation.text for citation in own] for own in found]


@pytest.mark.parametrize(
    ("text", "query", "quoted"),
    [
        (
            STAFF,
            "Has Emden or Leer more staff?",
            [["| Emden | 4 | 2140 |"], ["| Leer | 7 | 3900 |"]],
        ),
        (
            PRICES,
            "Is a pedal boat cheaper in Emden or in Leer?",
            [["| Pedal boat | 38 | 41 |"], ["| Pedal boat | 38 | 41 |"]],
        ),
        (
            SHEETS,
            "Compare the budget for materials in Emden and Leer",
            [["| Material | 58 |"], ["| Materials | 24 |"]],
        ),
        (
            BERTHS,
            "Has jetty 1 more berths in Emden or in Leer?",
            [["| Jetty 1 | 5 |"], ["| Jetty 1 | 8 |"]],
        ),
        (BERTHS, "Has jetty 2 more berths in Emden or in Leer?", [["| Jetty 2 | 9 |"], []]),
        # No row is about the harbour master, and two boats are about equally asked for.
        (STAFF, "Has the harbour master a deputy in Emden or in Leer?", []),
        (PRICES, "Is a boat cheaper in Emden or in Leer?", []),
    ],
)
def test_each_side_has_the_row_of_its_sheet_column_or_name(text, query, quoted):
    assert rows(text, query) == quoted


def test_two_rows_with_the_names_answer_which_one_costs_more():
    text = "| Model | Price |\n| --- | --- |\n| Tern 31 | 290 |\n| Skua 19 | 120 |\n| Gull | 90 |\n"
    quoted = [["| Tern 31 | 290 |"], ["| Skua 19 | 120 |"]]
    assert rows(text, "Is the Tern or the Skua dearer?", ("Tern", "Skua")) == quoted


def test_a_row_with_another_name_is_found_in_the_columns_of_another_language():
    query = "Compare the wages budget in Emden and Leer"
    assert rows(SHEETS, query) == [["| Löhne | 214 |"], ["| Wages | 118 |"]]


HOUSES = "| House | Folder |\n| --- | --- |\n| Alder House | 12 |\n| Birch House | 14 |\n"


@pytest.mark.parametrize(
    ("query", "name", "quoted"),
    [
        ("What is the difference between Alder House and Birch House?", "alder.md", []),
        (
            "What is the difference between Alder House and Birch House?",
            "alder and birch.md",
            [["| Alder House | 12 |"], ["| Birch House | 14 |"]],
        ),
        (
            "What is the difference in folder between Alder House and Birch House?",
            "alder.md",
            [["| Alder House | 12 |"], ["| Birch House | 14 |"]],
        ),
    ],
)
def test_documents_named_after_a_side_answer_an_open_comparison(query, name, quoted):
    index = Document("index.md", "", HOUSES)
    chunks = [
        ScoredChunk(f"{name}#0-5", name, 0, 5, "Rules", 1.0),
        ScoredChunk(f"index.md#0-{len(HOUSES)}", "index.md", 0, len(HOUSES), HOUSES, 1.0),
    ]
    found = SearchResult(query=query, chunks=chunks)
    cited = rows_of_sides(found, ("Alder House", "Birch House"), lambda _: index)
    assert [[citation.text for citation in own] for own in cited] == quoted
