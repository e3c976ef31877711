"""Candidates that were not measured, or on other questions, from documents to refusal."""

import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import CheckFailedError
from rag_pipeline.release import gate_decision
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
        with pytest.raises(CheckFailedError, match="AnswerPresence@5: refused: it is missing on 4"):
            list(run(load_config(file)))
        assert Corpus.load(file).release() == first
        decision = gate_decision(Workspace(load_config(file)))
        assert not decision.allowed
        assert "DocumentPresence@5" not in decision.metrics

        replies["judge"] = "YES"
        list(run(load_config(file)))
        assert Corpus.load(file).release().release_id == "release-000002"


def test_a_release_of_other_questions_is_compared_only_if_the_gate_is_opened(tmp_path, built_file):
    attributes = {"gate": {"minimum_queries": 3}}
    write_file(tmp_path, **attributes)
    records = read_questions(tmp_path)
    renamed = [{**r, "query_id": f"renamed-{r['query_id']}"} for r in records]
    write_questions(tmp_path, renamed)
    first = Corpus.load(built_file).release()
    with pytest.raises(CheckFailedError, match="restore the ids and texts of its questions, or"):
        list(run(load_config(built_file)))
    assert Corpus.load(built_file).release() == first

    write_questions(tmp_path, records)
    list(run(load_config(built_file)))
    assert gate_decision(Workspace(load_config(built_file))).allowed

    write_questions(tmp_path, renamed)
    write_file(tmp_path, gate={"metrics": []})
    list(run(load_config(built_file)))
    write_file(tmp_path, **attributes)
    list(run(load_config(built_file)))
    assert gate_decision(Workspace(load_config(built_file))).allowed
    assert Corpus.load(built_file).release().release_id == "release-000002"
