from collections.abc import Sequence

import pytest

from rag_pipeline.datamodels import Document
from rag_pipeline.questions.facts import read_facts
from rag_pipeline.questions.stated import StatedFact

TEXT = """# Service agreement

This agreement is made on 3 May 2021 between Acme Rockets Inc. and Birch Paper Ltd.

## 2. Delivery and prices

2.1 “Goods” means the rockets that the Supplier makes for the Customer.

2.2 The Supplier shall deliver the Goods within thirty (30) days of the order.

2.3 **Price.** The Customer shall pay USD 5,000 for each rocket.

2.4 Late deliveries cost USD 100 in the first week and USD 200 in the second week.

2.5 A discount of five percent (5%) applies to orders of the same month.
"""


def facts(text: str = TEXT, kind: str = "") -> Sequence[StatedFact]:
    document = Document("a.md", "hash", text, title="Service agreement")
    return [f for f in read_facts(document) if f.kind == kind or not kind]


@pytest.mark.parametrize(
    ("kind", "answer", "gold"),
    [
        ("duration", "thirty (30) days",
         "The Supplier shall deliver the Goods within thirty (30) days of the order."),
        ("amount", "USD 5,000", "The Customer shall pay USD 5,000 for each rocket."),
        ("percentage", "five percent (5%)",
         "A discount of five percent (5%) applies to orders of the same month."),
        ("date", "3 May 2021",
         "This agreement is made on 3 May 2021 between Acme Rockets Inc. and Birch Paper Ltd."),
        ("definition", "the rockets that the Supplier makes for the Customer.",
         "“Goods” means the rockets that the Supplier makes for the Customer."),
    ],
)  # fmt: skip
def test_a_fact_has_the_sentence_without_number_and_heading(kind, answer, gold) -> None:
    (fact,) = facts(kind=kind)
    assert fact.answer == answer
    assert TEXT[fact.start : fact.end] == gold


def test_links_count_as_their_words() -> None:
    text = "# Guide\n\n## [Errors of a client](https://example.org/a_(b)?x=1234567890&y=1234567890)\n\n"
    text += 'A [client](c.html "Clients") must wait for 30 seconds after an error.\n'
    (asked,) = facts(text, "duration")
    assert asked.about.startswith("Errors of a client Service agreement")
    assert asked.sentence == "a client must wait for 30 seconds after an error."
    assert text[asked.start : asked.end].startswith('A [client](c.html "Clients")')
    assert [f.subject for f in facts(text, "section")] == ["Errors of a client"]


def test_a_section_is_asked_for_by_its_heading_with_its_first_sentences() -> None:
    (fact,) = facts(kind="section")
    assert fact.subject == "Delivery and prices"
    assert TEXT[fact.start :].startswith("“Goods” means")


def test_a_clause_is_a_section_below_the_heading_on_its_line() -> None:
    text = (
        "SUPPLY AGREEMENT\n\n"
        "7. Return of Materials. The Buyer shall send back each box of the Seller. "
        "8. Governing Law. The laws of the State of Iowa govern the contract. "
        "9. The parties have signed the contract on each page.\n"
    )
    found = {f.subject: text[f.start : f.end] for f in facts(text, "section")}
    assert found == {
        "Return of Materials": "The Buyer shall send back each box of the Seller.",
        "Governing Law": "The laws of the State of Iowa govern the contract.",
    }


def test_a_section_keeps_its_dates_and_ends_at_the_next_clause() -> None:
    text = (
        "# Vertrag\n\n## Betriebsferien\n\nDie Werkstatt hat Betriebsferien: 24. Dezember 2026 bis "
        "6. Januar 2027.\n\n## Sonstiges und Umsatz\n\n"
        "§ 4 Rückgabe der Ware. Die Ware kann in 60 Tagen zurückgegeben werden.\n\n"
        "§ 5 Umsatz im Jahr. 24.000 Euro sind der Umsatz, den der Händler im Jahr erreicht.\n"
    )
    assert {f.subject: f.answer for f in facts(text, "section")} == {
        "Betriebsferien": "Die Werkstatt hat Betriebsferien: 24. Dezember 2026 bis 6. Januar 2027.",
        "Rückgabe der Ware": "Die Ware kann in 60 Tagen zurückgegeben werden.",
        "Umsatz im Jahr": "24.000 Euro sind der Umsatz, den der Händler im Jahr erreicht.",
    }


MANUAL = """TOOL(1)

NAME
       tool - count the lines of all files

DESCRIPTION
       A file must not hold more than 5 lines of numbers.

OPTIONS
       -o, --output FILE
              Write all lines to the file. The file must not be open in another program.

       --write FILE
              Same as -o, but with a number of the file.

       --help
              Show the usage of the tool and leave.

       --sort
              This option has three effects:

       --jobs N
              Count so many files at a time. The default is 4.

       --trace
              Print each line of the file.

              The number comes first.

ENVIRONMENT
       TOOL_COLOUR
              Set the colour of the lines that the tool prints.
"""


def test_an_option_of_one_command_or_of_two_entries_is_not_asked_about() -> None:
    command = "       repeat [OPTS] command\n\n              --weak  Stop in the background.\n\n"
    again = "       -x RX,   --jobs=RX\n              leave out files of this name\n\n"
    manual = MANUAL.replace("ENVIRONMENT", f"{again}COMMANDS\n\n{command}ENVIRONMENT")
    assert [f.subject for f in facts(manual, "option")] == ["--output"]
    states = MANUAL.replace("Set the colour of", "A number of")
    assert [f.subject for f in facts(states, "term")] == ["TOOL_COLOUR"]


def test_a_manual_is_asked_about_its_entries_but_not_about_their_sentences() -> None:
    found = [(f.kind, f.subject) for f in facts(MANUAL)]
    named = [("option", "--output"), ("option", "--jobs"), ("purpose", "--jobs")]
    assert found == [*named, ("default", "--jobs"), ("variable", "TOOL_COLOUR")]
    (default,) = facts(MANUAL, "default")
    assert (default.subject, default.answer) == ("--jobs", "4")


@pytest.mark.parametrize(("program", "expected"), [("agreement", ["--first"]), ("extra", [])])
def test_help_in_a_block_of_code_counts_if_it_names_the_document(program, expected) -> None:
    text = f"# Guide\n\n```\n$ {program} --help\n\n  --first N  Show the lines of a file\n\n```\n"
    assert [f.subject for f in facts(text, "option")] == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Count so many files (default: all of them).", ["all of them"]),
        ("Count by name. Defaults to size.", ["size"]),
        ("Keep the attributes (default:  mode,owner).", ["mode,owner"]),
        ("Keep all. The default is to keep the NAME, SIZE, OWNER of files.", []),
        ("Count by size. The default is size, or name if it is unknown.", []),
    ],
)
def test_a_default_is_asked_for_if_it_has_no_condition(said: str, expected) -> None:
    text = f"OPTIONS\n       --count\n              {said}\n"
    assert [f.answer for f in facts(text, "default")] == expected


def test_a_term_of_a_list_is_a_topic_unless_its_text_refers_elsewhere() -> None:
    text = (
        "# Filter\n\nWidth of the stroke\n:   The filter draws a stroke of this many points.\n\n"
        "Height of the stroke\n:   Dieser Wert gilt für den Strich des Filters.\n\n"
        "Colour of the stroke\n:   The filter draws it in a colour.\n\n    It may be red.\n\n"
    )
    assert [f.subject for f in facts(text, "term")] == ["Width of the stroke"]


def test_a_heading_that_asks_is_the_question_unless_it_points_elsewhere() -> None:
    text = (
        "# Guide\n\n## 9.2. Do I have to stop the tool to update a file?\n\n"
        "The tool need not stop before a file is updated.\n\n"
        "## How can they be updated?\n\nThe tool updates the files by itself.\n\n"
        "## Is it fast? Some say\n\nThe tool counts ten files in a second.\n"
    )
    asked = [(f.question, f.answer) for f in facts(text, "section")]
    assert asked == [
        (
            "Do I have to stop the tool to update a file?",
            "The tool need not stop before a file is updated.",
        )
    ]


def test_an_abbreviation_has_one_long_form_and_is_asked_at_the_first() -> None:
    text = "The users of a local area network (LAN) share a disk of the house.\n\n"
    text += "A local area network (LAN) has no roof. "
    text += "The large apple net (LAX) is green and big.\n\n"
    text += "The red hen (RH) and the round house (RH) are both on the farm of the house.\n"
    assert [(f.subject, f.start) for f in facts(text, "abbreviation")] == [("LAN", 0)]
    text = "They ask the Office of Pine Marten (OPM) for the list "
    text += "of the Big Confidential Items (CI).\nColour Reference (CR) of the list of it: NA\n\n"
    text += "The list names all red data types (RDTs) of the house.\n\n"
    text += "The list has the answers to frequently asked questions (FAQs) of the house.\n"
    answers = ["Office of Pine Marten", "red data type"]
    assert [f.answer for f in facts(text, "abbreviation")] == answers


def test_a_comment_in_code_is_no_heading() -> None:
    text = "# Guide\n\n## Disk backups\n\nThe tool makes backups:\n\n```sh\n# Copy of the disk\n"
    text += "copy\n```\n\nThe backups of the disk are kept in the cellar of the house.\n"
    assert [f.subject for f in facts(text, "section")] == ["Disk backups"]


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ("The disk\n\nBackups are kept in the cellar of the house.", {"Disk backups": 2}),
        ("### Disk copies\n\nDisk copies are kept in the cellar of the house.", {"Disk copies": 1}),
        ("Backups are described in the guide for operators.", {}),
        ("Or copy them by hand.\n\n```sh\ncopy a b\n```", {}),
        ("Keys of backups start with `b_`, and names too with `b_`.", {"Disk backups": 2}),
        ("This section explains the restoration of files.", {}),
        ("Backups of the disk have two different modes.", {}),
        ("Backups of the disk are kept in the dierent cellar of the house.", {}),
        ("## Part II.\n\nBackups are kept in the cellar of the house.", {"Disk backups": 1}),
        ("Backups need disks; further information is in the guide for operators.", {}),
        ("Press the keys +Shift+B, and the backups are kept in the cellar.", {}),
        ("Disk backups Disk backups are kept in the cellar of the house.", {}),
        (
            "## Anna Trellis\n\nShe keeps the copies in the cellar of the house.",
            {"Disk backups": 1},
        ),
    ],
)
def test_a_section_is_whole_and_says_its_topic_itself(below: str, expected) -> None:
    text = "# Guide\n\n## Disk backups\n\nThe tool makes backups of all files in the folder.\n\n"
    found = {f.subject: f.answer.count(".") for f in facts(f"{text}{below}\n", "section")}
    assert found == expected


@pytest.mark.parametrize(
    "heading",
    [
        "Authorised",
        "Contribution",
        "LINES OF THE TOOL",
        "Using the tool",
        "The tool",
        "Count the lines",
        "tool_lines option",
        "Useful tips and tricks",
        "Terms, examples",
        "Tool - lines",
        "`tool` String",
    ],
)
def test_a_heading_that_names_no_topic_is_not_asked_about(heading: str) -> None:
    text = f"# Guide\n\n## {heading}\n\nThe tool counts all lines of the files in a folder.\n"
    assert [f.subject for f in facts(text, "section")] == ["Using the tool"] * ("Using" in heading)


def test_a_sentence_of_two_sums_is_not_asked_about() -> None:
    assert all("Late deliveries" not in fact.sentence for fact in facts(kind="amount"))


LINE_TO_SIGN_ON = "# Print Name and Title\n\n" + "_" * 60 + " Date\n"
ROW_OF_FIGURES = "# Revenue in 2023\n\nQ1 10,500 Q2 11,900 Q3 12,300 Q4 11,800 USD 46,500.\n"


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "1.", "# A\n", "“Goods” means", "a" * 5_000, LINE_TO_SIGN_ON, ROW_OF_FIGURES],
)
def test_texts_without_facts_give_none(text: str) -> None:
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The training budget of the team is about £450 a year.", "about £450 a year"),
        ("The chimney of the boiler house is swept every 10 weeks by a firm.", "every 10 weeks"),
        ("Orders may be cancelled up to five days before dispatch.", "up to five days"),
        ("Die Miete beträgt 6,50 Euro je volle Woche.", "6,50 Euro je volle Woche"),
    ],
)
def test_a_quantity_is_answered_with_its_bound_and_its_rate(text: str, answer: str) -> None:
    (fact,) = [f for f in read_facts(Document("a.md", "hash", text)) if f.quantity]
    assert fact.answer == answer


def test_a_section_is_answered_without_the_numbers_of_its_steps() -> None:
    text = "# Guide\n\n## Line cleaning\n\nThe line is flushed first. 2.2 Cleaning takes a day. "
    text += "b. The line is dry..\n"
    (fact,) = [f for f in read_facts(Document("a.md", "hash", text)) if f.kind == "section"]
    assert fact.answer == "The line is flushed first. Cleaning takes a day. The line is dry."


def test_a_sentence_that_the_next_one_limits_is_not_asked_about() -> None:
    text = "# Lease\n\nThis lease ends 5 years after the start. However, either party may end it."
    assert not [f for f in read_facts(Document("a.md", "hash", text)) if f.quantity]


@pytest.mark.parametrize(
    ("above", "section"),
    [
        ("## 2. Replacing a stave\n\nLoosen the hoops\n\n", "Replacing a stave"),
        ("## Setup\n\n    # Production with the cask\n\n", "Setup"),
        ("# Casks\n\n", ""),
        ("CASKS\n\nLoosening the hoops\n\n", "Loosening the hoops"),
    ],
)
def test_the_section_of_a_sentence_is_its_heading(above: str, section: str) -> None:
    text = f"{above}The cooper shall steam the barrel for thirty minutes.\n"
    (fact,) = (
        f for f in read_facts(Document("a.md", "hash", text, "Casks")) if f.kind == "duration"
    )
    assert fact.section == section


def test_an_answer_keeps_the_underscores_of_code_and_loses_those_of_stress() -> None:
    text = "# Guide\n\n## Disk backups\n\nKeys of _all_ backups start with `b_`, "
    text += "and names with `n_`.\n"
    (fact,) = facts(text, "section")
    assert fact.answer == "Keys of all backups start with b_, and names with n_."
