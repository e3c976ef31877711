"""Each interface tells of a rollback, in a field beside the passages."""

import httpx
import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.datamodels import OPERATOR
from rag_pipeline.release.manifest import CURRENT
from rag_pipeline.serving import local
from rag_pipeline.serving.langchain import RagPipelineRetriever
from rag_pipeline.store import Store
from rag_pipeline_tests.testing import app_server

QUESTION = "How expensive may a hotel be?"


def roll_back(corpus):
    """Serve the only release as after a rollback from a newer one. Return the note."""
    store, created = corpus.workspace.store, corpus.release().created[:10]
    content = {"release_id": "release-000001", "rolled_back": "2026-01-02T03:04:05+00:00"}
    store.write_json(CURRENT, content)
    of = f"release-000001 of {created}"
    return f"rolled back on 2026-01-02: answers come from {of}, without newer documents"


def test_each_interface_tells_of_a_rollback(built_file):
    corpus = Corpus.load(built_file)
    note = roll_back(corpus)
    setting = {"top_k": 2}
    dify = {"knowledge_id": "tiny", "query": QUESTION, "retrieval_setting": setting}
    with app_server.serving(open_assistant([corpus])) as server:

        def post(path, **body):
            return httpx.post(f"{server.url}{path}", json=body).raise_for_status().json()

        found, answer = (post(path, query=QUESTION) for path in ("/v1/search", "/v1/ask"))
        page = post("/v1/vector_stores/tiny/search", query=QUESTION)
        segments = post("/retrieval", **dify)["records"]
        told = app_server.call_mcp(
            f"{server.url}/mcp", lambda c: c.call_tool("search_chunks", {"query": QUESTION})
        ).structured_content["result"]
    assert [of["releases"][0]["note"] for of in (found, answer, page)] == [note] * 3
    assert answer["warnings"] == [note]
    assert {one["metadata"]["note"] for one in segments} == {note}
    assert {one["note"] for one in told} == {note}
    documents = RagPipelineRetriever(corpus=corpus, caller=OPERATOR).invoke(QUESTION)
    assert {one.metadata["note"] for one in documents} == {note}
    assert local.search(corpus, QUESTION, 3, None, None)["unread"] == [note]
    texts = [one["text"] for one in (*found["passages"], *told)]
    texts += [one["content"] for one in segments] + [one.page_content for one in documents]
    texts += [one["content"][0]["text"] for one in page["data"]] + [answer["text"]]
    assert len(texts) > 10
    assert not any("rolled back" in text for text in texts)


@pytest.fixture
def read(monkeypatch):
    """Return a list that gets the path of each file that a store reads as JSON."""
    paths, read_json = [], Store.read_json

    def watched(self, path):
        paths.append(path)
        return read_json(self, path)

    monkeypatch.setattr(Store, "read_json", watched)
    return paths


def test_the_note_is_of_the_open_release(built_file, read, monkeypatch):
    corpus = Corpus.load(built_file)
    corpus.is_server = True
    assistant = open_assistant([corpus])
    assert assistant.ask(QUESTION).warnings == ()
    monkeypatch.setattr(corpus, "_next_look", float("inf"))
    note = roll_back(corpus)
    read.clear()
    for ask in (assistant.ask, assistant.ask, assistant.search):
        ask(QUESTION)
    assert assistant.ask(QUESTION).warnings == ()
    assert read == [], "neither a search nor a kept answer reads the pointer"
    monkeypatch.setattr(corpus, "_next_look", 0.0)
    made = assistant.ask(QUESTION)
    assert (made.warnings, made.releases[0].note) == ((note,), note)
    assert corpus.opened().note == note
