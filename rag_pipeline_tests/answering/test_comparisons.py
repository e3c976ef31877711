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
    assert [row.document_id for row in answer.table] == ["ann.txt", "bob.txt"]
    assert answer.table[0].text == f"“{PREAMBLE.format('Brennwater', 'Ann Lee')} {PENSION}” [1]"
    assert (answer.table[1].text, answer.table[1].number) == ("—", None)


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
