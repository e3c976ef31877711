"""Define the Arrow schemas of the tables, and read and write their rows."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa


def required(kind: pa.DataType, *names: str) -> list[pa.Field]:
    """Return fields of one type that are never null."""
    return [pa.field(name, kind, nullable=False) for name in names]


_STATE = required(pa.string(), "document_id", "content_hash", "fingerprint")
"""The first fields of every table. They identify the inputs of a row (see `store`)."""
_TITLED = [*required(pa.string(), "title"), pa.field("metadata", pa.json_(pa.utf8()))]
_ORIGIN = pa.field("origin", pa.string())
"""The bucket's object that a document was read from, with its version. It is null for a file."""

DOCUMENTS_SCHEMA = pa.schema(
    [
        *_STATE,
        *_TITLED,
        *required(pa.string(), "media_type"),
        _ORIGIN,
        *required(pa.int64(), "characters"),
        *required(pa.string(), "text", "text_hash"),
        pa.field("page_map", pa.binary()),
    ]
)
QUARANTINE_SCHEMA = pa.schema([*_STATE, *required(pa.string(), "stage", "reason"), _ORIGIN])
CHUNKS_SCHEMA = pa.schema(
    [
        *_STATE,
        *required(pa.string(), "chunk_id"),
        *required(pa.int64(), "start", "end"),
        *required(pa.string(), "text"),
    ]
)
CONTEXTUALIZED_CHUNKS_SCHEMA = pa.schema(
    [*CHUNKS_SCHEMA, *_TITLED, pa.field("context", pa.string())]
)


def vector_schema(dimension: int, token_vectors: bool = False) -> pa.Schema:
    """Return the schema of a vector index: contextualized chunks, each with a unit vector.

    If `token_vectors` is True, two byte columns are added: the distinct token ids (uint32), and the
    sign bits of each token's vector. If `dimension` is -1, vectors may have any dimension.
    """
    fields = required(pa.list_(pa.float32(), dimension), "vector")
    if token_vectors:
        fields += required(pa.binary(), "token_ids", "token_vectors")
    return pa.schema([*CONTEXTUALIZED_CHUNKS_SCHEMA, *fields])


def rows_of(columns: Mapping[str, Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with this schema from lists of values. JSON columns need JSON texts."""
    return pa.RecordBatch.from_pydict(columns, schema)


def parse_metadata(value: str | None) -> dict[str, Any]:
    """Return the value of a metadata column as a dictionary, or {} if it is not a JSON object."""
    return {**_parsed(value)} if value else {}


@lru_cache(maxsize=4096)
def _parsed(value: str) -> dict[str, Any]:
    # Cached, because all chunks of a document have the same metadata.
    parsed = json.loads(value)
    return parsed if isinstance(parsed, dict) else {}
