"""No caller learns anything of a document that its labels do not allow."""

import hashlib
import os
import random
from collections import Counter

import httpx
import pytest
import yaml
from fastmcp.client.transports import StreamableHttpTransport

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.assistant.released import ReleasedCorpus
from rag_pipeline.datamodels import ANYBODY, OPERATOR, Caller, SearchRequest
from rag_pipeline.errors import InputError
from rag_pipeline.serving.langchain import RagPipelineRetriever
from rag_pipeline_tests.testing.app_server import call_mcp, serving
from rag_pipeline_tests.testing.labelled import (
    LABELS,
    labelled_corpus,
    random_caller,
    random_question,
    seen_with,
)
from rag_pipeline_tests.testing.leaks import FILTERS, PATHS, http_paths, leaked, outcome

CASES = int(os.environ.get("RAG_LEAK_CASES", "120"))
REQUESTS = 160
COMPARED = [(), ("hr",), ("board",)]
"""Labels whose answers are compared with a corpus that has only their documents."""


@pytest.fixture(scope="module")
def own(corpus):
    return open_assistant([corpus])


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """Return an assistant for each of COMPARED over a corpus without the hidden documents."""
    folder = tmp_path_factory.mktemp("alone")
    made = {}
    for n, labels in enumerate(COMPARED):
        one = labelled_corpus(folder / str(n), sorted(seen_with(labels)), queries=None)
        # A release has one calibration for every caller.
        setattr(one, "calibration", corpus.calibration)  # noqa: B010
        made[frozenset(labels)] = open_assistant([one])
    return made


@pytest.mark.long
def test_nothing_leaks_in_the_process(own, alone):
    rng, done, compared = random.Random(7), Counter(), 0
    names, weights = zip(*((name, weight) for name, (weight, _) in PATHS.items()), strict=True)
    for _ in range(CASES):
        document = rng.choice([*LABELS])
        caller, labels = random_caller(rng)
        query, where = random_question(rng, document), rng.choice(FILTERS)
        (name,) = rng.choices(names, weights)
        said = outcome(name, own.seen_by(caller), query, document, where)
        case = (name, sorted(labels), query, document, where)
        assert leaked(said, labels, query, document, where) == set(), (case, said)
        other = alone.get(labels)
        if other is not None and name != "review":
            expected = outcome(name, other.seen_by(caller), query, document, where)
            assert said == expected, case
            compared += 1
        done[name] += 1
    assert set(done) == set(PATHS)
    assert compared > CASES / 10


def test_a_visible_document_is_found_by_each_path(own):
    """Or the test above would pass without any result."""
    board = own.seen_by(Caller(frozenset({"board"})))
    question = "How long does the periwinkle agreement last?"
    assert board.search(question, k=1)[0].document_id == "board/periwinkle.txt"
    assert "13 years" in board.ask(question).text
    assert board.find_document("board/periwinkle.txt")[1].title
    every = own.seen_by(OPERATOR).search("agreement", k=100)
    assert {chunk.document_id for chunk in every} == set(LABELS)
    for labels in ((), ("hr",), ("hr", "finance", "board")):
        seen = own.seen_by(Caller(frozenset(labels))).search("agreement", k=100)
        assert {chunk.document_id for chunk in seen} == seen_with(labels)


def test_a_cached_result_is_of_one_caller(corpus, monkeypatch):
    searched, retrieve = [], Corpus.retrieve

    def counted(self, request):
        searched.append(request.caller)
        return retrieve(self, request)

    monkeypatch.setattr(Corpus, "retrieve", counted)
    released = ReleasedCorpus(corpus)
    request = SearchRequest(query="How long do the agreements last?", k=50, is_neutral=True)
    callers = [OPERATOR, ANYBODY, Caller(frozenset({"hr"})), Caller(frozenset({"board"}))]
    found = [released.seen_by(caller).search(request) for caller in callers]
    assert searched == callers
    assert len({len(one.chunks) for one in found}) == 4
    again = [released.seen_by(caller).search(request) for caller in callers]
    assert again == found
    assert searched == callers


def test_langchain_finds_public_documents_unless_it_names_a_caller(corpus):
    def sources(**more):
        retriever = RagPipelineRetriever(corpus=corpus, k=100, **more)
        return {document.metadata["document_id"] for document in retriever.invoke("agreement")}

    assert sources() == seen_with(())
    assert sources(caller=Caller(frozenset({"legal"}))) == seen_with({"legal"})
    with pytest.raises(InputError, match="no dataset 'tiny' for this caller"):
        sources(caller=Caller(None, frozenset({"other"})))


TOKENS = {
    f"token-of-{'-'.join(labels) or 'nobody'}": labels
    for labels in [(), ("hr",), ("board", "legal"), ("finance",)]
}


@pytest.fixture(scope="module")
def callers_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("callers") / "callers.yaml"
    tokens = [
        {"sha256": hashlib.sha256(token.encode()).hexdigest(), "labels": [*labels]}
        for token, labels in TOKENS.items()
    ]
    digest = hashlib.sha256(b"token-of-a-stranger").hexdigest()
    tokens.append({"sha256": digest, "labels": "*", "corpora": ["other"]})
    digest = hashlib.sha256(b"token-of-the-operator").hexdigest()
    tokens.append({"sha256": digest, "labels": "*"})
    file.write_text(yaml.safe_dump({"tokens": tokens}))
    return file


@pytest.fixture(scope="module")
def server(own, callers_file):
    kept = callers_file.with_name("feedback.jsonl")
    with serving(own, callers=callers_file, review=True, feedback=kept) as running:
        yield running


@pytest.mark.long
def test_nothing_leaks_over_http(server):
    rng, statuses = random.Random(8), Counter()
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        for _ in range(REQUESTS):
            token, document = rng.choice([*TOKENS]), rng.choice([*LABELS])
            query, where = random_question(rng, document), rng.choice(FILTERS)
            path, body = rng.choice(http_paths(query, document, where))
            headers = {"Authorization": f"Bearer {token}"}
            verb = "GET" if body is None else "POST"
            reply = client.request(verb, path, json=body, headers=headers)
            case = (path, token, body, reply.text)
            assert leaked(reply.text, TOKENS[token], query, document, where) == set(), case
            statuses["/".join(path.split("/")[:3]), reply.status_code] += 1
    assert {path for path, status in statuses if status == 200} >= {
        "/v1/ask",
        "/v1/search",
        "/v1/vector_stores",
        "/v1/chat",
        "/v1/models",
        "/v1/feedback",
        "/v1/documents",
        "/v1/corpora",
        "/retrieval",
        "/health",
    }
    assert statuses["/api/review/next", 200] == statuses["/api/review/decide", 200] == 0


@pytest.mark.long
@pytest.mark.parametrize("token", TOKENS)
def test_nothing_leaks_over_mcp(server, token):
    rng = random.Random(token)

    async def work(client):
        for _ in range(REQUESTS // len(TOKENS)):
            document = rng.choice([*LABELS])
            query, where = random_question(rng, document), rng.choice(FILTERS)
            tools = [
                ("assistant", {"query": query, "where": where}),
                ("assistant", {"query": query, "document_name": document}),
                ("search_chunks", {"query": query, "where": where}),
                ("search_chunks", {"query": query, "document_name": document}),
                ("file_discover", {"query": query, "where": where, "do_file_rerank": True}),
                ("get_document", {"document_name": document}),
                ("list_datasets", {}),
                ("health", {}),
                ("resource", f"document://tiny/{document}"),
                ("resource", "datasets://all"),
            ]
            name, arguments = rng.choice(tools)
            try:
                if name == "resource":
                    said = str(await client.read_resource(arguments))
                else:
                    said = str(await client.call_tool(name, arguments, raise_on_error=False))
            except Exception as error:  # noqa: BLE001 - a client reads any error
                said = str(error)
            found = leaked(said, TOKENS[token], query, document, where)
            assert found == set(), (name, arguments, said)
            names.add(name)

    names: set[str] = set()
    headers = {"Authorization": f"Bearer {token}"}
    transport = StreamableHttpTransport(f"{server.url}/mcp", headers=headers)
    call_mcp(transport, work)
    assert len(names) == 7


def test_a_token_names_only_its_corpora(server):
    headers = {"Authorization": "Bearer token-of-a-stranger"}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as client:
        assert client.get("/v1/corpora").json() == {"corpora": []}
        for body in ({"query": "nutmeg?"}, {"query": "nutmeg?", "corpora": ["tiny"]}):
            for path in ("/v1/ask", "/v1/search"):
                reply = client.post(path, json=body)
                assert reply.status_code == 400
                assert "nutmeg" not in reply.text
        asked = {"knowledge_id": "tiny", "query": "nutmeg", "retrieval_setting": {"top_k": 1}}
        unknown = client.post("/retrieval", json={**asked, "knowledge_id": "no such corpus"})
        assert client.post("/retrieval", json=asked).json() == unknown.json()
        assert client.get("/v1/documents/open%2Fnutmeg.txt").status_code == 404
        assert client.get("/v1/models").json()["data"] == []
        found = client.post("/v1/vector_stores/tiny/search", json={"query": "nutmeg"})
        told = {"model": "tiny", "messages": [{"role": "user", "content": "nutmeg"}]}
        judged = {"query": "nutmeg", "corpus": "tiny", "verdict": "wrong"}
        statuses = [client.post("/v1/chat/completions", json=told).status_code]
        statuses.append(client.post("/v1/feedback", json=judged).status_code)
        assert [found.status_code, *statuses] == [404, 404, 400]


def test_counts_are_of_visible_chunks_and_review_needs_all(server):
    def datasets(token):
        reply = httpx.get(f"{server.url}/v1/corpora", headers=bearer(token))
        return reply.json()["corpora"][0]["chunks"]

    def bearer(token):
        return {"Authorization": f"Bearer {token}"}

    every, few = datasets("token-of-the-operator"), datasets("token-of-nobody")
    assert 0 < few < datasets("token-of-hr") < every
    url = f"{server.url}/api/review/next"
    assert "zanzibar" not in httpx.post(url, json={}, headers=bearer("token-of-board-legal")).text
    shown = httpx.post(url, json={}, headers=bearer("token-of-the-operator"))
    assert shown.json()["question"]["gold"]
    assert httpx.post(url, json={}, headers=bearer("no such token")).status_code == 401
