import pytest

from rag_pipeline.answering.forms import NO_ANSWER
from rag_pipeline.answering.written import (
    cited_answer,
    clause_answer,
    comparison_answer,
    listing_answer,
    locate,
)
from rag_pipeline.datamodels import ScoredChunk

ACME = "1. Term. The parties’ obligations last\nfor five (5) years."
CEDAR = "1. Term. The obligations last for two (2) years."


def chunk(document_id, start, text):
    return ScoredChunk(
        f"{document_id}#{start}-{start + len(text)}", document_id, start, start + len(text), text, 1
    )


CHUNKS = [chunk("acme.txt", 100, ACME), chunk("cedar.txt", 0, CEDAR)]


@pytest.mark.parametrize(
    ("quote", "text", "span"),
    [
        ("b c", "a b\n  c d", (2, 7)),
        ("“the party's”", "of the party’s own", (3, 14)),
        ("a.c", "abc", None),
        ("five - six", "five – six", (0, 10)),
        ("  ", "a b", None),
    ],
)
def test_a_quote_is_found_whatever_its_white_space_and_marks(quote, text, span):
    assert locate(quote, text) == span


def test_a_clause_keeps_the_wording_of_the_document_and_cites_its_span():
    made = clause_answer(
        "They last five years [1].",
        [(1, "The parties' obligations last for five (5) years.")],
        CHUNKS,
    )
    assert made.text == (
        "They last five years [1].\n“The parties’ obligations last for five (5) years.” [1]"
    )
    (cited,) = made.citations
    assert (cited.start, cited.end) == (109, 100 + len(ACME))
    assert cited.text == ACME[9:] and cited.supports
    assert made.problems == ()


def test_a_quote_of_the_wrong_number_is_renumbered_and_a_false_one_flagged():
    quotes = [(1, "last for two (2) years"), (2, "last for nine years"), (9, "."), (77, "nowhere")]
    made = clause_answer("NO ANSWER", quotes, CHUNKS)
    assert made.text.splitlines() == [
        "“last for two (2) years” [2]",
        "“last for nine years” [2]",
        "“nowhere” [77]",
    ]
    assert made.problems == (
        "not the wording of [2]: “last for nine years”",
        "not the wording of [77]: “nowhere”",
    )
    assert [(c.number, c.document_id) for c in made.citations] == [(2, "cedar.txt")]


def test_a_clause_without_quotes_is_flagged_and_none_is_no_answer():
    assert "quotes nothing" in clause_answer("Five (5) years [1].", [], CHUNKS).problems
    none = clause_answer("NO ANSWER", [], CHUNKS)
    assert (none.text, none.answered) == (NO_ANSWER, False)


def test_a_comparison_is_a_table_of_the_documents_own_passages():
    rows = [
        ("acme.txt", "Obligations last five (5) years [1]."),
        ("Cedar NDA", "Obligations last two (2)\nyears [2]."),
        ("acme.txt", "Obligations last two (2) years [2]."),
        ("dune.txt", "Obligations | ten years."),
        ("acme.txt", "NO ANSWER"),
    ]
    made = comparison_answer(rows, CHUNKS)
    assert [(r.document_id, r.number) for r in made.table] == [
        ("acme.txt", 1),
        ("cedar.txt", 2),
        ("acme.txt", 2),
        ("dune.txt", None),
    ]
    assert made.problems == (
        "the row of acme.txt cites cedar.txt",
        "cites nothing: Obligations | ten years.",
        "no passage is of 'dune.txt'",
    )
    lines = made.text.splitlines()
    assert lines[2] == "| acme.txt | Obligations last five (5) years [1]. |"
    assert lines[5] == "| dune.txt | Obligations \\| ten years. |"
    assert not comparison_answer([], CHUNKS).answered


def test_a_list_has_a_line_an_item_and_a_number_that_is_wrong_anywhere_is_not_verified():
    items = ["Five (5) years of obligations [1]", "Nine (9) years [1]", "Two (2) years [2][8]"]
    made = listing_answer(items, CHUNKS)
    assert made.text.splitlines() == [f"- {item}" for item in items]
    assert [(c.number, c.supports) for c in made.citations] == [(1, False), (2, True)]
    assert len(made.problems) == 2
    assert not listing_answer([], CHUNKS).answered
    assert not cited_answer("No answer.", CHUNKS).answered
