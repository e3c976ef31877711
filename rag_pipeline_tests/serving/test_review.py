"""The question log and the review page of a server that was started with them."""

import json
import stat
from pathlib import Path

import httpx
import pytest

from rag_pipeline.assistant import open_assistant
from rag_pipeline.corpus import Corpus
from rag_pipeline.loading.queries import read_queries
from rag_pipeline_tests.testing import app_server
from rag_pipeline_tests.testing.app_server import call_mcp
from rag_pipeline_tests.testing.browser import needs_chromium
from rag_pipeline_tests.testing.corpora import copy_corpus

GOLD = {"document_id": "policies/leave.md", "start": 0, "end": 40}


@pytest.fixture
def served(released, tmp_path: Path):
    """A server of a released corpus with two synthetic questions, and its queries file."""
    folder = tmp_path / "corpus"
    copy_corpus(released.config.path("."), folder)
    queries = folder / "queries.jsonl"
    document = next(iter(released.workspace.documents().state()))
    gold = {**GOLD, "document_id": document}
    row = {"gold_spans": [gold], "answer": "so", "synthetic": True, "tags": ["date"]}
    with queries.open("a") as file:
        for n in (1, 2):
            file.write(json.dumps({**row, "query_id": f"s{n}", "query": f"Is it so, {n}?"}) + "\n")
    corpus = Corpus.load(folder / released.config.where.rsplit("/", 1)[-1])
    log = tmp_path / "asked.jsonl"
    with app_server.serving(open_assistant([corpus]), log_questions=log, review=True) as server:
        yield server, queries, log


def test_questions_are_kept_where_a_file_is_named(served) -> None:
    server, _, log = served
    assert httpx.post(f"{server.url}/v1/ask", json={"query": "How long?"}).status_code == 200
    asked = {"query": "And in Lyon?", "turns": ["Who pays in Porto?"]}
    assert httpx.post(f"{server.url}/v1/ask", json=asked).status_code == 200
    call_mcp(f"{server.url}/mcp", lambda c: c.call_tool("search_chunks", {"query": "Who pays?"}))
    kept = [json.loads(line)["query"] for line in log.read_text().splitlines()]
    assert kept == ["How long?", "Who pays in Lyon?", "Who pays?"]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_page_decides_on_synthetic_questions(served) -> None:
    server, queries, _ = served
    assert "Review questions" in httpx.get(f"{server.url}/review").text
    first = httpx.post(f"{server.url}/api/review/next", json={}).json()["question"]
    assert (first["query_id"], first["left"], len(first["gold"][0]["text"])) == ("s1", 2, 39)
    decide = f"{server.url}/api/review/decide"
    changed = {"query_id": "s1", "decision": "accept", "query": "What is said about zebras?"}
    refused = httpx.post(decide, json=changed)
    assert refused.status_code == 409, "other words are tried on the documents"
    assert "unanswerable" in refused.json()["error"]
    after = httpx.post(decide, json={**changed, "sure": True}).json()["question"]
    assert after["query_id"] == "s2"
    gone = httpx.post(decide, json={"query_id": "s2", "decision": "reject"}).json()
    assert gone == {"question": None}
    left = {r.query_id: r for r in read_queries(queries)}
    assert left["s1"].query == "What is said about zebras?"
    assert left["s1"].metadata["review"] == "accepted"
    assert "s2" not in left
    late = httpx.post(decide, json={"query_id": "s2", "decision": "reject"})
    assert (late.status_code, "reload" in late.json()["error"]) == (400, True)


def test_nothing_is_reviewed_unasked(serving) -> None:
    server = serving()
    assert httpx.get(f"{server.url}/review").status_code == 404
    assert httpx.post(f"{server.url}/api/review/next", json={}).status_code == 404


@needs_chromium
def test_the_page_is_used_in_a_browser(served, tab) -> None:
    from playwright.sync_api import expect

    server, queries, _ = served
    tab.goto(f"{server.url}/review")
    tab.get_by_role("button", name="Skip").click()
    expect(tab.get_by_label("Question; change")).to_have_value("Is it so, 2?")
    tab.get_by_role("button", name="Accept").click()
    tab.get_by_text("No question is waiting").wait_for()
    held = {r.query_id: r.metadata.get("review") for r in read_queries(queries)}
    assert (held["s1"], held["s2"]) == (None, "accepted")
