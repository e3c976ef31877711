"""The main job: run, run again, change, run again. The first two run the real Dagster assets."""

import json

import pytest

from rag_pipeline import Corpus
from rag_pipeline.cli.comparing import show_explanation
from rag_pipeline.config import load_config
from rag_pipeline.errors import InputError
from rag_pipeline.evaluation.explanation import diagnose
from rag_pipeline.evaluation.leaderboard import load_leaderboard
from rag_pipeline.evaluation.queries import update_queries
from rag_pipeline.evaluation.runs import left_out, load_queries, why_left_out
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import said
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    attributes,
    rule,
    write_corpus,
    write_documents,
    write_file,
)

KEYS = ("recursive_150", "recursive_150.none", "recursive_150.none.minilm")


def tables(workspace):
    yield workspace.chunks("recursive_150")
    for context in ("none", "structural"):
        yield workspace.contextualized_chunks(f"recursive_150.{context}")
        yield workspace.vector_index(f"recursive_150.{context}.minilm")


def versions(workspace):
    found = {table.name: table.version for table in tables(workspace)}
    return found | {"documents": workspace.documents().version}


def test_a_run_indexes_evaluates_and_releases_and_a_second_does_nothing(corpus_file, run_dagster):
    results = run_dagster(corpus_file)
    assert all(result.ran for result in results)
    corpus = Corpus.load(corpus_file)
    board = corpus.leaderboard()
    assert {row["name"] for row in board["configurations"]} == {"default", "plain"}
    for row in board["configurations"]:
        assert row["metrics"]["AnswerPresence@5"]["n"] == 4
        assert row["metrics"]["AnswerPresence@20"]["mean"] == 1.0
    best = corpus.search("When is a doctor's note needed?", k=1)[0]
    assert best.document_id == "policy/leave.md"
    assert best.text == DOCUMENTS["policy/leave.md"][best.start : best.end]

    workspace = Workspace(load_config(corpus_file))
    before, release = versions(workspace), Corpus.load(corpus_file).release()
    results = run_dagster(corpus_file)
    assert not any(result.ran for result in results)
    assert sum(result.calls.made for result in results) == 0
    assert versions(workspace) == before
    assert Corpus.load(corpus_file).release() == release


def test_only_what_changed_is_worked_on(tmp_path, built_file, run_dagster, monkeypatch):
    documents = tmp_path / "documents"
    edited = DOCUMENTS["nda/cedar.txt"].replace("two (2) years", "seven (7) years")
    write_documents(documents, {"nda/cedar.txt": edited, "policy/gifts.md": "# Gifts\n\nNone.\n"})
    (documents / "policy/leave.md").unlink()
    results = {str(r.step): r for r in run_dagster(built_file)}
    loaded = results["documents"].metadata
    assert (loaded["documents_worked_on"], loaded["documents_dropped"]) == (2, 1)
    for key in ("chunks recursive_150", "vector_index recursive_150.none.minilm"):
        assert results[key].metadata["documents_worked_on"] == 2
        assert results[key].metadata["documents_dropped"] == 1

    workspace = Workspace(load_config(built_file))
    left = {"nda/acme.txt", "nda/cedar.txt", "policy/gifts.md", "policy/travel.md"}
    for table in tables(workspace):
        assert set(table.state()) == left, table.name
        rows = [r for b in table.read(["document_id", "text"]) for r in b.to_pylist()]
        assert not any("two (2) years" in row["text"] for row in rows), table.name
        assert any("seven (7) years" in row["text"] for row in rows), table.name
    corpus = Corpus.load(built_file)
    found = corpus.search("how long confidentiality lasts", k=20)
    assert any("seven (7) years" in chunk.text for chunk in found)
    assert not any("two (2) years" in chunk.text for chunk in found)
    found = corpus.search("doctor's note sickness", k=20)
    assert "policy/leave.md" not in {chunk.document_id for chunk in found}
    assert corpus.leaderboard()["queries_left_out"] == 1
    assert left_out(workspace).startswith("1 of 4 queries is left out")
    assert any("1 of 4 queries is left out" in reason for reason in corpus.release().reasons)
    (lost,) = {"q1", "q2", "q3", "q4"} - {q.query_id for q in load_queries(workspace)}
    assert why_left_out(workspace, lost) == ['gold_spans.0: "policy/leave.md" was deleted']
    update_queries(workspace)
    assert why_left_out(workspace, lost) == ['gold_spans.0: "policy/leave.md" was deleted']
    monkeypatch.setattr("rag_pipeline.cli.plan.update_queries", None)  # the gold is resolved
    assert "1 of 4 queries is left out" in said("plan", built_file)
    with pytest.raises(InputError, match=f"query '{lost}' is left out and not measured"):
        show_explanation(built_file, lost, None, 5, as_json=False)
    before = (tmp_path / "queries.jsonl").read_text().splitlines()
    assert "dropped 1 question; " in said("questions", "drop", built_file)
    (gone,) = (tmp_path / "queries.dropped.jsonl").read_text().splitlines()
    assert json.loads(gone)["query_id"] == lost
    kept = (tmp_path / "queries.jsonl").read_text().splitlines()
    assert kept == [line for line in before if line != gone]
    assert "nothing was dropped" in said("questions", "drop", built_file)


def test_a_changed_setting_rebuilds_its_own_partitions_only(tmp_path, built_file, run_all):
    changed: dict[str, dict[str, object]] = {
        "recursive_150": {"method": "recursive", "max_characters": 150},
        "markdown": {"method": "markdown"},
        "semantic": {"method": "semantic", "threshold": 1.0, "min_characters": 20},
    }
    third = rule("third", chunking="semantic")
    configurations = [*attributes()["configurations"], third]
    write_file(tmp_path, chunkings=changed, configurations=configurations)
    ran = {str(r.step) for r in run_all(built_file) if r.ran}
    assert ran == {
        "chunks semantic",
        "contextualized_chunks semantic.none",
        "vector_index semantic.none.minilm",
        "retrieval_run third",
        "answer_presence third",
        "answers third",
        "entity_scores third",
        "context_scores third",
        "leaderboard",
    } | ({"release"} & ran)

    changed["semantic"]["threshold"] = 0.5
    write_file(tmp_path, chunkings=changed, configurations=configurations)
    results = {str(r.step): r for r in run_all(built_file)}
    assert results["chunks semantic"].calls.made == 0, "no sentence is embedded again"
    assert results["chunks semantic"].calls.saved > 0
    assert not results["chunks recursive_150"].ran


def test_without_queries_the_first_configuration_is_served(tmp_path, run_all):
    file = write_corpus(tmp_path, queries=None)
    run_all(file)
    corpus = Corpus.load(file)
    assert corpus.release().reasons == ("the first configuration, because no query has gold",)
    assert corpus.release().configuration == "default"
    assert corpus.search("hotel", k=1)[0].document_id == "policy/travel.md"


def test_documents_that_are_gold_as_a_whole_choose_gate_and_explain(tmp_path, run_all):
    gold = {"How expensive may a hotel be?": "policy/travel.md", "Sick leave?": "policy/leave.md"}
    lines = [
        {"query_id": i, "query": question, "gold_spans": [{"document_id": d}]}
        for i, (question, d) in enumerate(gold.items())
    ]
    file = write_corpus(tmp_path)
    config = load_config(file)
    config.queries_path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    run_all(file)
    workspace = Workspace(load_config(file))
    board = load_leaderboard(workspace)
    assert board.sorted_by == "DocumentPresence@5"
    found = board.configurations[0].summary("DocumentPresence@5")
    assert (found.mean, found.n, found.missing) == (1.0, 2, 0)
    assert board.configurations[0].summary("AnswerPresence@5").n == 0
    reason = Corpus.load(file).release().reasons[0]
    assert "of 2 configurations is surely better than default " in reason
    assert "in DocumentPresence@5 (1.0000 over 2 queries), so the first of the" in reason
    asked = load_queries(workspace)[0]
    explained = diagnose(workspace, board.configurations[0].name, [asked.query_id])[0]
    assert asked.gold_documents[0] in explained.why
