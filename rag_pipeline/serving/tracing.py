"""Record requests and the assistant's stages as OpenTelemetry spans (see `calls.telemetry`).

The names of attributes follow OpenTelemetry's semantic conventions for HTTP. A span never contains
queries, documents, tokens or keys.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from starlette.types import Scope

from rag_pipeline.client.records import Step
from rag_pipeline.serving.messages import logged


@contextmanager
def request_span(scope: Scope, request_id: str) -> Iterator[Span]:
    """Trace a request. Spans inside the block become its children."""
    method, path = scope["method"], logged(scope["path"])
    attributes = {"http.request.method": method, "url.path": path, "rag.request_id": request_id}
    with _tracer().start_as_current_span(
        f"{method} {path}",
        kind=SpanKind.SERVER,
        attributes=attributes,
        record_exception=False,  # its message may contain the question
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException:
            answered(span, 500)
            raise


def answered(span: Span, status: int) -> None:
    """Set the HTTP status of a request's span. From 500 on, the span is an error."""
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))


def record_trace(entries: Sequence[Step]) -> None:
    """Record the assistant's steps as children of the current span, at their own times."""
    for entry in entries:
        span = _tracer().start_span(f"assistant.{entry.name}", start_time=entry.began)
        for name, value in entry.detail.items():
            if isinstance(value, bool | int):  # texts may contain the question
                span.set_attribute(f"rag.{name}", value)
        span.end(entry.began + round(entry.seconds * 1e9))


def _tracer() -> trace.Tracer:
    return trace.get_tracer("rag_pipeline.serving")
