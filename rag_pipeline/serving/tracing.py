"""OpenTelemetry spans of requests and of the assistant's stages, sent where the environment says.

Names of attributes after OpenTelemetry's semantic conventions for HTTP. Queries, documents, tokens
and keys are never part of a span.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from starlette.types import Scope

from rag_pipeline.assistant import Stage
from rag_pipeline.errors import MissingExtraError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def trace_to_collector() -> None:
    """Send spans to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names; do nothing without.

    Raises MissingExtraError where it is named and the exporter isn't installed.
    """
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingExtraError("opentelemetry-sdk", "tracing") from None
    name = os.environ.get("OTEL_SERVICE_NAME", "rag-pipeline")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


@contextmanager
def request_span(scope: Scope, request_id: str) -> Iterator[Span]:
    """Trace a request; what is done inside the block becomes the span's children."""
    method, path = scope["method"], scope["path"][:200]
    attributes = {"http.request.method": method, "url.path": path, "rag.request_id": request_id}
    with _tracer().start_as_current_span(
        f"{method} {path}",
        kind=SpanKind.SERVER,
        attributes=attributes,
        record_exception=False,  # its message may hold what was asked
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException:
            answered(span, 500)
            raise


def answered(span: Span, status: int) -> None:
    """Tell a request's span how it was answered."""
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))


def record_stages(stages: Sequence[Stage]) -> None:
    """Record what the assistant did as children of the current span, at their own times."""
    for stage in stages:
        span = _tracer().start_span(f"assistant.{stage.name}", start_time=stage.began)
        for name, value in stage.detail.items():
            if isinstance(value, bool | int):  # texts may hold what was asked
                span.set_attribute(f"rag.{name}", value)
        span.end(stage.began + round(stage.seconds * 1e9))


def _tracer() -> trace.Tracer:
    return trace.get_tracer("rag_pipeline.serving")
