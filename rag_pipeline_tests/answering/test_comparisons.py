import numpy as np
import pytest

from rag_pipeline.answering import agreement
from rag_pipeline.answering.comparisons import _compared
from rag_pipeline.answering.forms import form_answers
from rag_pipeline.answering.reading import sentence_vectors
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import Citation, SearchResult
from rag_pipeline_tests.testing.chunking import scored

PENSION = "The Company contributes seven percent of salary to the pension."

PREAMBLE = "This contract is made between {} (the “Company”) and {} (the “Employee”)."
LAY_UP = "The price of the standard lay-up for engines up to 30 hp is £{}, without parts."


def test_a_row_of_a_comparison_has_at_most_four_quotes():
    quoted = [Citation(n, "a.md#0-9", "a.md", n, n + 1, str(n)) for n in range(1, 7)]
    answer = _compared([("a.md", quoted), ("b.md", quoted[:1])], 0.9)
    assert [row.text for row in answer.table] == ["“1” [1] “2” [2] “3” [3] “4” [4]", "“1” [5]"]
    assert [citation.number for citation in answer.citations] == [1, 2, 3, 4, 5]


def test_a_document_that_says_nothing_of_what_is_compared_has_an_empty_cell():
    chunks = [
        scored("ann.txt", f"{PREAMBLE.format('Brennwater', 'Ann Lee')} {PENSION}", 1.0),
        scored("bob.txt", f"{PREAMBLE.format('Tessavine', 'Bob Ray')} Desks are shared.", 0.9),
        scored("lunch.txt", "The canteen opens at noon.", 0.8),
    ]
    query = "Compare the pension money that Brennwater and Tessavine pay for Ann Lee and Bob Ray."
    found = SearchResult(query=query, chunks=chunks, kind="comparison")
    (answer,) = form_answers([found], ExtractiveAnswers(confidence=0), sentence_vectors)
    assert [row.document_id for row in answer.table] == ["Brennwater", "Tessavine"]
    assert answer.table[0].text == f"“{PREAMBLE.format('Brennwater', 'Ann Lee')} {PENSION}” [1]"
    assert (answer.table[1].text, answer.table[1].number) == (
        "— (nothing found about Tessavine)",
        None,
    )


@pytest.mark.parametrize("weights", [None, np.ones(40_000, np.float32)], ids=["e5", "minilm"])
@pytest.mark.parametrize(
    ("other", "text", "rows"),
    [
        ("checklist-2025.md", LAY_UP.format(265), ["checklist-2026.md", "checklist-2025.md"]),
        ("checklist-DRAFT.md", LAY_UP.format(265), ["checklist-2026.md"]),
        ("tea.md", "Tea for visitors costs £2 at the hatch.", ["checklist-2026.md"]),
    ],
)
def test_the_other_side_of_a_comparison_is_searched_for_with_the_first(
    other, text, rows, weights, monkeypatch
):
    query = "What did the standard engine lay-up cost last year and what is it this year?"
    chunks = [scored("checklist-2026.md", LAY_UP.format(285))]
    found = SearchResult(query=query, chunks=chunks, kind="comparison", token_weights=weights)
    if weights is not None:  # the multilingual model stays closed
        monkeypatch.setattr(agreement, "multilingual", None)
    asked = []

    def search(sought):
        asked.append(sought)
        return [*([scored(other, text)] if sought == LAY_UP.format(285) else []), *found.chunks]

    settings = ExtractiveAnswers(confidence=0)
    (answer,) = form_answers([found], settings, sentence_vectors, search=search)
    halves = ["What did the standard engine lay-up cost last year"]
    assert asked == [*halves, f"{halves[0]} is it this year", LAY_UP.format(285)]
    assert [row.document_id for row in answer.table if row.number] == rows


@pytest.mark.parametrize(
    ("question", "kind", "quoted"),
    [
        ("How long may we party, old rules or new?", "general", ["rules-2024.md", "rules-2026.md"]),
        ("May we party longer than in 2024?", "comparison", ["rules-2024.md", "rules-2026.md"]),
        ("Until when may we party?", "general", ["rules-2026.md"]),
    ],
)
def test_old_and_new_versions_answer_with_the_sentence_that_changed(question, kind, quoted):
    same = "A party needs a licence from the council."
    chunks = [
        scored(f"rules-{year}.md", f"{same} A party may last until {hour}:30.", score)
        for year, hour, score in ((2026, 23, 1.0), (2024, 22, 0.9))
    ]
    found = SearchResult(query=question, chunks=chunks, kind=kind)
    (answer,) = form_answers([found], ExtractiveAnswers(confidence=0), sentence_vectors)
    assert sorted({cited.document_id for cited in answer.citations}) == quoted
    changed = [cited.text for cited in answer.citations if "until" in cited.text]
    assert len(changed) == len(quoted)


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("Compare Ulm and Paris.", {"Ulm": "12 people", "Paris": None}),
        ("Compare the rent in Paris\nand  Lyon.", {"Paris": None, "Lyon": "9 people"}),
        ("How many people has Ulm, and how many has Rome?", {"Ulm": "12 people", "Rome": None}),
        ("Compare the revenue of Acme and Brightwater.", {"Acme": "million", "Brightwater": None}),
        ("Was Acme's revenue higher in 2024 than in 2022?", {"2024": "7 million", "2022": None}),
        ("Compare the staff of Acme in 2023 and 2025.", {"2023": "5 million", "2025": None}),
        ("Vergleiche die Miete in Ulm und Paris.", {"Ulm": "12 people", "Paris": None}),
        ("Compare Plan A and Plan B.", {"Plan A": "one key", "Plan B": "two keys"}),
    ],
)
def test_a_side_that_no_passage_names_has_an_empty_row(question, rows):
    texts = {
        "ulm.md": "The office in Ulm has 12 people. The rent in Ulm is 900 EUR.",
        "lyon.md": "The office in Lyon has 9 people. The rent in Lyon is 1100 EUR.",
        "report-2023.md": "Acme had a revenue of 5 million EUR. The staff of Acme was 40.",
        "report-2024.md": "Acme had a revenue of 7 million EUR. The staff of Acme was 55.",
        "a.md": "The customers of plan A get one key.",
        "b.md": "The customers of plan B get two keys.",
    }
    chunks = [scored(name, text) for name, text in texts.items()]
    found = SearchResult(query=question, chunks=chunks, kind="comparison")
    (answer,) = form_answers([found], ExtractiveAnswers(confidence=0), sentence_vectors)
    assert [row.document_id for row in answer.table] == list(rows)
    for row, said in zip(answer.table, rows.values(), strict=True):
        assert (said or f"— (nothing found about {row.document_id})") in row.text
        cited = [c.document_id for c in answer.citations if f"[{c.number}]" in row.text]
        assert len({*cited}) == bool(said)


def test_both_parts_of_a_question_are_answered():
    texts = ["Bob Ray is the captain of the club.", "The captain is elected in May each year."]
    others = ["The office in Ulm opens at 8:00.", "Tea for visitors costs 2 EUR at the hatch."]
    query = "Who is the captain of the club, and when is the captain elected?"
    found = SearchResult(query=query, chunks=[scored(text, text) for text in texts + others])
    settings = ExtractiveAnswers(confidence=0, sentences=1)
    (answer,) = form_answers([found], settings, sentence_vectors)
    assert [c.text for c in answer.citations] == texts
