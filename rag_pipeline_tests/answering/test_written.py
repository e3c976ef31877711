import pytest

from rag_pipeline.answering.extractive import NO_ANSWER
from rag_pipeline.answering.written import (
    cited_answer,
    clause_answer,
    comparison_answer,
    listing_answer,
    locate,
    read_answer,
)
from rag_pipeline_tests.testing.chunking import scored

ACME = "1. Term. The parties’ obligations last\nfor five (5) years."
CEDAR = "1. Term. The obligations last for two (2) years."


CHUNKS = [scored("acme.txt", ACME, start=100), scored("cedar.txt", CEDAR)]


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
    assert made.doubted == ("“last for nine years” [2]", "“nowhere” [77]")


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
    (doubted,) = listing_answer(["Nine (9)\nyears of obligations [1]"], CHUNKS).doubted
    assert doubted == "Nine (9) years of obligations [1]", "as in the text"
    assert not listing_answer([], CHUNKS).answered
    assert not cited_answer("No answer.", CHUNKS).answered


# --- citations of a model's text ---

TWO = [
    scored("a", "Confidentiality lasts for five (5) years."),
    scored("b", "The laws of Delaware govern this agreement.", start=10),
]


def test_numbered_citations_become_spans():
    answer = read_answer(
        "Confidentiality lasts five (5) years [1]. Delaware laws govern it. [2]", TWO, 0.5
    )
    assert answer.answered
    cited = [(c.number, c.document_id, c.start, c.end, c.supports) for c in answer.citations]
    assert cited == [(1, "a", 0, 41, True), (2, "b", 10, 53, True)]
    assert answer.problems == ()


@pytest.mark.parametrize(
    ("text", "problem", "supported"),
    [
        (
            "Confidentiality lasts five years [1][7].",
            "[7] is cited and there are 2 passages: Confidentiality lasts five years.",
            {1: True},
        ),
        (
            "Confidentiality lasts ten (10) years [1].",
            "contradicted by [1]: Confidentiality lasts ten (10) years.",
            {1: False},
        ),
        (
            "Confidentiality lasts five years [2].",
            "not supported by [2]: Confidentiality lasts five years.",
            {2: False},
        ),
        (
            "It lasts five years. The laws of Delaware govern [2].",
            "cites nothing: It lasts five years.",
            {2: True},
        ),
    ],
)
def test_what_the_passages_do_not_support_is_flagged(text, problem, supported):
    answer = read_answer(text, TWO, 0.5)
    assert answer.problems == (problem,)
    (doubt,) = answer.doubted or ("",)
    assert doubt in text and (not doubt or problem.endswith(doubt.split(" [")[0].rstrip(".") + "."))
    assert {c.number: c.supports for c in answer.citations} == supported


def test_several_passages_support_together():
    text = "Confidentiality lasts five years and Delaware governs this agreement [1, 2]."
    assert read_answer(text, TWO, 0.9).problems == ()
    assert read_answer(text.replace("[1, 2]", "[1]"), TWO, 0.9).problems


def test_no_answer_is_told_from_an_answer():
    texts = ("NO ANSWER.", "  ", "No answer is late [1].")
    assert [read_answer(text, TWO, 0.5).answered for text in texts] == [False, False, True]
