"""Spans and metrics of OpenTelemetry for every call to a model and every step, without texts.

Names follow the semantic conventions for generative AI; `rag.*` are additions. Nothing is recorded
unless the application, or `export`, sets up a provider.
"""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from threading import Thread
from typing import Any

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


@dataclass(slots=True)
class _Call:
    """One request on its way."""

    attributes: Attributes
    """Attributes of its span and its metrics."""
    told: Attributes = field(default_factory=dict)
    """Attributes of its span alone, from the reply."""


_call: ContextVar[_Call | None] = ContextVar("call", default=None)
_run: ContextVar[str | None] = ContextVar("run", default=None)


@contextmanager
def calling(kind: str, provider: str, model: str, address: str | None) -> Iterator[None]:
    """Trace and time one request to a model; see `reply_told` and `used`."""
    call = _Call(_asked_of(kind, provider, model))
    if address:
        call.attributes["server.address"] = address
    name = f"{_OPERATIONS[kind]} {model}"
    with _span(name, call.attributes, call.told, SpanKind.CLIENT), setting(_call, call):
        started = time.perf_counter()
        try:
            yield
        except BaseException as error:
            call.attributes["error.type"] = _error_type(error)
            raise
        finally:
            seconds = time.perf_counter() - started
            _meters().seconds.record(seconds, call.attributes)


def reply_told(model: str | None, finish_reasons: Sequence[str] = ()) -> None:
    """Note the model that a reply names, and the reasons for its end."""
    call = _call.get()
    if call is None:
        return
    if model:
        call.attributes["gen_ai.response.model"] = call.told["gen_ai.response.model"] = model
    if finish_reasons:
        call.told["gen_ai.response.finish_reasons"] = list(finish_reasons)


def used(
    kind: str, provider: str, model: str, tokens: Mapping[str, int], usd: float | None, batch: bool
) -> None:
    """Note the tokens and the cost of a call; a call of a batch has no span.

    `tokens` has `input`, `output` and `cached`, which is part of the input.
    """
    call = _call.get()
    if call is not None:
        attributes = call.attributes
        call.told["gen_ai.usage.input_tokens"] = tokens["input"]
        if kind == "chat":
            call.told["gen_ai.usage.output_tokens"] = tokens["output"]
            call.told["gen_ai.usage.cache_read.input_tokens"] = tokens["cached"]
        if usd is not None:
            call.told["rag.cost_usd"] = usd
    else:
        attributes = _asked_of(kind, provider, model)
    meters = _meters()
    for what in ("input", "output") if kind == "chat" else ("input",):
        of_type = attributes | {"gen_ai.token.type": what}
        meters.tokens.record(tokens[what], of_type)
    if usd is not None:
        meters.cost.add(usd, attributes | {"rag.batch": batch})


@contextmanager
def trace_step(corpus: str, asset: str, partition: str) -> Iterator[Attributes]:
    """Trace a step over one partition; the yielded mapping takes more attributes."""
    export()
    attributes = {"rag.corpus": corpus, "rag.asset": asset, "rag.partition": partition}
    told: Attributes = {}
    with _span(f"make {asset}", attributes, told):
        yield told
    _flush()


@contextmanager
def _span(
    name: str, attributes: Attributes, told: Attributes, kind: SpanKind = SpanKind.INTERNAL
) -> Iterator[None]:
    """Trace the block, which adds attributes to `told`."""
    run = _run.get()
    with trace.get_tracer(_NAME).start_as_current_span(
        name,
        kind=kind,
        attributes=attributes | ({"dagster.run_id": run} if run else {}),
        record_exception=False,  # its message may contain a prompt
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            span.set_attribute("error.type", _error_type(error))
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            span.set_attributes(told)


def _asked_of(kind: str, provider: str, model: str) -> Attributes:
    return {
        "gen_ai.operation.name": _OPERATIONS[kind],
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }


@contextmanager
def in_run(run_id: str) -> Iterator[None]:
    """Put the spans of the block into the trace of a Dagster run, on every machine the same.

    The id of the trace is the id of the run without its dashes.
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

    Raises MissingExtraError if the exporter is not installed.
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

    After one wait of `_PATIENCE` in vain, this process waits no more for the collector.
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
            "the collector of traces and metrics did not answer in %g s; steps go on without "
            "waiting for it",
            _PATIENCE,
        )


def _send() -> None:
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        flush = getattr(provider, "force_flush", None)
        if flush is not None:
            flush()


@dataclass(frozen=True, slots=True)
class _Meters:
    seconds: metrics.Histogram
    tokens: metrics.Histogram
    cost: metrics.Counter


def _meters() -> _Meters:
    return _meters_of(metrics.get_meter_provider())


@cache
def _meters_of(provider: metrics.MeterProvider) -> _Meters:
    meter = provider.get_meter(_NAME)
    return _Meters(
        meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "Duration of one request to a model",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
        meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens that a request used",
            explicit_bucket_boundaries_advisory=_TOKENS,
        ),
        meter.create_counter("rag.client.cost", "USD", "What requests cost by the price list"),
    )


def _error_type(error: BaseException) -> str:
    """Return the status of an HTTP reply, or the type of the error."""
    status = getattr(error, "status", None)
    if isinstance(error, asyncio.CancelledError):
        return "timeout"
    return str(status) if status else type(error).__name__
