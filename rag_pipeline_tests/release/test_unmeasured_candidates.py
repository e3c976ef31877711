"""Candidates that were not measured, or on other questions, from documents to refusal."""

import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import CheckFailedError
from rag_pipeline.release.candidate import gate_decision, served_reference
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    read_questions,
    rule,
    write_corpus,
    write_documents,
    write_file,
    write_questions,
)
from rag_pipeline_tests.testing.model_server import serving


def test_a_build_whose_judgements_all_failed_is_not_released(tmp_path, monkeypatch):
    """Gold still says that each document is found. The judge says nothing of the new texts."""
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)
    replies = {"judge": "YES"}
    with serving(lambda body: replies["judge"]) as server:
        chat = {"provider": "openai", "model": "m", "base_url": server.url, "patience_seconds": 0.3}
        file = write_corpus(
            tmp_path,
            chats={"small": chat},
            evaluation={"relevance": {"judge": "llm", "chat": "small", "passages": 5}},
            configurations=[rule("one")],
        )
        list(run(load_config(file)))
        first = Corpus.load(file).release()
        assert first.metrics["AnswerPresence@5"]["mean"] == 1.0

        replies["judge"] = "Perhaps?"
        changed = {n: t.replace("\n\n", "\n\nAs amended, ") for n, t in DOCUMENTS.items()}
        write_documents(tmp_path / "documents", {n: f"Amended. {t}" for n, t in changed.items()})
        refused = "AnswerPresence@5: refused: the candidate lacks 4"
        with pytest.raises(CheckFailedError, match=refused):
            list(run(load_config(file)))
        assert Corpus.load(file).release() == first
        decision = gate_decision(workspace := Workspace(load_config(file)))
        assert [*served_reference(workspace).scores["AnswerPresence@5"].values()] == [1.0] * 4
        assert not decision.allowed
        assert "DocumentPresence@5" not in decision.metrics

        replies["judge"] = "YES"
        list(run(load_config(file)))
        assert Corpus.load(file).release().release_id == "release-000002"


def test_other_questions_are_compared_on_the_same_build_and_refused_on_another(
    tmp_path, built_file
):
    write_file(tmp_path, gate={"minimum_queries": 3})
    records = read_questions(tmp_path)
    renamed = [{**r, "query_id": f"renamed-{r['query_id']}"} for r in records]
    write_questions(tmp_path, renamed)
    list(run(load_config(built_file)))
    second = Corpus.load(built_file).release()
    assert second.release_id == "release-000002"
    assert second.gate["common"] == second.gate["queries"] == len(records)

    write_questions(tmp_path, records)
    documents = {name: f"Amended. {text}" for name, text in DOCUMENTS.items()}
    write_documents(tmp_path / "documents", documents)
    list(run(load_config(built_file)))
    third = Corpus.load(built_file).release()
    assert third.gate["common"] == len(records), "other ids of the same texts"

    others = [{**r, "query": f"Please: {r['query']}"} for r in records]
    write_documents(tmp_path / "documents", DOCUMENTS)
    for kept, reason in ((1, "compared on only 1 of the release's 4"), (0, "restore the texts of")):
        write_questions(tmp_path, records[:kept] + others[kept:])
        with pytest.raises(CheckFailedError, match=reason):
            list(run(load_config(built_file)))
    assert Corpus.load(built_file).release() == third

    write_file(tmp_path, gate={"metrics": []})
    list(run(load_config(built_file)))
    assert Corpus.load(built_file).release().release_id == "release-000004"
