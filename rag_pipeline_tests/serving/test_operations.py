"""What operators see of a server: alive, ready, its figures, its limits, its log."""

import hashlib
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest
import yaml

from rag_pipeline import Corpus
from rag_pipeline.assistant import Assistant, open_assistant
from rag_pipeline.calls.costs import charging, record
from rag_pipeline.serving.server import StoppableServer, listening
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline_tests.testing.servers import free_port

QUERY = {"query": "How much does a parcel weigh?"}


def figures(server, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reply = httpx.get(f"{server.url}/metrics", headers=headers)
    assert reply.status_code == 200
    lines = [line for line in reply.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_the_figures_count_requests_searches_and_paid_calls(built_file, serving, monkeypatch):
    corpus = Corpus.load(built_file)
    own = open_assistant([corpus])
    monkeypatch.setattr("rag_pipeline_tests.testing.app_server.build_app", lambda _, s: app(own, s))
    from rag_pipeline.serving.app import build_app as app

    with charging(corpus.workspace.ledger):
        record("chat", "openai", "gpt-4.1", input_tokens=1_000_000)  # before the start: not counted
    server = serving()
    for path in ("/v1/search", "/v1/search", "/nowhere/else"):
        httpx.post(f"{server.url}{path}", json=QUERY, timeout=60)
    with charging(corpus.workspace.ledger):
        record("chat", "openai", "gpt-4.1", input_tokens=1_000_000)
    seen = figures(server)
    assert seen['rag_requests_total{path="/v1/search",status="200"}'] == 2
    assert seen['rag_requests_total{path="other",status="404"}'] == 1
    assert seen['rag_request_seconds_count{path="/v1/search"}'] == 2
    assert seen['rag_searches_total{cache="miss",corpus="tiny"}'] == 1
    assert seen['rag_searches_total{cache="hit",corpus="tiny"}'] == 1
    assert seen['rag_release{corpus="tiny",release="release-000001"}'] == 1
    calls = {name: value for name, value in seen.items() if name.startswith("rag_model_calls_t")}
    assert [*calls.values()] == [1]
    assert 'model="gpt-4.1"' in next(iter(calls))
    (usd,) = (v for name, v in seen.items() if name.startswith("rag_model_cost_usd_total"))
    assert usd == pytest.approx(2.0)  # the list price of a million input tokens
    assert seen["rag_working"] == seen["rag_waiting"] == 0


def test_the_figures_need_a_token_for_all_corpora(serving, tmp_path):
    tokens = {"an-operators-token": None, "a-tenants-token": ["tiny"]}
    file = tmp_path / "callers.yaml"
    rows = [
        {"sha256": hashlib.sha256(t.encode()).hexdigest(), "labels": [], "corpora": corpora}
        for t, corpora in tokens.items()
    ]
    file.write_text(yaml.safe_dump({"tokens": rows}))
    server = serving(callers=file)
    statuses = [
        httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {t}"}).status_code
        for t in ("a-strangers-token", *tokens)
    ]
    assert statuses == [401, 200, 403]


def test_a_token_has_its_own_limit_from_every_address(serving, tmp_path):
    file = tmp_path / "callers.yaml"
    names = {"limited": 20, "unlimited": None}
    rows = [
        {
            "sha256": hashlib.sha256(name.encode()).hexdigest(),
            "labels": [],
            "requests_per_minute": limit,
        }
        for name, limit in names.items()
    ]
    file.write_text(yaml.safe_dump({"tokens": rows}))
    server = serving(callers=file)

    def status(token, address):
        headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": address}
        reply = httpx.get(f"{server.url}/v1/corpora", headers=headers, timeout=60)
        return reply.status_code, reply.headers.get("Retry-After")

    # A tenth of a minute's requests, which is two, may come at once.
    assert [status("limited", f"203.0.113.{n}")[0] for n in range(2)] == [200, 200]
    assert status("limited", "203.0.113.9") in ((429, "3"), (429, "2"), (429, "1"))
    assert [status("unlimited", "203.0.113.9")[0] for _ in range(4)] == [200] * 4


def test_a_full_server_refuses_at_once_and_is_alive_and_ready(serving, monkeypatch):
    go_on, asked, begun = Event(), Assistant.ask, Event()

    def held(*arguments, **more):
        begun.set()
        assert go_on.wait(300)
        return asked(*arguments, **more)

    monkeypatch.setattr(Assistant, "ask", held)
    server = serving(threads=1, wait_seconds=0.0)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.post, f"{server.url}/v1/ask", json=QUERY, timeout=60)
        assert begun.wait(300)
        for _ in range(3):
            refused = httpx.post(f"{server.url}/v1/ask", json=QUERY, timeout=60)
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        for path in ("/live", "/ready", "/health"):
            assert httpx.get(f"{server.url}{path}", timeout=60).status_code == 200
        assert figures(server)["rag_working"] == 1
        go_on.set()
        assert first.result().status_code == 200
    assert httpx.post(f"{server.url}/v1/ask", json=QUERY, timeout=60).status_code == 200


def test_a_corpus_without_a_release_is_alive_and_not_ready(corpus_file):
    from rag_pipeline_tests.testing import app_server

    with app_server.serving(open_assistant([Corpus.load(corpus_file)])) as server:
        assert httpx.get(f"{server.url}/live").status_code == 200
        reply = httpx.get(f"{server.url}/ready", timeout=60)
    assert reply.status_code == 503
    assert "nothing has been released yet" in reply.json()["status"]


def test_a_stopping_server_tells_balancers_and_still_answers(own):
    from rag_pipeline.serving.app import build_app

    settings = ServerSettings(port=free_port(), wait_seconds=600.0, drain_seconds=600.0)
    server = StoppableServer(listening(build_app(own, settings), settings), settings.drain_seconds)
    url = f"http://127.0.0.1:{settings.port}"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.run)
        while not server.started:
            Event().wait(0.01)
        assert httpx.get(f"{url}/ready", timeout=60).status_code == 200
        server.should_exit = True
        while (reply := httpx.get(f"{url}/ready", timeout=60)).status_code == 200:
            Event().wait(0.01)
        assert (reply.status_code, reply.json()) == (503, {"status": "stopping"})
        assert httpx.post(f"{url}/v1/search", json=QUERY, timeout=60).status_code == 200
        server.force_exit = True  # a second Ctrl-C ends the drain
        running.result()


def test_the_log_has_times_and_no_question(serving, caplog):
    caplog.set_level(logging.INFO, logger="rag_pipeline.serving")
    server = serving()
    httpx.post(f"{server.url}/v1/search", json=QUERY, timeout=60)
    (line,) = (json.loads(r.getMessage()) for r in caplog.records if "/v1/search" in r.getMessage())
    assert {**line, "time": 0, "request_id": 0, "milliseconds": 0, "queued": 0} == {
        **{"time": 0, "request_id": 0, "milliseconds": 0, "queued": 0},
        **{"method": "POST", "path": "/v1/search", "status": 200, "client": "127.0.0.1"},
    }
    assert line["milliseconds"] >= line["queued"] >= 0
    assert "parcel" not in caplog.text


def test_a_servers_first_answer_is_prepared_before_it_is_asked(built_file, caplog):
    corpus = Corpus.load(built_file)
    corpus.is_server = True
    own = open_assistant([corpus])
    own.warm()
    assert corpus.opened().release.release_id == "release-000001"
    assert caplog.text == ""
    assert own.ask(QUERY["query"]).text
