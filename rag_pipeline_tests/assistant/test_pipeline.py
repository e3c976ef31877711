from dataclasses import replace
from typing import Any

import pytest

from rag_pipeline.assistant import Assistant, Intent, Reflection, ReleasedCorpus, sentence_vectors
from rag_pipeline.config import AssistantSettings
from rag_pipeline.datamodels import Answer, Citation
from rag_pipeline.errors import InputError
from rag_pipeline_tests.testing.corpora import DOCUMENTS


def test_a_clause_is_quoted_with_a_verified_source(assistant):
    made = assistant.ask("When is a doctor's note needed?")
    assert made.answered
    assert made.intent.kind == "clause_lookup"
    first = made.sources[0]
    assert first.document_id == "policy/leave.md"
    assert "doctor's note is needed from the third day" in first.text
    assert DOCUMENTS["policy/leave.md"][first.start : first.end] == first.text
    assert first.verified and not made.problems
    assert f"“{' '.join(first.text.split())}” [1]" in made.text
    assert [s.name for s in made.trace] == ["intent", "search", "answer", "citations"]


def test_a_comparison_has_a_row_a_document_each_from_its_own_text(assistant):
    made = assistant.ask("Compare how long confidentiality lasts in the agreements.")
    assert made.intent.kind == "comparison"
    rows = {row.document_id: row for row in made.table}
    assert "five (5) years" in rows["nda/acme.txt"].text
    assert "two (2) years" in rows["nda/cedar.txt"].text
    of_number = {s.number: s.document_id for s in made.sources}
    assert all(of_number[row.number] == row.document_id for row in made.table if row.number)
    assert made.text.startswith("| compared | what it says |")


def test_a_listing_reads_more_passages(assistant):
    made = assistant.ask("List all governing laws.")
    assert made.intent.kind == "comprehensive"
    assert len(made.passages) > len(assistant.ask("Which law governs the Acme NDA?").passages)
    assert {"nda/acme.txt", "nda/cedar.txt"} <= {s.document_id for s in made.sources}
    assert all(line.startswith("- “") for line in made.text.splitlines())


def test_nothing_is_made_up_and_neutral_queries_are_tried_for_a_definition(assistant):
    made = assistant.ask("What does xylophone zeppelin quartz mean?")
    assert not made.answered
    assert made.sources == ()
    answer = next(s for s in made.trace if s.name == "answer")
    assert answer.detail["neutral_queries"] == ["definitions", "glossary"]
    other = assistant.ask("xylophone zeppelin quartz")
    assert not other.answered
    assert "neutral_queries" not in next(s for s in other.trace if s.name == "answer").detail


def test_what_the_assistant_itself_asks_is_searched_once_a_release(
    released, assistant, monkeypatch
):
    searched = []
    search = released.retrieve

    def counted(request):
        searched.append(request.query)
        return search(request)

    monkeypatch.setattr(released, "retrieve", counted)
    first = assistant.ask("What does xylophone zeppelin mean?")
    again = assistant.ask("What does vibraphone airship mean?")
    assert searched.count("definitions") == searched.count("glossary") == 1
    assert searched[-1] == "What does vibraphone airship mean?"
    assert again.passages and not first.answered
    newer = replace(released.release(), release_id="release-000099")
    monkeypatch.setattr(released, "searched_with_note", lambda: (newer, ""))
    assistant.ask("What does xylophone zeppelin mean?")
    assert searched.count("definitions") == 2


def test_one_document_can_be_asked_alone(assistant):
    made = assistant.ask("How long does confidentiality last?", document_id="nda/cedar.txt")
    assert {p.document_id for p in made.passages} == {"nda/cedar.txt"}
    assert "two (2) years" in made.text


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "  "},
        {"query": "x" * 4001},
        {"query": "how?", "corpora": ["other"]},
        {"query": "how?", "document_id": "../../etc/passwd"},
        {"query": "how?", "document_id": "nda/none' OR '1'='1"},
    ],
)
def test_what_is_not_there_is_refused(assistant, arguments):
    with pytest.raises(InputError):
        assistant.ask(**arguments)


def test_documents_are_discovered(assistant):
    found = assistant.discover("parental leave", k=2)
    assert found[0].document_id == "policy/leave.md"
    assert len(found) == 2


def test_corpora_are_searched_together(released):
    class Renamed(ReleasedCorpus):
        def __init__(self, corpus, name):
            super().__init__(corpus)
            self.name = name

    corpora = {name: Renamed(released, name) for name in ("one", "two")}
    both = Assistant(corpora=corpora, settings=AssistantSettings(), reader=sentence_vectors)
    passages = both.search("hotel price", k=4)
    assert [p.corpus for p in passages[:2]] == ["one", "two"]
    assert {p.corpus for p in both.search("hotel price", ["two"])} == {"two"}


class _Careless:
    """A model that cites badly; its wrong citations must be flagged."""

    def rewrite(self, query, turns=()):
        return f"rewritten {query}"

    def detect(self, query):
        return Intent("general", "legal", ())

    def keywords(self, query, document_id, texts, instructions):
        return [f"{query} {instructions}"]

    def answer(self, query, intent, chunks, instructions):
        chunk = chunks[0]
        good = Citation(1, chunk.chunk_id, chunk.document_id, chunk.start, chunk.end, chunk.text)
        moved = replace(good, number=2, start=chunk.start + 1)
        made_up = replace(good, number=3, chunk_id="none#0-9", document_id="none")
        return Answer("Said [1] [2] [3].", True, (good, moved, made_up))

    def reflect(self, query, intent, answer, chunks, instructions):
        if "better" in answer.text:
            return Reflection({"grounded": True})
        return Reflection({"grounded": False}, replace(answer, text="better"))


def careless(released, **settings):
    model: Any = _Careless()
    return Assistant(
        corpora={"tiny": ReleasedCorpus(released)},
        settings=AssistantSettings(**settings),
        reader=sentence_vectors,
        model=model,
    )


def test_a_models_citations_are_held_against_the_documents(released):
    assistant = careless(released, chat="any", reflections=3, rewrite_queries=True, variants=1)
    made = assistant.ask("hotel price", instructions="night")
    assert [s.verified for s in made.sources] == [True, False]
    assert [p.split("]")[0] for p in made.problems] == ["[2", "[3"]
    assert made.text == "better"
    steps = [s.name for s in made.trace]
    assert steps.count("reflection") == 2
    assert made.trace[0].detail["rewritten"] == "rewritten hotel price"
    assert made.trace[1].detail["boosted_queries"]["policy/travel.md"] == [
        "rewritten hotel price night"
    ]


def test_a_document_is_read_once_for_all_its_citations(released, monkeypatch):
    read = []
    document = released.document

    def counted(document_id, caller):
        read.append(document_id)
        return document(document_id, caller)

    monkeypatch.setattr(released, "document", counted)
    made = careless(released).ask("hotel")
    assert [s.document_id for s in made.sources] == 2 * read


def test_a_follow_up_question_is_answered_with_the_turns_before(assistant):
    made = assistant.ask("And the Cedar NDA?", turns=["Which law governs the Acme NDA?"])
    assert made.query == "And the Cedar NDA?"
    assert made.trace[0].detail["rewritten"] == "Which law governs the Cedar NDA?"
    assert made.sources[0].document_id == "nda/cedar.txt"
    by_sea = replace(made, query="And in Warnemünde?", answered=False)
    assert by_sea.nearest_said == "The nearest passages, which may not answer it:"
    assert by_sea.confidence_said.startswith("Confidence that the documents answer it: ")
