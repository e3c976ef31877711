"""Record OpenTelemetry spans and metrics of every step and model call, without texts.

Names follow OpenTelemetry's semantic conventions for generative AI. Names of this package begin
with `rag.`. Recording starts when the application or `export` sets up an OpenTelemetry provider.
"""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from threading import Thread
from typing import Any, NamedTuple

from opentelemetry import context, metrics, trace
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from rag_pipeline.calls.contexts import setting
from rag_pipeline.errors import MissingExtraError

_NAME = "rag_pipeline"
_PATIENCE = 5.0
"""Maximum time in seconds that a step waits at its end for its spans to be sent."""
_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
_OPERATIONS = {"chat": "chat", "embedding": "embeddings", "rerank": "rerank"}
_SECONDS = [0.01 * 2**n for n in range(14)]
_TOKENS = [4.0**n for n in range(14)]
"""Boundaries of the histograms, as the conventions advise."""

_log = logging.getLogger(__name__)
_given_up = False

Attributes = dict[str, Any]


class _Call(NamedTuple):
    """One request in flight. Its metrics have these `attributes`, and its span has more."""

    span: trace.Span
    attributes: Attributes


_call: ContextVar[_Call | None] = ContextVar("call", default=None)
_run: ContextVar[str | None] = ContextVar("run", default=None)


@contextmanager
def calling(kind: str, provider: str, model: str, address: str | None) -> Iterator[None]:
    """Trace and time one request to a model. `reply_told` and `used` add its results."""
    attributes = _request(kind, provider, model)
    if address:
        attributes["server.address"] = address
    name = f"{_OPERATIONS[kind]} {model}"
    with _span(name, attributes, SpanKind.CLIENT) as span, setting(_call, _Call(span, attributes)):
        started = time.perf_counter()
        try:
            yield
        except BaseException as error:
            attributes["error.type"] = _error_type(error)
            raise
        finally:
            meters = _meters(metrics.get_meter_provider())
            meters.seconds.record(time.perf_counter() - started, attributes)


def reply_told(model: str | None, finish_reasons: Sequence[str] = ()) -> None:
    """Record the model that a reply names, and the reasons why the reply ended."""
    if (call := _call.get()) is None:
        return
    if model:
        call.attributes["gen_ai.response.model"] = model
        call.span.set_attribute("gen_ai.response.model", model)
    if finish_reasons:
        call.span.set_attribute("gen_ai.response.finish_reasons", list(finish_reasons))


def used(
    kind: str, provider: str, model: str, tokens: Mapping[str, int], usd: float | None, batch: bool
) -> None:
    """Record the tokens and the cost of a call. A call of a batch has no span.

    `tokens` has `input`, `output` and `cached`. `cached` is a part of `input`.
    """
    attributes, types = _request(kind, provider, model), ["input"]
    if kind == "chat":
        types.append("output")
    if (call := _call.get()) is not None:
        attributes = call.attributes
        call.span.set_attributes({f"gen_ai.usage.{type_}_tokens": tokens[type_] for type_ in types})
        if kind == "chat":
            call.span.set_attribute("gen_ai.usage.cache_read.input_tokens", tokens["cached"])
        if usd is not None:
            call.span.set_attribute("rag.cost_usd", usd)
    meters = _meters(metrics.get_meter_provider())
    for type_ in types:
        meters.tokens.record(tokens[type_], attributes | {"gen_ai.token.type": type_})
    if usd is not None:
        meters.cost.add(usd, attributes | {"rag.batch": batch})


@contextmanager
def trace_step(corpus: str, asset: str, partition: str) -> Iterator[trace.Span]:
    """Trace a step, and send all spans and metrics when the step ends. Yield its span."""
    export()
    attributes = {"rag.corpus": corpus, "rag.asset": asset, "rag.partition": partition}
    with _span(f"make {asset}", attributes) as span:
        yield span
    _flush()


@contextmanager
def _span(
    name: str, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL
) -> Iterator[trace.Span]:
    run = _run.get()
    with trace.get_tracer(_NAME).start_as_current_span(
        name,
        kind=kind,
        attributes=attributes | ({"dagster.run_id": run} if run else {}),
        record_exception=False,  # its message may contain a prompt
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", _error_type(error))
            span.set_status(Status(StatusCode.ERROR))
            raise


def _request(kind: str, provider: str, model: str) -> Attributes:
    return {
        "gen_ai.operation.name": _OPERATIONS[kind],
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }


@contextmanager
def in_run(run_id: str) -> Iterator[None]:
    """Put the spans of the block into the trace of a Dagster run.

    The trace id is the run id without its dashes, so it is the same on every machine.
    """
    try:
        trace_id = uuid.UUID(run_id).int
    except ValueError:
        trace_id = int.from_bytes(sha256(run_id.encode()).digest()[:16])
    span_id = int.from_bytes(sha256(run_id.encode()).digest()[:8])
    parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(1))
    token = context.attach(trace.set_span_in_context(NonRecordingSpan(parent)))
    try:
        with setting(_run, run_id):
            yield
    finally:
        context.detach(token)


@cache
def export() -> None:
    """Send spans and metrics to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names, if any.

    Raise MissingExtraError if the exporter is not installed.
    """
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingExtraError("opentelemetry-sdk", "tracing") from None
    name = os.environ.get("OTEL_SERVICE_NAME", "rag-pipeline")
    resource = Resource.create({"service.name": name})
    spans = TracerProvider(resource=resource)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(spans)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    metrics.set_meter_provider(MeterProvider([reader], resource=resource))


def _flush() -> None:
    """Send all spans and metrics now, because the process of a step may end soon.

    If the collector once takes more than `_PATIENCE` seconds, this process never waits again.
    """
    global _given_up
    if _given_up:
        return
    sending = Thread(target=_send, name="flush of telemetry", daemon=True)
    sending.start()
    sending.join(_PATIENCE)
    if sending.is_alive():
        _given_up = True
        _log.warning(
            "the telemetry collector did not reply in %g s; later steps do not wait for it",
            _PATIENCE,
        )


def _send() -> None:
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if (flush := getattr(provider, "force_flush", None)) is not None:
            flush()


class _Meters(NamedTuple):
    seconds: metrics.Histogram
    tokens: metrics.Histogram
    cost: metrics.Counter


@cache
def _meters(provider: metrics.MeterProvider) -> _Meters:
    meter = provider.get_meter(_NAME)
    return _Meters(
        meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "Duration of one request to a model",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
        meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens of a request",
            explicit_bucket_boundaries_advisory=_TOKENS,
        ),
        meter.create_counter("rag.client.cost", "USD", "Cost of requests by the price list"),
    )  # fmt: skip


def _error_type(error: BaseException) -> str:
    """Return an HTTP reply's status, `timeout` for a cancelled call, or the error's type."""
    status = getattr(error, "status", None)
    if isinstance(error, asyncio.CancelledError):
        return "timeout"
    return str(status) if status else type(error).__name__
