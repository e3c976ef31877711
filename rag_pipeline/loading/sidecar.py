"""Read titles and metadata of documents from a sidecar file, `documents.csv` or `.jsonl`."""

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rag_pipeline.datamodels import MetadataValue
from rag_pipeline.errors import InputError
from rag_pipeline.loading.parsing import parse
from rag_pipeline.loading.sources import Rejected, Source
from rag_pipeline.loading.text import guessed_encoding, one_line, storable

_ID = "document_id"
_TITLE = "title"


class Given(NamedTuple):
    """The title and metadata in one line of a sidecar file, and the hash of the line."""

    title: str
    metadata: Mapping[str, MetadataValue]
    digest: str


def read_sidecar(path: Path) -> dict[str, Given]:
    """Return the title and metadata of each document in a sidecar file, by document_id.

    A line has `document_id`, `title` and the user's own fields. A CSV file needs a header, and its
    values are text. Empty values are ignored. In JSON Lines, numbers and booleans keep their type,
    and lists become JSON text. Raise InputError with file, line and value.
    """
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise InputError(f"documents.metadata: {path}: expected a .csv or .jsonl file")
    try:
        raw = path.read_bytes()
        text = raw.decode(guessed_encoding(raw) or "utf-8-sig")  # Excel writes Windows encodings
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8; save it as UTF-8"
        raise InputError(f"documents.metadata: {path}: cannot read the file: {reason}") from None
    found: dict[str, Given] = {}
    rows = _csv_rows if path.suffix.lower() == ".csv" else _json_rows
    for number, row in rows(text, path):
        document_id = row.pop(_ID, None)
        if not isinstance(document_id, str) or not document_id:
            raise InputError(f"{path}:{number}: {_ID}: {document_id!r}: expected a document's id")
        if document_id in found:
            raise InputError(f"{path}:{number}: {_ID}: {document_id!r} already has a line")
        digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
        title = one_line(str(row.pop(_TITLE, None) or ""))
        metadata = {k: storable(v) for k, v in row.items() if v not in (None, "")}
        found[document_id] = Given(title, metadata, digest)
    return found


def _csv_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = reader.fieldnames or ()
        if _ID not in columns:
            raise InputError(f"{path}:1: no column {_ID}, only: {', '.join(columns)}")
        for row in reader:
            if None in row:
                more = "more values than columns in the header; quote values with commas"
                raise InputError(f"{path}:{reader.line_num}: {more}")
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num + 1}: not CSV: {error}") from None


def _json_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, parse(dict[str, Any], line, f"{path}:{number}")


def with_given(source: Source, given: Mapping[str, Given]) -> Source:
    """Return a source with the title and metadata of its document in a sidecar file.

    The content hash then also covers these values. A source without a line stays unchanged.
    """
    row = given.get(source.document_id)
    if row is None or isinstance(source, Rejected):
        return source
    content_hash = hashed_with(source.content_hash, row)
    return replace(source, content_hash=content_hash, title=row.title, given=row.metadata)


def hashed_with(digest: str, row: Given | None) -> str:
    """Return a digest that also changes with the document's line in the sidecar file."""
    return hashlib.sha256(f"{digest} {row.digest}".encode()).hexdigest() if row else digest
