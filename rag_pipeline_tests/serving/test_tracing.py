import json
import logging
from collections import Counter
from typing import Any

import httpx
import pytest
from opentelemetry import metrics, trace

from rag_pipeline.calls.telemetry import export
from rag_pipeline_tests.testing.app_server import Running, call_mcp
from rag_pipeline_tests.testing.web import web

TOKEN = "a-token-of-some-length"
STAGES = {"assistant.intent", "assistant.search", "assistant.answer", "assistant.citations"}


def stop(server: Running) -> None:
    """Stop a server. The span of a request may end after its reply has arrived."""
    server.__exit__()


def test_a_request_and_its_stages_are_spans(serving, spans):
    server = serving(token=TOKEN)
    reply = httpx.post(
        f"{server.url}/v1/ask",
        json={"query": "How expensive may a hotel be?"},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=60,
    )
    assert reply.status_code == 200
    stop(server)
    made = {span.name: span for span in spans.get_finished_spans()}
    request = made["POST /v1/ask"]
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["rag.request_id"] == reply.headers["x-request-id"]
    assert set(made) >= STAGES
    for name in STAGES:
        assert made[name].parent.span_id == request.context.span_id
        assert request.start_time <= made[name].start_time <= made[name].end_time
        assert made[name].end_time <= request.end_time
    told = {s["name"]: 1000 * s["seconds"] for s in reply.json()["trace"]}
    span = made["assistant.search"]
    assert (span.end_time - span.start_time) / 1e6 == pytest.approx(told["search"], abs=0.01)
    assert made["assistant.search"].attributes["rag.passages"] > 0
    everything = " ".join(span.to_json() for span in spans.get_finished_spans())
    assert "hotel" not in everything
    assert TOKEN not in everything


def test_an_mcp_call_is_traced_with_its_stages(serving, spans):
    question = {"query": "How expensive may a hotel be?"}
    server = serving()
    call_mcp(f"{server.url}/mcp", lambda client: client.call_tool("assistant", question))
    stop(server)
    names = Counter(span.name for span in spans.get_finished_spans())
    assert names["POST /mcp"] > 1
    assert all(names[stage] == 1 for stage in STAGES)


def test_a_refused_request_is_traced_and_logged_without_its_token(serving, spans, caplog):
    caplog.set_level(logging.INFO, "rag_pipeline.serving")
    headers = {"Authorization": "Bearer a-wrong-token", "X-LLM-API-KEY": "key-of-a-user"}
    server = serving(token=TOKEN)
    reply = httpx.get(f"{server.url}/v1/corpora", headers=headers)
    assert reply.status_code == 401
    stop(server)
    (span,) = spans.get_finished_spans()
    assert span.attributes["http.response.status_code"] == 401
    (line,) = [json.loads(m) for m in caplog.messages if m.startswith("{")]
    assert line["request_id"] == reply.json()["request_id"] == span.attributes["rag.request_id"]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/corpora", 401)
    for secret in (TOKEN, "a-wrong-token", "key-of-a-user"):
        assert secret not in caplog.text
        assert secret not in span.to_json()


def test_spans_go_to_the_collector_that_is_named(monkeypatch):
    providers: list[Any] = []
    monkeypatch.setattr(trace, "set_tracer_provider", providers.append)
    monkeypatch.setattr(metrics, "set_meter_provider", providers.append)
    export.__wrapped__()
    assert providers == []  # nothing is set up where no collector is named
    with web(lambda path, body: (200, {}, b"")) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        export.__wrapped__()
        spans, meters = providers
        with spans.get_tracer("test").start_as_current_span("one"):
            pass
        meters.get_meter("test").create_counter("two").add(1)
        spans.shutdown()
        meters.shutdown()
    assert [path for path, _ in collector.asked] == ["/v1/traces", "/v1/metrics"]
    assert all(b"rag-pipeline" in content for _, content in collector.asked)
