"""Plan and build the tables of chunks, contextualized chunks and vectors.

A table is built in shards of documents. One commit replaces the old rows of a shard.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from rag_pipeline.calls.grouping import groups
from rag_pipeline.calls.progress import advance
from rag_pipeline.chunking import chunk
from rag_pipeline.config import ChatSettings, Key
from rag_pipeline.config.contextualizers import Chunked
from rag_pipeline.datamodels import Chunk, Document
from rag_pipeline.errors import (
    DocumentError,
    ProviderError,
    TextsFailedError,
    UnknownReplyError,
    blaming,
)
from rag_pipeline.indexing.loads import read_documents
from rag_pipeline.indexing.plans import (
    MADE_OTHERWISE,
    MAX_SHARD_DOCUMENTS,
    Plan,
    Report,
    quarantine_rows,
)
from rag_pipeline.loading.code import SYMBOLS
from rag_pipeline.search import vector_index
from rag_pipeline.search.copies import find_copies
from rag_pipeline.store import DocumentState, Table, TableState
from rag_pipeline.store.schemas import CHUNKS_SCHEMA, CONTEXTUALIZED_CHUNKS_SCHEMA, rows_of
from rag_pipeline.workspace import Workspace

_BATCH_DOCUMENTS = 2_000
"""Maximum number of documents in a shard whose prompts go to a batch API."""
_NAMED = 3
"""An error names the documents of this many chunks."""
_FEW = 0.05
"""Maximum share of documents (0 to 1) that lose their rows in a run because a model failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePartition:
    """One partition of a table, with its upstream table."""

    workspace: Workspace
    key: Key
    table: Table
    fingerprint: str
    upstream: Table
    upstream_fingerprint: str
    build: Callable[[Sequence[str], Report], Iterator[pa.RecordBatch]]
    """A function that yields the rows of documents, and records failures in the report."""
    shard_weight: int
    """Maximum size of a shard: characters for chunks, rows for the other tables."""
    shard_documents: int | None = None
    """Maximum number of documents in a shard, by default `MAX_SHARD_DOCUMENTS`."""
    covered: Callable[[Iterable[str]], set[str]] = set
    """A function that selects the documents that belong in the table."""
    maintain: Callable[[Table], object] = Table.compact

    @property
    def quarantine(self) -> Table:
        """Return the table of the documents that could not be used."""
        return self.workspace.quarantine(self.table.name)


def _chunks(workspace: Workspace, key: Key) -> TablePartition:
    config, key = workspace.config, key.at("chunking")
    has_spans = partial(config.chunkings[key.chunking].covers, config)

    def covered(document_ids: Iterable[str]) -> set[str]:
        copies = find_copies(workspace)
        known = {d for d in document_ids if has_spans(d)}
        return {d for d in known if d not in copies or not has_spans(copies[d])}

    return TablePartition(
        workspace=workspace,
        key=key,
        table=workspace.chunks(key),
        fingerprint=config.chunks_fingerprint(key.chunking),
        upstream=workspace.documents(),
        upstream_fingerprint=config.documents_fingerprint(),
        build=partial(build_chunks, workspace, key),
        shard_weight=2_000_000,
        covered=covered,
    )


def _contextualized_chunks(workspace: Workspace, key: Key) -> TablePartition:
    config, key = workspace.config, key.at("contextualizer")
    asked = config.contextualizers[key.contextualizer].models_used(config)
    # Shards are larger: a batch may take a day, and a process runs its shards one after the other.
    in_batches = any(isinstance(m, ChatSettings) and m.batch for m in asked)
    return TablePartition(
        workspace=workspace,
        key=key,
        table=workspace.contextualized_chunks(key),
        fingerprint=config.context_fingerprint(*key.variants),
        upstream=workspace.chunks(key),
        upstream_fingerprint=config.chunks_fingerprint(key.chunking),
        build=partial(build_contexts, workspace, key),
        shard_weight=20_000 if in_batches else 4_000,
        shard_documents=_BATCH_DOCUMENTS if in_batches else None,
    )


def _vector_index(workspace: Workspace, key: Key) -> TablePartition:
    config, key = workspace.config, key.at("embedding")
    return TablePartition(
        workspace=workspace,
        key=key,
        table=workspace.vector_index(key),
        fingerprint=config.vector_fingerprint(*key.variants),
        upstream=workspace.contextualized_chunks(key),
        upstream_fingerprint=config.context_fingerprint(*key.at("contextualizer").variants),
        build=partial(build_vectors, workspace, key),
        shard_weight=2_000,
        maintain=vector_index.maintain,
    )


TABLES: dict[str, Callable[[Workspace, Key], TablePartition]] = {
    "chunks": _chunks,
    "contextualized_chunks": _contextualized_chunks,
    "vector_index": _vector_index,
}
"""Functions that open a partition of each table, in the order in which tables are built."""


def open_partition(workspace: Workspace, asset: str, partition: str) -> TablePartition:
    """Return one partition (`chunking[.contextualizer[.embedding]]`) of a table."""
    return TABLES[asset](workspace, Key.parse(partition))


def plan(partition: TablePartition) -> Plan:
    """Return the documents to build and to drop, from the states of a table and its upstream."""
    before, mine = partition.upstream.state(), partition.table.state()
    refused = partition.quarantine.state()
    covered = partition.covered(before)
    per_chunk = "chunk_id" in partition.upstream.schema.names
    stale: list[str] = []
    missing: list[str] = []
    waiting = current = 0
    why = ""
    for document_id in sorted(covered):
        state = before[document_id]
        if state.fingerprint != partition.upstream_fingerprint:
            waiting += 1
            why = MADE_OTHERWISE if document_id in mine else why
            continue
        done = mine.get(document_id) or refused.get(document_id)
        rows = state.rows if per_chunk and document_id in mine else done and done.rows
        if done is not None and done == (state.content_hash, partition.fingerprint, rows):
            current += 1
        else:
            stale.append(document_id)
            if document_id not in mine and _is_failed(done, state):
                missing.append(document_id)
            if done is not None and done.content_hash == state.content_hash and done.fingerprint:
                why = MADE_OTHERWISE
    weights = _weights(partition, before) if stale else {}
    total = sum(weights[d] for d in covered) if missing else 1
    most = partition.shard_documents or MAX_SHARD_DOCUMENTS
    grouped = groups((weights[d] for d in stale), most, partition.shard_weight)
    return Plan(
        stale=tuple(stale),
        orphaned=tuple(sorted({*mine, *refused} - covered)),
        current=current,
        waiting=waiting,
        shards=tuple(tuple(stale[place] for place in group) for group in grouped),
        why=why,
        missing=tuple(missing),
        missing_share=sum(weights[d] for d in missing) / total,
    )


def _is_failed(done: DocumentState | None, upstream: DocumentState) -> bool:
    """Return whether a model failed on the current content of a document."""
    return done is not None and done[:2] == (upstream.content_hash, "")


def build_shard(
    partition: TablePartition, document_ids: Sequence[str], orphaned: Sequence[str] = ()
) -> Report:
    """Replace the rows of documents and drop the rows of `orphaned` documents, in one commit.

    If a model fails on a document, the document enters quarantine, stays stale, and keeps its rows
    until `finish`. Raise ProviderError if all documents fail and the table is empty.
    """
    started = time.perf_counter()
    report = Report(documents=len(document_ids))
    partition.table.ensure()
    batches = list(partition.build(document_ids, report))
    if report.failed and len(report.failed) == len(document_ids) and not partition.table.state():
        first = next(iter(report.failed.values()))
        others = len(report.failed) - 1
        raise ProviderError(first + (f" (and {others} more documents)" if others else ""))
    done = [d for d in document_ids if d not in report.failed]
    report.rows = partition.table.replace([*done, *orphaned], batches)
    states = partition.upstream.state() if report.quarantined or report.failed else {}
    if report.failed:
        earlier = partition.quarantine.state()
        report.again = {i for i in report.failed if _is_failed(earlier.get(i), states[i])}
    if states:
        partition.quarantine.ensure()
    if partition.quarantine.exists():
        # Without a fingerprint, a failed document is tried again by the next run.
        causes = ((report.quarantined, partition.fingerprint), (report.failed, ""))
        rows = [
            quarantine_rows(
                [(i, states[i].content_hash, reason) for i, reason in reasons.items()],
                fingerprint,
                partition.table.name,
            )
            for reasons, fingerprint in causes
        ]
        partition.quarantine.replace([*document_ids, *orphaned], rows)
    report.seconds = time.perf_counter() - started
    return report


def finish(
    partition: TablePartition, orphaned: Sequence[str], changed: bool, blamed: Sequence[str] = ()
) -> TableState:
    """Drop the rows of orphaned documents, maintain a changed table, and return its state.

    The `blamed` documents, on which a model failed, also lose their rows, so that they do not block
    a release. If more than 5 % of the documents are blamed, the model may be the cause. In this
    case, the blamed documents keep their rows.
    """
    partition.table.ensure()
    made = partition.table.state()
    outdated = [document_id for document_id in blamed if document_id in made]
    if len(outdated) > max(1, _FEW * len(made)):
        outdated = []
    partition.table.drop([*orphaned, *outdated])
    if partition.quarantine.exists():
        partition.quarantine.drop(orphaned)
    if changed or orphaned or outdated:
        partition.maintain(partition.table)
        partition.workspace.store.hash_table(partition.table.name)
    return partition.table.state()


def update_partition(partition: TablePartition, todo: Plan) -> tuple[Report, TableState]:
    """Build the shards of a plan in this process, and return the report and the new state."""
    report = Report(dropped=len(todo.orphaned))
    for place, shard in enumerate(todo.shards):
        report.add(build_shard(partition, shard, () if place else todo.orphaned))
    return report, finish(partition, todo.orphaned, bool(todo.shards), report.blamed)


def update(workspace: Workspace, asset: str, partition: str) -> Report:
    """Bring one partition of a table up to date in this process."""
    opened = open_partition(workspace, asset, partition)
    return update_partition(opened, plan(opened))[0]


def _weights(partition: TablePartition, before: TableState) -> Mapping[str, int]:
    if "characters" not in partition.upstream.schema.names:
        return {document_id: state.rows for document_id, state in before.items()}
    rows = partition.upstream.read_rows(["document_id", "characters"])
    return {row["document_id"]: row["characters"] for row in rows}


# --- rows ---


def build_chunks(
    workspace: Workspace, key: Key, document_ids: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    """Yield the chunks of documents, and add unusable documents to `report.quarantined`."""
    settings = workspace.config.chunkings[key.chunking]
    models = workspace.models(report.calls)
    fingerprint = workspace.config.chunks_fingerprint(key.chunking)
    for document in read_documents(workspace, document_ids):
        try:
            with blaming(f"chunkings.{key.chunking}: {document.document_id}"):
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
    document: Document, chunks: Sequence[Chunk], fingerprint: str, **more: str
) -> dict[str, Sequence[object]]:
    """Return the columns of chunks. Every row repeats the values of `more`."""
    same = {
        "document_id": document.document_id,
        "content_hash": document.content_hash,
        "fingerprint": fingerprint,
        **more,
    }
    return {
        **{name: [value] * len(chunks) for name, value in same.items()},
        "chunk_id": [c.chunk_id for c in chunks],
        "start": [c.start for c in chunks],
        "end": [c.end for c in chunks],
        "text": [c.text for c in chunks],
    }


def build_contexts(
    workspace: Workspace, key: Key, document_ids: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    """Yield contextualized chunks, and record failed documents in `report.failed`."""
    settings = workspace.config.contextualizers[key.contextualizer]
    fingerprint = workspace.config.context_fingerprint(*key.variants)
    hashes: dict[str, str] = {}
    chunks: dict[str, list[Chunk]] = {}
    read = ""
    columns = ["document_id", "content_hash", "start", "end", "text"]
    for row in workspace.chunks(key).read_rows(columns, document_ids):
        hashes[row["document_id"]] = row.pop("content_hash")
        chunks.setdefault(row["document_id"], []).append(Chunk(**row))

    def counted() -> Iterator[Chunked]:
        nonlocal read
        for document in read_documents(workspace, sorted(chunks)):
            read = document.document_id
            own = sorted(chunks.pop(document.document_id), key=lambda c: (c.start, c.end))
            # Skip chunks of an earlier text. They are rebuilt before their document has contexts.
            if hashes[document.document_id] != document.content_hash:
                continue
            if settings.is_too_long(document, own, workspace.config):
                report.too_long.append(document.document_id)
            yield document, own

    with blaming(lambda: f"contextualizers.{key.contextualizer}: {read}"):
        for document, contextualized in settings.contextualize(
            counted(), workspace.models(report.calls)
        ):
            if isinstance(contextualized, ProviderError):
                report.failed[document.document_id] = str(contextualized)
                continue
            own = [c.chunk for c in contextualized]
            repeated = {k: v for k, v in document.metadata.items() if k != SYMBOLS}
            same = {"title": document.title, "metadata": json.dumps(repeated, sort_keys=True)}
            rows = _chunk_columns(document, own, fingerprint, **same)
            rows["context"] = [c.context for c in contextualized]
            advance("chunks", len(own))
            yield rows_of(rows, CONTEXTUALIZED_CHUNKS_SCHEMA)


def read_in_order(
    table: Table, columns: Sequence[str], document_ids: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of documents as one batch, sorted by document, start and end.

    Contextual models, which embed a document's chunks together, need this order.
    """
    batches = list(table.read(list(columns), document_ids))
    if batches:
        order = [("document_id", "ascending"), ("start", "ascending"), ("end", "ascending")]
        yield from pa.Table.from_batches(batches).sort_by(order).combine_chunks().to_batches()


def build_vectors(
    workspace: Workspace, key: Key, document_ids: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    """Yield the chunks of documents with vectors, and record failed documents in the report."""
    table = workspace.contextualized_chunks(key)
    embed = workspace.embed(key.embedding, report.calls)
    schema = workspace.vector_index(key).schema
    fingerprint = workspace.config.vector_fingerprint(*key.variants)
    for batch in read_in_order(table, CONTEXTUALIZED_CHUNKS_SCHEMA.names, document_ids):
        while batch.num_rows:
            documents = batch.column("document_id").to_pylist()
            whole = partial(embed, documents=documents)
            few = ", ".join(dict.fromkeys(documents[:_NAMED]))
            try:
                with blaming(f"embeddings.{key.embedding}: {few}"):
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
