import hashlib
import json

import httpx
import pytest

from rag_pipeline.assistant import ReleasedCorpus
from rag_pipeline.assistant.corpora import with_releases
from rag_pipeline.errors import StoreError
from rag_pipeline_tests.testing.corpora import DOCUMENTS

HOTEL = {"query": "How expensive may a hotel be?"}


def events_of(reply):
    """Return the events of a stream as pairs of name and record."""
    blocks = [block.splitlines() for block in reply.text.replace("\r\n", "\n").split("\n\n")]
    fields = [dict(line.split(": ", 1) for line in b if not line.startswith(":")) for b in blocks]
    return [(one["event"], json.loads(one["data"])) for one in fields if "data" in one]


@pytest.fixture
def client(serving):
    with httpx.Client(base_url=serving().url, timeout=60, trust_env=False) as client:
        yield client


def test_passages_have_their_release_and_place(client):
    found = client.post("/v1/search", json={**HOTEL, "k": 2}).json()
    (release,) = found["releases"]
    assert (release["corpus"], release["release"]) == ("tiny", "release-000001")
    first = found["passages"][0]
    text = DOCUMENTS[first["document_id"]]
    assert first["document_id"] == "policy/travel.md"
    assert text[first["start"] : first["end"]] == first["text"]
    assert first["place"]["label"]
    assert len(found["passages"]) == 2
    only = {**HOTEL, "where": "document_id LIKE 'nda/%'", "corpora": ["tiny"]}
    kept = client.post("/v1/search", json=only).json()["passages"]
    assert kept and all(p["document_id"].startswith("nda/") for p in kept)


def test_an_answer_names_release_document_and_span(client):
    made = client.post("/v1/ask", json=HOTEL).json()
    assert made["answered"] and "180 euros" in made["text"]
    source, (release,) = made["sources"][0], made["releases"]
    text = DOCUMENTS["policy/travel.md"]
    assert source["content_hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert text[source["start"] : source["end"]] == source["text"]
    assert source["chunk_id"].startswith("policy/travel.md#")
    assert release["release"] == "release-000001" and release["configuration"]


def test_a_streamed_answer_is_the_same_answer_after_its_stages(client):
    whole = client.post("/v1/ask", json=HOTEL).json()
    reply = client.post("/v1/ask", json={**HOTEL, "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    *stages, (name, made) = events_of(reply)
    assert [stage["name"] for _, stage in stages] == ["intent", "search", "answer", "citations"]
    assert name == "answer"
    assert {**made, "trace": []} == {**whole, "trace": []}


def test_a_question_before_completes_a_question(client):
    asked = {"query": "And the Cedar NDA?"}
    turns = ["Which law governs the Acme NDA?"]
    made = client.post("/v1/ask", json={**asked, "turns": turns}).json()
    assert made["query"] == asked["query"]
    assert made["trace"][0]["detail"]["rewritten"] == "Which law governs the Cedar NDA?"
    alone = client.post("/v1/ask", json=asked).json()
    assert "rewritten" not in alone["trace"][0]["detail"]


def test_a_document_is_read_in_parts(client):
    text = DOCUMENTS["policy/leave.md"]
    part = {"start": 10, "characters": 20, "corpus": "tiny"}
    made = client.get("/v1/documents/policy%2Fleave.md", params=part).json()
    assert (made["text"], made["next_start"], made["characters"]) == (text[10:30], 30, len(text))
    whole = client.get("/v1/documents/policy/leave.md").json()
    assert (whole["text"], whole["next_start"]) == (text, None)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/v1/search", {}, 422, "query: Field required"),
        ("POST", "/v1/search", {"query": "a", "k": 101}, 422, "k: "),
        ("POST", "/v1/search", {"query": "a", "corpora": ["other"]}, 400, "no dataset 'other'"),
        ("POST", "/v1/search", {"query": "a", "where": "no_column = 1"}, 400, "no_column"),
        ("POST", "/v1/ask", {"query": "a", "stream": True, "corpora": ["x"]}, 400, "no dataset"),
        ("POST", "/v1/ask", {"query": "a", "turns": ["b"] * 21}, 422, "turns: "),
        ("POST", "/v1/ask", {"query": "a", "streams": 1}, 422, "streams: "),
        ("GET", "/v1/documents/none.txt", None, 404, "no document 'none.txt'"),
        ("GET", "/v1/documents/policy/leave.md?start=-1", None, 422, "start: "),
        ("GET", "/v1/documents/policy/leave.md?begin=1", None, 422, "begin: "),
        ("GET", "/v1/pages/policy/leave.md", None, 404, "no pages"),
    ],
)
def test_a_refusal_names_the_field(client, method, path, body, status, message):
    reply = client.request(method, path, json=body)
    assert reply.status_code == status
    assert message in reply.json()["error"]
    assert reply.json()["request_id"] == reply.headers["x-request-id"]


def test_a_failure_after_the_first_stage_is_the_last_event(client, own, monkeypatch):
    def fail(self, request, chosen):
        raise StoreError("/secret/folder/index.lance: torn")

    monkeypatch.setattr(type(own), "merged_search", fail)
    *_, (name, failed) = events_of(client.post("/v1/ask", json={**HOTEL, "stream": True}))
    assert (name, failed["error"]) == ("error", "index.lance: torn")


def test_a_release_that_is_opened_meanwhile_answers_as_a_whole(own):
    (corpus,) = own.corpora.values()
    first = corpus.released()
    second = first.model_copy(update={"release": "release-000002", "released": "later"})
    shown, made = [first, second], []

    class Switching(ReleasedCorpus):
        def released(self):
            return shown[0]

    switching = Switching(corpus.corpus)

    def work():
        made.append(shown[0].release)
        if len(shown) > 1:
            shown.pop(0)
        return len(made)

    assert with_releases([switching], work) == (2, (second,))
    assert made == ["release-000001", "release-000002"]


def test_questions_and_ids_of_documents_are_not_logged(client, caplog):
    caplog.set_level("INFO", "rag_pipeline.serving")
    client.get("/v1/documents/policy%2Fleave.md")
    client.get("/v1/pages/policy%2Fleave.md?page=1")
    logged = " ".join(record.message for record in caplog.records)
    assert logged.count("/v1/documents/") == 1
    assert "leave" not in logged
