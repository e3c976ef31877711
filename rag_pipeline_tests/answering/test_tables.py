import re

import pytest

from rag_pipeline.answering.computing import rows_beyond
from rag_pipeline.answering.quantities.dates import days_asked, ways_to_write
from rag_pipeline.answering.tables import tables_of
from rag_pipeline.datamodels import Document
from rag_pipeline_tests.testing.answers import answered
from rag_pipeline_tests.testing.chunking import scored

FLEET = """# Fleet

## 2022, superseded

| Ship | Port | Crew | Cost EUR |
| --- | --- | --- | --- |
| Meridian | Porto | 9 | 1.200,50 |
| Halcyon | Lyon | 4 | 800 |

## 2023

| Ship | Port | Crew | Cost EUR |
| --- | --- | --- | --- |
| Meridian | Porto | 11 | 1.300,50 |
| Halcyon | Lyon | 5 | 900 |
| Halcyon Minor | Porto | 3 | 700 |
"""
WORD = "|  |  |\n| --- | --- |\n| Item | Fee |\n| Tow | £90 |\n| Berth | £70 |\n"
SEPARATED = 'Draft\nNo.;Part;Price\n7;"Rope; long";3,20\n8;Anchor;41,00\n'


def _table(text: str, media_type: str = "text/plain"):
    document = Document("d", "", text, media_type=media_type)
    tables = tables_of(document)
    assert all(
        text[row.start : row.end].count(row.cells[-1]) for table in tables for row in table.rows
    )
    return tables


def test_tables_have_captions_heads_and_rows_at_their_offsets():
    old, new = _table(FLEET)
    assert old.caption.startswith("Fleet\n2022, superseded")
    assert new.head.cells == ("Ship", "Port", "Crew", "Cost EUR")
    assert [row.cells[2] for row in new.rows] == ["11", "5", "3"]
    (word,) = _table(WORD)
    assert (word.head.cells, word.rows[0].cells) == (("Item", "Fee"), ("Tow", "£90"))
    (separated,) = _table(SEPARATED, "text/csv")
    assert separated.head.cells == ("No.", "Part", "Price")
    assert separated.rows[0].cells == ("7", "Rope; long", "3,20")
    assert separated.caption == "Draft"
    (quoted,) = _table('a,b\n"two\nlines, ""said""", 5\n', "text/csv")
    assert quoted.rows[0].cells == ('two\nlines, "said"', "5")
    assert _table("No;table", "text/plain") == ()


@pytest.mark.parametrize(
    ("question", "said", "rows"),
    [
        ("What is the crew of the Halcyon?", "Crew: 5", ["Halcyon |"]),
        ("What was the crew of the Meridian in 2022?", "Crew: 9", ["Meridian |"]),
        ("Which port does the Halcyon Minor have?", "Port: Porto", ["Halcyon Minor |"]),
        ("How many ships are in Porto?", "2 rows", ["Meridian |", "Halcyon Minor |"]),
        (
            "What is the total cost of the ships in Porto?",
            "Cost EUR, sum of 2 rows: 2000.5",
            ["Meridian |", "Halcyon Minor |"],
        ),
        ("Wie hoch ist der Cost der Meridian?", "Cost EUR: 1.300,50", ["Meridian |"]),
    ],
)
def test_the_row_and_the_cell_of_the_question_answer(question: str, said: str, rows: list[str]):
    answer = answered(question, FLEET)
    assert answer.text.splitlines()[0] == said
    *quoted, head = [citation.text for citation in answer.citations]
    assert head == "| Ship | Port | Crew | Cost EUR |"
    assert all(text.startswith(f"| {row}") for text, row in zip(quoted, rows, strict=True))
    assert all(FLEET[c.start : c.end] == c.text for c in answer.citations)


def test_a_change_between_two_tables_cites_both_rows_and_says_the_difference():
    answer = answered("How much did the crew of the Meridian rise between 2022 and 2023?", FLEET)
    assert {c.text.split(" | ")[2] for c in answer.citations[:2]} == {"9", "11"}
    assert answer.text.splitlines()[0].endswith("difference 2")


def test_an_extreme_names_its_row():
    answer = answered("Which ship of 2023 has the lowest cost?", FLEET)
    assert answer.text.splitlines()[0] == "Cost EUR, lowest of 3 rows: 700 (Halcyon Minor)"


VISITS = "# Visits\n\n| month | hall | visitors | new_members |\n|---|---|---|---|\n" + "".join(
    f"| {year}-{month:02} | {hall} | {number} | {13 - month} |\n"
    for year, more in ((2024, 500), (2025, 0))
    for month in range(1, 13)
    for hall, number in (("Ulm", 100 * month), ("Kiel", 700), ("Bonn", 600 + more))
)


@pytest.mark.parametrize(
    ("question", "said", "rows"),
    [
        ("Which hall had the most visitors in 2025?", "3 sums: 8400 (Kiel)", 12),
        ("In 2025, which hall had the fewest visitors?", "3 sums: 7200 (Bonn)", 12),
        ("Which hall had the highest visitors in 2025?", "36 rows: 1200 (Ulm)", 1),
        ("Which month of 2025 had the most visitors?", "12 sums: 2500 (2025-12)", 3),
        ("Which hall had the most visitors in August 2025?", "3 rows: 800 (Ulm)", 3),
    ],
)
def test_an_extreme_names_the_column_asked_for_and_the_most_adds_its_rows(question, said, rows):
    answer = answered(question, VISITS)
    assert re.sub(r"visitors, \w+ of ", "", answer.text.splitlines()[0]) == said
    assert len(answer.citations) == rows + 1


def test_the_highest_number_of_a_named_row_is_its_own():
    rows = "| Stage 1 | 17 |\n| Guided sail | 27 |\n"
    text = f"# Limits\n\n| Course | Greatest wind |\n| --- | --- |\n{rows}"
    answer = answered("What is the highest wind for Stage 1?", text)
    assert answer.text.splitlines()[0] == "Greatest wind: 17"


def test_prose_with_more_words_of_the_question_answers_instead_of_a_row():
    text = f"{FLEET}\n## Towing\n\nThe Halcyon is towed to the wharf by two tugs at night.\n"
    answer = answered("How many tugs tow the Halcyon to the wharf?", text)
    assert "two tugs" in answer.citations[0].text


def test_the_plural_of_the_first_column_does_not_choose_the_rows():
    text = "# Fees\n\n| Service | Fee |\n| --- | --- |\n| towing | 90 |\n| mooring | 40 |\n"
    assert answered("Which services cost the most?", text).text.startswith("Fee, highest of 2 rows")
    (row, _) = answered("What services of mooring are there?", text).citations
    assert row.text == "| mooring | 40 |"


HARBOURS = """# Berths

## Leer

| Jetty | Boats | Power |
| --- | --- | --- |
| Jetty 1 | 12 | solar |
| Jetty 2 | 8 | gas |

## Emden

| Jetty | Boats | Power |
| --- | --- | --- |
| Jetty 7 | 9 | gas |
"""


STOCK = """# Stores

| Stock count of 30 June | | | | |
| --- | --- | --- | --- | --- |
| Beer | Town | Year | Quantity | Minimum |
| Pale | Ulm | 2025 | 40 | 60 |
| Stout | Ulm | 2024 | 90 | 60 |
| Porter | Bonn | 2025 | 60 | 60 |
| Amber | Bonn | 2025 | - | 60 |
"""


@pytest.mark.parametrize(
    ("question", "beers"),
    [
        ("Which beers are below their minimum?", ["Pale"]),
        ("Combien de bières sont sous leur minimum ?", ["Pale"]),
        ("Which beers are above the minimum quantity we want?", []),  # names two columns
        ("Welche liegen über dem Minimum?", ["Stout"]),
        ("Which beers are below 50 at minimum?", []),
        ("Welche Biere haben unter ihrem Minimum vorrätig?", ["Pale"]),
        ("Under which quantity is Pale listed?", []),
        ("Below which minimum are the beers?", []),
        ("Which beers are not below their minimum?", []),
        ("Which beers are sold for more than a minimum?", []),
        ("Where is the minimum above the quantity?", ["Pale"]),  # not: where the year is
    ],
)
def test_rows_below_or_above_the_limit_in_a_column_answer(question, beers):
    document = Document("0.md", "", STOCK)
    found = rows_beyond(question, [scored("0.md", STOCK)], lambda chunk: document)
    assert [row.cells[0] for one in found for row in one.rows] == beers
    if question == "Which beers are below their minimum?":
        row, head = answered(question, STOCK).citations
        assert row.text == "| Pale | Ulm | 2025 | 40 | 60 |"
        assert head.text == "| Beer | Town | Year | Quantity | Minimum |"


def test_a_count_of_rows_below_a_limit_counts_unquoted_rows():
    rows = "\n".join(f"| Beer {n} | {n} | 40 |" for n in range(50))
    text = f"| Beer | Quantity | Minimum |\n| --- | --- | --- |\n{rows}"
    given = answered("How many beers are below their minimum?", text)
    assert given.text.startswith("40 rows\n") and len(given.citations) == 31


def test_the_title_in_the_first_row_of_a_sheet_is_no_head():
    (table,) = tables_of(Document("a", "", STOCK))
    assert table.head and table.head.cells == ("Beer", "Town", "Year", "Quantity", "Minimum")
    assert [row.cells[0] for row in table.rows] == ["Pale", "Stout", "Porter", "Amber"]
    assert table.caption == "Stores\n# Stores\nStock count of 30 June"
    (table,) = tables_of(Document("a", "", "| | Fee |\n| --- | --- |\n| Tow | 9 |\n| Dock | 4 |\n"))
    assert table.head and table.head.cells == ("", "Fee")


def test_rows_of_all_sheets_count():
    answer = answered("How many jetties run on gas?", HARBOURS)
    assert answer.text.splitlines()[0] == "2 rows"
    assert [c.text[:9] for c in answer.citations[:2]] == ["| Jetty 2", "| Jetty 7"]


def test_a_sum_takes_all_rows_of_the_sheet_that_the_question_names():
    answer = answered("How many boats lie in Leer in total?", HARBOURS)
    assert answer.text.splitlines()[0] == "Boats, sum of 2 rows: 20"


def test_dates_are_not_added_and_the_most_recent_is_no_extreme():
    fairs = "# Fairs\n\n| Fair | from | Cost |\n| --- | --- | --- |\n"
    fairs += "| Spring | 28.01.2025 | 60 |\n| Autumn | 03.09.2025 | 75 |\n"
    said = answered("What do all fairs cost together?", fairs).text.splitlines()[0]
    assert said == "Cost, sum of 2 rows: 135"
    recent = answered("What was the cost of the most recent autumn fair?", fairs)
    assert recent.text.splitlines()[0] == "Cost: 75"


def test_a_row_of_another_document_than_the_best_passage_needs_more_words():
    budget = "# Budget\n\n| Position | January |\n| --- | --- |\n| rent hall | £80 |\n"
    answer = answered("What is the rent of the hall?", "The rent of the hall is £90.", budget)
    assert answer.citations[0].text == "The rent of the hall is £90."


def test_the_column_names_above_two_rows_are_one_source():
    stock = "| Tin | Number |\n| --- | --- |\n| Pie tin | 9 |\n| Loaf tin | 4 |\n| Lid | 7 |"
    answer = answered("How many tins have we in total, pie and loaf?", stock)
    assert [c.text.split(" |")[0] for c in answer.citations] == ["| Pie tin", "| Loaf tin", "| Tin"]


COURSES = """The course on fog costs £9 at Stage 4.

| Course | Full | Concession |
| --- | --- | --- |
| Stage 1 Beginners | 275 | 233 |
| Stage 3 Going Further | 510 | 433 |
| Night Sailing | 3 | 2 |
| Concessions are for students who pay at the first Stage. |  |  |
"""


ROTA = """| Week | Desk | Workshop |
| --- | --- | --- |
| 29 | Ada Berg | Rosa Lind |
| 30 | Rosa Lind | Ada Berg |
"""


def test_a_number_names_the_row_of_its_column():
    answer = answered("Who is down for the workshop in week 30?", ROTA)
    assert [c.text for c in answer.citations if "Week" not in c.text] == [
        "| 30 | Rosa Lind | Ada Berg |"
    ]


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ("What does a student pay for Stage 3?", "| Stage 3 Going Further | 510 | 433 |"),
        ("How much is night sailing at the first stage?", "| Night Sailing | 3 | 2 |"),
    ],
)
def test_a_row_answers_whose_name_the_question_has(question, row):
    assert answered(question, COURSES).citations[0].text == row


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How many boats has jetty 2 in Leer?", ["| Jetty 2 | 8 | gas |"]),
        # Only Emden has this jetty.
        ("How many boats has jetty 7 in Leer?", []),
        ("How many boats has jetty 7 in Emden?", ["| Jetty 7 | 9 | gas |"]),
    ],
)
def test_a_named_sheet_answers_alone(question, said):
    rows = [c.text for c in answered(question, HARBOURS).citations if c.text[:8] == "| Jetty "]
    assert [row for row in rows if "Boats" not in row] == said


def test_each_side_of_a_comparison_has_the_row_of_its_sheet():
    text = HARBOURS.replace("Jetty 7 | 9", "Jetty 2 | 9")
    answer = answered("Does jetty 2 take more boats in Leer or in Emden?", text)
    assert [c.text for c in answer.citations] == ["| Jetty 2 | 8 | gas |", "| Jetty 2 | 9 | gas |"]
    lacking = answered("Does jetty 1 take more boats in Leer or in Emden?", text)
    assert [(row.document_id, row.number) for row in lacking.table] == [
        ("Leer", 1),
        ("Emden", None),
    ]


WEATHER = (
    "| Day | Rain | Guest |\n| --- | --- | --- |\n| 16.03.2025 | 1.5 | Ada |\n"
    "| 17.03.2025 | 5.4 | Bo |\n| 17.04.2025 | 4.1 | Cy |\n"
)


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("Which rain fell on 17 March 2025?", ["17.03.2025"]),
        ("Welcher Guest kam am 17. April 2025?", ["17.04.2025"]),
        ("How many guests came in March 2025?", ["16.03.2025", "17.03.2025"]),
        ("How many guests came in April 2025?", ["17.04.2025"]),
    ],
)
def test_a_date_or_month_of_a_question_chooses_the_rows_that_write_it_in_digits(question, days):
    cited = [c.text.split(" ")[1] for c in answered(question, WEATHER).citations]
    assert [day for day in cited if day != "Day"] == days


def _delivered(question: str, *days: str) -> str:
    rows = "".join(
        f"| {day} | Hull | {n} |\n" for day, n in zip(days, (41, 17, 5, 9), strict=False)
    )
    text = f"| Date | Port | Crates |\n| --- | --- | --- |\n{rows}"
    return answered(question, text).text.splitlines()[0]


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (["5/3/2024", "3/5/2024", "5/14/2024", "4/25/2024"], "Crates: 41"),
        (["5/3/2024", "3/5/2024", "14/5/2024", "25/4/2024"], "Crates: 17"),
        (["5/3/2024", "3/5/2024", "5/4/2024"], "Crates: 41; 17"),
        (["5/3/2024", "3/5/2024", "5/14/2024", "14/5/2024"], "Crates: 41; 17"),
    ],
)
def test_another_date_of_the_column_decides_the_order_of_day_and_month(days, said):
    assert _delivered("How many crates were delivered on May 3, 2024?", *days) == said


@pytest.mark.parametrize(
    ("question", "n_days"),
    [
        ("Which guides worked on 3 May 2024?", 1),
        ("Welcher Guide fuhr am 3. Mai 2024 nach Emden?", 1),
        ("Which guides worked between 1 May and 3 May 2024?", 0),
        ("Which guides worked on 1 May and 3 May 2024?", 0),
        ("Which guides worked between 1 and 3 May 2024?", 0),
        ("Which guides worked from 1 to 3 May 2024?", 0),
        ("Which guides worked on 1-3 May 2024?", 0),
        ("Which guides worked before May 3, 2024?", 0),
        ("Which guides worked after the 3rd of May 2024?", 0),
        ("Which guides have worked since May 2024?", 0),
        ("Welche Guides arbeiteten vom 1. bis 3. Mai 2024?", 0),
        ("Welche Guides arbeiteten ab dem 3. Mai 2024?", 0),
    ],
)
def test_a_period_or_two_dates_choose_no_row(question, n_days):
    assert len(days_asked(question)) == n_days


def test_the_rows_of_a_period_are_kept():
    text = "| Day | Guide |\n| --- | --- |\n| 01.05.2024 | Ada |\n| 03.05.2024 | Bo |\n"
    answer = answered("Which guides worked between 1 May and 3 May 2024?", text)
    assert {"| 01.05.2024 | Ada |", "| 03.05.2024 | Bo |"} <= {c.text for c in answer.citations}


def test_a_numbered_name_of_four_digits_leaves_out_rows_with_another():
    text = "| Order | Driver | Weight |\n| --- | --- | --- |\n"
    text += "| 4538 | Fenn | 4539 kg |\n| 4539 | Birch | 80 kg |\n"
    cited = [c.text for c in answered("Who drove order 4539?", text).citations]
    assert cited == ["| 4539 | Birch | 80 kg |", "| Order | Driver | Weight |"]


@pytest.mark.parametrize(
    ("written", "is_same"),
    [
        ("17.03.2025", True), ("2025-03-17", True), ("17/3/25", True), ("17 mar 2025", True),
        ("17. märz 2025", True), ("117.03.2025", False), ("2025-03-18", False),
        ("17.03.2024", False), ("2025-03", False),
    ],
)  # fmt: skip
def test_a_date_is_written_in_many_ways(written, is_same):
    assert bool(re.search(ways_to_write(("date", 3, 17, 2025)), written)) == is_same
