# ruff: noqa: E501
"""Documents have names by owner and kind, else by title."""

from dataclasses import replace

import pytest

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Document
from rag_pipeline.questions.generation import RULES, make_questions
from rag_pipeline.questions.naming import names_of

VIEW_PAGE = "CREATE VIEW(7)  SQL  CREATE VIEW(7)\n\nNAME\n       CREATE VIEW - make a view\n"
BODY = "This lease is between Halvorsk Marine, Inc. and Dominion Energy LLC."


@pytest.mark.parametrize(
    ("document_id", "title", "text", "names"),
    [
        ("a.md", "Office Lease", BODY,
         ["Halvorsk’s office lease", "the Halvorsk lease", "the Halvorsk–Dominion Energy lease"]),
        # The site after the bar is left out; a name of title or file must be in the text.
        ("a.html", "Time Off Policy | Quillmere Hub", "Staff of Quillmere may rest.",
         ["Quillmere’s time off policy", "the Quillmere policy"]),
        ("halvorsk-terms.txt", "HALVORSK", "We are Halvorsk.", ["Halvorsk’s terms", "the Halvorsk terms"]),
        # Only an agreement has two parties, and a company or output is no title.
        ("p.md", "Privacy Policy", BODY, ["Halvorsk’s privacy policy", "the Halvorsk policy"]),
        ("fuel.txt", "BUNKER FUEL, LLC", "Doors are closed.", ["the file “fuel”"]),
        ("oars.pdf", "Loading required package: tide", "Doors.", ["the file “oars”"]),
        ("surf-algzo.pdf", "", "Doors are closed.", []),
        ("slog.3.txt", "SLOG(3)", "SLOG(3) C SLOG(3)\n\nNAME\n  olog, slog - log\n", ["“slog(3)”"]),
        ("oars.txt", "Starten von Kahn", "## Starten\n## Ziel\n## Ende\n## Ufer\n" * 2, ["the file “oars”"]),
        # Whose it is, or what, is not known.
        ("b.md", "Fire Safety Policy | Hub", "Doors are closed.", ["“Fire Safety Policy”"]),
        ("fire-doors.md", "", "Doors are closed.", ["the file “fire doors”"]),
        ("doors.md", "doors", "Doors are closed.", ["“doors”"]),
        # An abbreviation of its own, a form's blank, where it is attached, a keyword of the format.
        ("c.md", "XNDA Agreement", "This agreement (“XNDA”) is made.", ["“XNDA Agreement”"]),
        ("lease-form.md", "", "Name of Tenant, Inc. rents this.", ["the file “lease form”"]),
        ("loan.md", "Exhibit 99(d)(7)", "The loan is free.", ["the file “loan”"]),
        # Half a name, a heading, a number, a field of a form, a name of a machine's.
        ("d.md", "Board of Works Secrecy Agreement", BODY,
         ["“Board of Works Secrecy Agreement”"]),
        ("ropes.md", "Ropes |build-status| |docs|", "Doors are closed.", ["“Ropes”"]),
        ("e.md", "Table of Contents", "Doors are closed.", ["the file “e”"]),
        ("k.md", "Inhaltsverzeichnis", "Doors are closed.", ["the file “k”"]),
        ("f.md", "8.2. Fire Doors", "Doors are closed.", ["“Fire Doors”"]),
        ("g.md", "Bid Title", "Doors are closed.", ["the file “g”"]),
        ("0001140361-x1.md", "", "Doors are closed.", []),
        ("h.md", "NON-DISCLOSURE AND QA-POL-014", "Quiet.", ["“Non-Disclosure and QA-POL-014”"]),
        ("view.txt", "CREATE VIEW(7)", VIEW_PAGE, ["“CREATE VIEW”"]),
        ("lumen.md", "Welcome to the Lumen Project", "Quiet.", ["“Lumen”"]),
        ("lumenq.md", "lumenQ: lights for the home", "Quiet.", ["“lumenQ”"]),
        ("i.md", "Oars 🚀", "Doors are closed.", ["“Oars”"]),
        ("tmux.org", "#+TITLE: Colours of tmux", "True colour works.", ["“Colours of tmux”"]),
        # The short form that the text uses, a person, and the program below a slogan.
        ("VERO_NDA.txt", "", "In favour of Halvorsk Marine, Inc. (“VERO”). We trust VERO.",
         ["VERO’s NDA", "the VERO NDA"]),
        ("gnot.pdf", "Dan E. Kell", "Doors are closed.", ["the file “gnot”"]),
        ("signed.pdf", "Ada Falk", "A guide\nby Ada Falk\n", ["the file “signed”"]),
        ("xcount_tool.md", "Counting, for Everyone", "Get xcount-tool. Run xcount-tool or xcount-tool.",
         ["“xcount-tool”"]),
        ("j.md", "Staff Handbook", "The rules that Pedal & Quay GmbH gives.",
         ["Pedal & Quay’s staff handbook", "the Pedal & Quay handbook"]),
    ],
)  # fmt: skip
def test_what_a_document_is_called(document_id, title, text, names) -> None:
    assert names_of([Document(document_id, "hash", text, title)]) == {document_id: names}


def test_a_name_that_many_documents_have_tells_none_of_them() -> None:
    documents = [Document(f"{n}.md", str(n), BODY, f"Lease {n}") for n in "abc"]
    documents.append(Document("d.md", "d", "Between Korrin Works Ltd and Halvorsk Inc.", "Lease d"))
    named = names_of(documents)
    assert named["a.md"] == ["“Lease a”"]
    assert named["d.md"] == ["Korrin’s lease", "the Korrin lease"]


def test_a_name_that_fits_two_documents_is_left_out() -> None:
    documents = [
        Document("a.md", "a", "Halvorsk Inc. buys from Dominion Energy LLC.", "Supply Agreement A"),
        Document("b.md", "b", "Halvorsk Inc. buys from Korrin Works Ltd.", "Supply Agreement B"),
        *(Document(f"{n}.md", n, "No company is named.", f"Note {n}") for n in "cdef"),
    ]
    named = names_of(documents)
    assert named["a.md"] == ["“Supply Agreement A”"]
    assert named["b.md"] == ["“Supply Agreement B”"]


def test_what_stands_above_several_titles_is_no_name() -> None:
    documents = [
        Document("range.pdf", "a", "Food.", "Paws & Pantry – What we cook for your dog in 2025"),
        Document("returns.md", "b", "Bring it back.", "Paws & Pantry – Returns"),
        Document("stock.txt", "c", "We count.", "Stock of Paws & Pantry"),
    ]
    assert names_of(documents) == {
        "range.pdf": ["“What we cook for your dog in 2025”"],
        "returns.md": ["“Paws & Pantry – Returns”"],
        "stock.txt": ["“Stock of Paws & Pantry”"],
    }


def test_the_first_word_of_each_line_is_no_name_of_a_firm() -> None:
    text = "Biosecurity is for all. Boots are washed.\nBiosecurity needs time.\n"
    document = Document("plan.md", "a", text, "Biosecurity plan")
    assert names_of([document]) == {"plan.md": ["“Biosecurity plan”"]}


def test_a_german_document_has_no_english_name() -> None:
    text = "Die Halvorsk GmbH liefert. Halvorsk zahlt."
    document = Document("faq.md", "x", text, "Halvorsk FAQ", metadata={"language": "de"})
    assert names_of([document]) == {"faq.md": ["“Halvorsk FAQ”"]}


def lease(owner: str, months: str, deposit: str) -> Document:
    text = f"""{owner} Ltd lets the house.

The tenant shall provide a security deposit of USD {deposit} to the landlord.

Either party may end the lease by giving {months} months written notice.
"""
    return Document(f"{owner}.txt", owner, text, f"Lease of {owner}")


ALIKE = [lease("Korrin", "six (6)", "93,750"), lease("Velstead", "three (3)", "12,000")]


def test_of_documents_that_say_alike_things_each_question_names_one() -> None:
    own = "\nThe landlord shall paint the wooden fence of the garden every spring.\n"
    documents = [ALIKE[0], replace(ALIKE[1], text=ALIKE[1].text + own)]
    made = make_questions(documents, 8, Lexical())
    asked = [row["query"] for row in made.rows]
    assert len(asked) >= 2
    assert all("Korrin" in query or "Velstead" in query for query in asked)


def test_the_only_document_need_not_be_named() -> None:
    made = make_questions([ALIKE[0]], 8, Lexical())
    assert not all("Korrin" in row["query"] for row in made.rows)


def test_a_near_copy_of_a_document_is_left_out_and_progress_is_told() -> None:
    text = ALIKE[0].text + "".join(
        f"\nThe tenant shall repair the {thing} of the house at its own cost.\n"
        for thing in ("roof", "fence", "chimney", "staircase", "cellar door", "garden gate")
    )
    original = replace(ALIKE[0], text=text)
    copy = replace(original, document_id="a copy of Korrin.txt", text=f"{text}\nOne more line.\n")
    draft = replace(ALIKE[1], document_id="Velstead_DRAFT.txt")
    old = Document("old/Terms_superseded.txt", "x", "Fees are due.", "Terms")
    french = Document("f.txt", "f", "Le locataire paie le loyer le premier jour du mois. " * 9, "F")
    told: list[tuple[int, int]] = []
    named_copy = replace(original, document_id="Korrin - Copy.txt")
    documents = [copy, draft, old, french, original, ALIKE[1], named_copy]
    made = make_questions(documents, 8, Lexical(), lambda *n: told.append(n))
    reasons = ["a copy of another", "a draft", "another language", "not in force"]
    assert made.left_out == dict(zip(reasons, [2, 1, 1, 1], strict=True))
    assert made.facts == len(made.rows) + sum(made.refused.values())
    asked = {span["document_id"] for row in made.rows for span in row["gold_spans"]}
    assert asked == {"Korrin.txt", "Velstead.txt"}
    # The total counts the documents that are left out.
    assert told[0] == (0, 7) and told[-1][0] == told[-1][1] and len(told) > len(made.rows)


def test_options_fill_up_few_questions() -> None:
    things = "roof fence chimney staircase cellar gate lamp wall floor door tap bell".split()
    entries = "".join(
        f"  --{thing}\n      Paint the {thing} of the house in a {thing} colour.\n\n"
        for thing in things
    )
    few = make_questions([Document("a.md", "a", f"# Tool\n\n{entries}", "Tool")], 40, Lexical())
    assert {row["tags"][0] for row in few.rows} == {"option"}
    assert len(few.rows) >= 8


def test_entries_with_almost_the_same_text_get_one_question() -> None:
    entries = "".join(
        f"  --{colour}-table\n      Load a table of the user for the {colour} channel of the device. "
        "The table has 256 bytes and works in the colour mode alone.\n\n"
        for colour in ("red", "green", "blue")
    )
    made = make_questions([Document("a.md", "a", f"# Tool\n\n{entries}", "Tool")], 40, Lexical())
    assert len(made.rows) == 1
    assert made.rows[0]["metadata"] == {"rules": RULES}


def test_a_short_question_names_its_section() -> None:
    text = """# Expenses

## How to claim

Claims on form E1 are handed to Priya by the fifth of the month after the journey.

## Company cards

Receipts go to Priya within seven days.
"""
    documents = [
        Document("expenses.md", "a", text, "Expenses"),
        *(
            Document(f"{n}.md", n, f"# Note {n}\n\nThe {n} boats sail.\n", f"Note {n}")
            for n in "bcde"
        ),
    ]
    asked = {row["query"] for row in make_questions(documents, 9, Lexical()).rows}
    assert any("“Company cards” of “Expenses”" in q and "receipts go to Priya" in q for q in asked)
