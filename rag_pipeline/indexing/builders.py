"""The rows of some documents in each sharded table, made from the table before it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial

import pyarrow as pa

from rag_pipeline.calls.progress import advance
from rag_pipeline.chunking import chunk
from rag_pipeline.config import Key
from rag_pipeline.config.contextualizers import Chunked
from rag_pipeline.datamodels import (
    CHUNKS_SCHEMA,
    CONTEXTUALIZED_CHUNKS_SCHEMA,
    Chunk,
    Document,
    MetadataValue,
    parse_metadata,
    rows_of,
)
from rag_pipeline.errors import DocumentError, ProviderError, TextsFailedError, UnknownReplyError
from rag_pipeline.indexing.plans import Report
from rag_pipeline.loading.code import SYMBOLS
from rag_pipeline.search import vector_index
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace


def read_documents(
    workspace: Workspace, document_ids: Sequence[str], version: int | None = None
) -> Iterator[Document]:
    """Stream loaded documents from the store, as they are now or at a pinned version."""
    columns = [f.name for f in fields(Document)]
    for batch in workspace.documents().read(columns, document_ids, version, batch_rows=16):
        for row in batch.to_pylist():
            row["metadata"] = parse_metadata(row["metadata"])
            yield Document(**row)


def build_chunks(
    workspace: Workspace, key: Key, document_ids: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    """Chunk documents; those that can't be chunked go to `report.quarantined`."""
    settings = workspace.config.chunkings[key.chunking]
    models = workspace.models(report.calls)
    fingerprint = workspace.config.chunks_fingerprint(key.chunking)
    for document in read_documents(workspace, document_ids):
        try:
            chunks = chunk(document, settings, models)
            if not chunks:
                raise DocumentError(document.document_id, f"{key.chunking}: no chunks")
        except DocumentError as error:
            report.quarantined[document.document_id] = error.reason
            continue
        except (UnknownReplyError, TextsFailedError) as error:
            report.failed[document.document_id] = str(error)
            continue
        advance("documents", 1)
        yield rows_of(_chunk_columns(document, chunks, fingerprint), CHUNKS_SCHEMA)


def _chunk_columns(
    document: Document, chunks: Sequence[Chunk], fingerprint: str
) -> dict[str, Sequence[object]]:
    return {
        "document_id": [document.document_id] * len(chunks),
        "content_hash": [document.content_hash] * len(chunks),
        "fingerprint": [fingerprint] * len(chunks),
        "chunk_id": [c.chunk_id for c in chunks],
        "start": [c.start for c in chunks],
        "end": [c.end for c in chunks],
        "text": [c.text for c in chunks],
    }


def build_contexts(
    workspace: Workspace, key: Key, document_ids: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    """Contextualize the chunks of documents; those that a model fails on go to `report.failed`."""
    settings = workspace.config.contextualizers[key.contextualizer]
    fingerprint = workspace.config.context_fingerprint(*key.variants)
    hashes: dict[str, str] = {}
    chunks: dict[str, list[Chunk]] = {}
    columns = ["document_id", "content_hash", "start", "end", "text"]
    for batch in workspace.chunks(key).read(columns, document_ids):
        for row in batch.to_pylist():
            hashes[row["document_id"]] = row.pop("content_hash")
            chunks.setdefault(row["document_id"], []).append(Chunk(**row))
    sources = (
        (document, sorted(chunks.pop(document.document_id), key=lambda c: (c.start, c.end)))
        for document in read_documents(workspace, sorted(chunks))
        # Chunks of an earlier text are made anew before their document is contextualized.
        if hashes[document.document_id] == document.content_hash
    )
    models = workspace.models(report.calls)

    def counted() -> Iterator[Chunked]:
        for document, own in sources:
            if settings.is_too_long(document, own, workspace.config):
                report.too_long.append(document.document_id)
            yield document, own

    for document, contextualized in settings.contextualize(counted(), models):
        if isinstance(contextualized, ProviderError):
            report.failed[document.document_id] = str(contextualized)
            continue
        own = [c.chunk for c in contextualized]
        rows = _chunk_columns(document, own, fingerprint)
        rows["content_hash"] = [hashes[document.document_id]] * len(own)
        rows["title"] = [document.title] * len(own)
        rows["metadata"] = [json.dumps(_of_chunks(document), sort_keys=True)] * len(own)
        rows["context"] = [c.context for c in contextualized]
        advance("chunks", len(own))
        yield rows_of(rows, CONTEXTUALIZED_CHUNKS_SCHEMA)


def _of_chunks(document: Document) -> dict[str, MetadataValue]:
    """Return the metadata that each chunk repeats: all but where definitions stand."""
    return {k: v for k, v in document.metadata.items() if k != SYMBOLS}


def read_in_order(
    table: Table, columns: Sequence[str], document_ids: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of documents as one batch: document by document, chunks as they stand in it.

    Models that embed a document's chunks together want them so, and requests to any are fuller.
    The rows are those of a shard, which bounds them.
    """
    import pyarrow.compute as pc

    batches = list(table.read(list(columns), document_ids))
    if batches:
        order = [("document_id", "ascending"), ("start", "ascending"), ("end", "ascending")]
        rows = pa.Table.from_batches(batches)
        places = pc.sort_indices(rows.select(["document_id", "start", "end"]), sort_keys=order)
        yield from rows.take(places).combine_chunks().to_batches()


def build_vectors(
    workspace: Workspace, key: Key, document_ids: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    """Embed the contextualized chunks of documents; those it fails on go to `report.failed`."""
    table = workspace.contextualized_chunks(key)
    embed = workspace.embed(key.embedding, report.calls)
    schema = workspace.vector_index(key).schema
    fingerprint = workspace.config.vector_fingerprint(*key.variants)
    for batch in read_in_order(table, CONTEXTUALIZED_CHUNKS_SCHEMA.names, document_ids):
        while batch.num_rows:
            documents = batch.column("document_id").to_pylist()
            whole = partial(embed, documents=documents)
            try:
                yield from vector_index.index_chunks([batch], whole, schema, fingerprint)
                break
            except TextsFailedError as error:
                for document_id, text in zip(
                    documents, vector_index.indexed_texts(batch), strict=True
                ):
                    if text in error.failed:
                        reason = str(TextsFailedError({text: error.failed[text]}))
                        report.failed.setdefault(document_id, reason)
                rest = [document_id not in report.failed for document_id in documents]
                batch = batch.filter(pa.array(rest))
