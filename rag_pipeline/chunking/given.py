"""Spans that were cut upstream: read from a `chunks.jsonl`, and held against the document."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_pipeline.chunking.spans import Span
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError, InputError


def given_spans(document: Document, spans: Sequence[Span]) -> list[Span]:
    """Return the spans of one document in order, repeated and blank ones left out, untrimmed.

    Raise DocumentError for a span that is empty or reaches outside the text.
    """
    text = document.text
    for start, end in spans:
        if not 0 <= start < end <= len(text):
            raise DocumentError(
                document.document_id,
                f"given chunk {start}-{end} is not a span of a text of {len(text)} characters; "
                "0 <= start < end <= length must hold",
            )
    return [span for span in sorted(set(spans)) if not text[slice(*span)].isspace()]


def read_given_chunks(path: Path) -> dict[str, list[Span]]:
    """Read `{"document_id", "start", "end"}` a line, offsets in code points; more keys are ignored.

    Raise InputError naming file, line, field and value. Whether a span fits its document is
    checked when that document is chunked, so that one wrong span costs one document.
    """
    spans: dict[str, list[Span]] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    document_id, span = _parse(line, f"{path}:{number}")
                    spans.setdefault(document_id, []).append(span)
    except OSError as error:
        raise InputError(f"{path}: given chunks can't be read: {error.strerror}") from error
    return spans


def _parse(line: bytes, place: str) -> tuple[str, Span]:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not a line of JSON: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f"{place}: expected an object, got {_shown(row)}")
    document_id = _field(row, "document_id", str, place)
    return document_id, (_field(row, "start", int, place), _field(row, "end", int, place))


def _field(row: dict[str, Any], name: str, kind: type, place: str) -> Any:
    if name not in row:
        raise InputError(f"{place}: {name} is missing; there are: {', '.join(row) or 'no fields'}")
    value = row[name]
    # A bool is an int to Python, but not an offset.
    if not isinstance(value, kind) or isinstance(value, bool) or value == "":
        wanted = "an integer" if kind is int else "a non-empty string"
        raise InputError(f"{place}: {name} must be {wanted}, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
