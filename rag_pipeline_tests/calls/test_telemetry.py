"""Spans and metrics of calls and steps, by the conventions' own names."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from rag_pipeline.calls import telemetry
from rag_pipeline.config import load_config
from rag_pipeline.models.chat import Prompt, Reply
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus
from rag_pipeline_tests.testing.model_faults import Failure, Fault
from rag_pipeline_tests.testing.model_replies import DIMENSION, Body
from rag_pipeline_tests.testing.model_server import serving

RUN = "6b3c3a52-6f0e-4e1b-9a53-0d5e35a9f3a1"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    return reader


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    return {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def corpus(folder: Path, url: str) -> Workspace:
    price = {"input": 10, "output": 100}
    model = {"provider": "openai", "model": "m", "base_url": url, "price": price}
    embedding = {"provider": "openai", "model": "e", "base_url": url, "dimensions": DIMENSION}
    file = write_corpus(
        folder, chats={"m": model}, embeddings={"minilm": {"provider": "minilm"}, "e": embedding}
    )
    return Workspace(load_config(file))


def test_a_call_and_its_step_are_spans_of_the_dagster_run(
    tmp_path: Path, spans: InMemorySpanExporter, measured: InMemoryMetricReader
) -> None:
    failures = iter([Fault(429)])

    def faults(path: str, body: Body) -> Failure:
        return next(failures, None) if "chat" in path else None

    with serving(lambda body: "the answer is secret", faults) as server:
        workspace = corpus(tmp_path, server.url)
        with telemetry.in_run(RUN), workspace.charging("answers"):
            (reply,) = workspace.ask("m")([Prompt("a question of four words")])
            workspace.embed("e")(["one text"])
    assert isinstance(reply, Reply)
    made = spans.get_finished_spans()
    (step,) = (span for span in made if span.name == "make answers")
    refused, answered = (span for span in made if span.name == "chat m")
    (embedded,) = (span for span in made if span.name == "embeddings e")
    assert {span.context.trace_id for span in made} == {int(RUN.replace("-", ""), 16)}
    assert all(span.attributes["dagster.run_id"] == RUN for span in made)
    assert all(
        span.parent.span_id == step.context.span_id for span in (refused, answered, embedded)
    )
    assert refused.attributes[error_attributes.ERROR_TYPE] == "429"
    assert not refused.status.is_ok
    usage = reply.usage
    cost = (10 * usage.input_tokens + 100 * usage.output_tokens) / 1e6
    assert usage.input_tokens > 0 < usage.output_tokens
    expected = {
        names.GEN_AI_OPERATION_NAME: names.GenAiOperationNameValues.CHAT.value,
        names.GEN_AI_REQUEST_MODEL: "m",
        names.GEN_AI_RESPONSE_MODEL: "m",
        names.GEN_AI_RESPONSE_FINISH_REASONS: ("stop",),
        names.GEN_AI_USAGE_INPUT_TOKENS: usage.input_tokens,
        names.GEN_AI_USAGE_OUTPUT_TOKENS: usage.output_tokens,
        names.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: usage.cached_tokens,
        server_attributes.SERVER_ADDRESS: "127.0.0.1",
        "rag.cost_usd": pytest.approx(cost),
    }
    attributes = answered.attributes
    assert {name: attributes[name] for name in expected} == expected
    assert names.GEN_AI_PROVIDER_NAME in attributes
    assert error_attributes.ERROR_TYPE not in attributes
    operation = names.GenAiOperationNameValues.EMBEDDINGS.value
    assert embedded.attributes[names.GEN_AI_OPERATION_NAME] == operation
    assert step.attributes["rag.calls"] == 2
    assert step.attributes["rag.cost_usd"] == pytest.approx(cost)
    everything = " ".join(span.to_json() for span in made)
    assert "secret" not in everything
    assert "four words" not in everything

    found = points(measured)
    durations = found[gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION]
    assert sum(point.count for point in durations) == 3
    assert [p.count for p in durations if "error.type" in p.attributes] == [1]
    tokens = {
        (p.attributes[names.GEN_AI_OPERATION_NAME], p.attributes[names.GEN_AI_TOKEN_TYPE]): p.sum
        for p in found[gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE]
    }
    assert tokens["chat", "input"] == usage.input_tokens
    assert tokens["chat", "output"] == usage.output_tokens
    assert set(tokens) == {("chat", "input"), ("chat", "output"), ("embeddings", "input")}
    assert sum(point.value for point in found["rag.client.cost"]) == pytest.approx(cost)


def test_a_step_that_fails_tells_what_kind_of_error(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    workspace = corpus(tmp_path, "http://127.0.0.1:1/v1")
    with pytest.raises(ZeroDivisionError), workspace.charging("answers"):
        _ = 1 // 0
    (step,) = spans.get_finished_spans()
    assert step.attributes[error_attributes.ERROR_TYPE] == "ZeroDivisionError"
    assert not step.events, "an error's message may hold what was asked"


def test_a_line_of_a_batch_has_tokens_and_cost_but_no_request(
    tmp_path: Path, spans: InMemorySpanExporter, measured: InMemoryMetricReader
) -> None:
    telemetry.used("chat", "openai", "m", {"input": 7, "output": 2, "cached": 0}, 0.5, batch=True)
    found = points(measured)
    assert sorted(p.sum for p in found[gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE]) == [2, 7]
    assert [p.attributes["rag.batch"] for p in found["rag.client.cost"]] == [True]
    assert spans.get_finished_spans() == ()


def test_a_collector_that_does_not_answer_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began, answered = Event(), Event()
    sent: list[int] = []

    class Stalled(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            sent.append(len(spans))
            began.set()
            answered.wait()
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Stalled()))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    monkeypatch.setattr(telemetry, "_PATIENCE", 0.1)
    monkeypatch.setattr(telemetry, "_given_up", False)
    for asset in ("documents", "chunks"):
        with telemetry.trace_step("corpus", asset, "all"):
            pass
        assert began.wait(300)
    assert sent == [1], "the second step's span waits behind the first"
    assert caplog.text.count("collector did not reply in 0.1 s") == 1
    answered.set()
    provider.shutdown()
    assert sent == [1, 1], "and is sent when the collector is there again"
