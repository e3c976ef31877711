"""Check that the files of a bundle have the content of a release."""

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_pipeline.errors import InputError, StoreError
from rag_pipeline.loading.folder import UNSAFE
from rag_pipeline.loading.page_map import PageMap
from rag_pipeline.release.manifest import Release
from rag_pipeline.search.lexical_index import open_lexical_index
from rag_pipeline.store.schemas import DOCUMENTS_SCHEMA, vector_schema

VECTORS = "vectors.arrow"
DOCUMENTS = "documents.arrow"
SCORES = "scores.parquet"
WRONG = (ValueError, TypeError, LookupError, AttributeError, RecursionError, zlib.error)
"""Errors that wrong content can raise."""
_MOST_GROWTH = 100
"""Maximum size of rows in memory, as a multiple of the size of their file."""
_MOST_MAP_BYTES = 50_000_000
"""Maximum bytes of an unpacked page map."""
_MOST_TOKENS = 1 << 20
"""Token ids are below this number. The largest vocabulary of the models has 250,037 tokens."""


def check_content(release: Release, folder: Path, file: Path) -> None:
    """Raise InputError if the files differ from the builds in the manifest."""
    pinned = release.pinned
    try:
        documents: dict[str, str] | None = None
        if (folder / DOCUMENTS).exists():
            documents = {}
            for row in _rows(folder / DOCUMENTS):
                _check_document(row)
                documents[row["document_id"]] = row["text"]
        chunks, expected = set[str](), pinned.rows
        for row in _rows(folder / VECTORS):
            _check_chunk(row, documents)
            chunks.add(row["chunk_id"])
        if len(chunks) != expected:
            raise ValueError(f"{VECTORS} has {len(chunks)} rows, but the manifest has {expected}")
        if pinned.lexical_path is not None:
            index = open_lexical_index(folder / "lexical")
            index.check()
            if {*index.chunk_ids.to_pylist()} != chunks:
                raise ValueError("the BM25 index has other chunks")
        if (folder / SCORES).exists():
            pq.read_table(folder / SCORES, columns=["query_id", "query"])
    except (StoreError, OSError, pa.ArrowException, *WRONG) as error:
        raise InputError(f"{file}: not a release bundle: {error}") from None


def _check_document(row: Mapping[str, Any]) -> None:
    name = row["document_id"]
    if UNSAFE.search(name):
        raise ValueError(f"{name!r} has control or invisible characters")
    if row["characters"] != len(row["text"]):
        raise ValueError(f"{name}: the text has {len(row['text'])} characters")
    _check_metadata(row)
    if (packed := row["page_map"]) is not None:
        if len(zlib.decompressobj().decompress(packed, _MOST_MAP_BYTES)) == _MOST_MAP_BYTES:
            raise ValueError(f"{name}: the page map is too large")
        PageMap.from_bytes(packed)


def _check_chunk(row: Mapping[str, Any], documents: Mapping[str, str] | None) -> None:
    document, start, end, name = (row[n] for n in ("document_id", "start", "end", "chunk_id"))
    if name != f"{document}#{start}-{end}" or not 0 <= start <= end:
        raise ValueError(f"{name!r} is not the id of its chunk")
    if documents is not None:
        if document not in documents:
            raise ValueError(f"{DOCUMENTS} lacks {document!r}")
        if documents[document][start:end] != row["text"]:
            raise ValueError(f"{name}: the text differs from the document")
    _check_metadata(row)


def _check_vectors(batch: pa.RecordBatch) -> None:
    size = batch.schema.field("vector").type.list_size
    vectors = batch.column("vector").flatten().to_numpy().reshape(-1, size).astype(np.float64)
    if not (abs((vectors**2).sum(axis=1) - 1) < 0.01).all():  # also for a NaN
        raise ValueError(f"{VECTORS} has vectors whose length is not 1")
    if "token_vectors" not in batch.schema.names:
        return
    ids = batch.column("token_ids").to_pylist()
    counts = [len(signs) * 8 / size for signs in batch.column("token_vectors").to_pylist()]
    if any(len(one) % 4 for one in ids) or any(count % 1 for count in counts):
        raise ValueError(f"{VECTORS} has damaged tokens")
    if np.frombuffer(b"".join(ids), "<u4").max(initial=0) >= _MOST_TOKENS:
        raise ValueError(f"{VECTORS} has unknown tokens")


def _check_metadata(row: Mapping[str, Any]) -> None:
    values = json.loads(row["metadata"] or "{}")
    if not isinstance(values, dict) or any(isinstance(v, dict | list) for v in values.values()):
        raise ValueError(f"{row['document_id']}: the metadata are not named values")


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file. Raise ValueError if a batch is invalid."""
    size = 0
    with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as rows:
        schema = DOCUMENTS_SCHEMA if file.name == DOCUMENTS else stored_schema(rows.schema)
        for batch in rows:
            batch = with_schema(batch, schema)
            batch.validate(full=True)
            size += batch.nbytes
            if size > _MOST_GROWTH * file.stat().st_size:
                raise ValueError(f"{file.name} grows to more than {_MOST_GROWTH} times its size")
            required = (f.name for f in schema if not f.nullable)
            if empty := [name for name in required if batch.column(name).null_count]:
                raise ValueError(f"{file.name}: {empty[0]} has missing values")
            if file.name == VECTORS:
                _check_vectors(batch)
                batch = batch.drop_columns(["vector"])
            yield from batch.to_pylist()


def stored_schema(stored: pa.Schema) -> pa.Schema:
    """Return the schema of a vector index with the dimension and columns of `stored`."""
    size = stored.field("vector").type.list_size
    return vector_schema(size, "token_vectors" in stored.names)


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of a schema, in its order."""
    return pa.RecordBatch.from_arrays([batch.column(n) for n in schema.names], schema=schema)
