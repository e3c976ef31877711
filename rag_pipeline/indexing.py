"""Bring the tables of a corpus up to date: plan what is stale, build it in shards, drop orphans.

A document is *stale* in a table when its rows there are missing or made from something else, and
*orphaned* when the table before has it no longer. Whatever a crash leaves undone is stale again.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rag_pipeline import vector_index
from rag_pipeline.calls import CallCounts
from rag_pipeline.chunking import chunk, read_given_chunks
from rag_pipeline.config import GivenChunking, SemanticChunking
from rag_pipeline.contextualization import contextualize
from rag_pipeline.datamodels import (
    CHUNKS_SCHEMA,
    CONTEXTUALIZED_CHUNKS_SCHEMA,
    DOCUMENTS_SCHEMA,
    QUARANTINE_SCHEMA,
    Chunk,
    Document,
)
from rag_pipeline.embedding import missing_texts
from rag_pipeline.errors import DocumentError, StoreError
from rag_pipeline.lexical_index import build_lexical_index
from rag_pipeline.loading import Rejected, Source, scan
from rag_pipeline.progress import advance
from rag_pipeline.providers import Vectors
from rag_pipeline.retrieval import parse_metadata
from rag_pipeline.store import DocumentState, Table, state_digest
from rag_pipeline.workspace import Workspace

SHARDED_ASSETS = ("chunks", "contextualized_chunks", "vector_index")
MAX_SHARD_DOCUMENTS = 256
_LOAD_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What a materialization of one partition would do."""

    stale: tuple[str, ...]
    orphaned: tuple[str, ...]
    current: int
    waiting: int = 0
    """Documents whose rows in the table before are themselves stale."""
    shards: tuple[tuple[str, ...], ...] = ()

    @property
    def is_current(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self.stale or self.orphaned or self.waiting)


@dataclass(slots=True)
class Report:
    """What a materialization did."""

    documents: int = 0
    rows: int = 0
    dropped: int = 0
    quarantined: dict[str, str] = field(default_factory=dict)
    calls: CallCounts = field(default_factory=CallCounts)
    seconds: float = 0.0

    def add(self, other: "Report") -> None:
        """Add the work of another shard."""
        self.documents += other.documents
        self.rows += other.rows
        self.dropped += other.dropped
        self.quarantined.update(other.quarantined)
        self.calls.add(other.calls)
        self.seconds += other.seconds


# --- documents ---


def plan_documents(workspace: Workspace) -> Plan:
    """Compare the files with what was loaded; reads and hashes every file, parses none."""
    stale, seen, _ = _compare_documents(workspace)
    known = set(workspace.documents().state()) | set(workspace.quarantine("documents").state())
    names = tuple(s.document_id for s in stale)
    return Plan(names, tuple(sorted(known - seen)), len(seen) - len(names))


def update_documents(workspace: Workspace) -> Report:
    """Load new and changed files, quarantine what can't be used, drop what is gone."""
    started = time.perf_counter()
    report = Report()
    documents, quarantine = workspace.documents(), workspace.quarantine("documents")
    documents.ensure()
    quarantine.ensure()
    fingerprint = workspace.config.documents_fingerprint()
    stale, seen, known = _compare_documents(workspace)
    good: list[Document] = []
    bad: list[tuple[str, str, str]] = []

    def commit() -> None:
        gone = [i for i, _, _ in bad if i in known] + [
            d.document_id for d in good if d.document_id in known
        ]
        documents.drop(gone)
        quarantine.drop(gone)
        if good:
            batch = _document_rows(good, fingerprint)
            report.rows += documents.replace([], [batch])
        if bad:
            quarantine.replace([], [_quarantine_rows(bad, fingerprint, "documents")])
        report.documents += len(good)
        report.quarantined.update({i: reason for i, _, reason in bad})
        good.clear()
        bad.clear()

    pending = 0
    for source in stale:
        try:
            if isinstance(source, Rejected):
                raise DocumentError(source.document_id, source.reason)
            document = source.load()
            good.append(document)
            pending += len(document.text)
        except DocumentError as error:
            bad.append((source.document_id, source.content_hash, error.reason))
        advance("documents", 1)
        if pending > _LOAD_CHARACTERS or len(good) + len(bad) >= MAX_SHARD_DOCUMENTS:
            commit()
            pending = 0
    commit()
    orphans = sorted(known - seen)
    documents.drop(orphans)
    quarantine.drop(orphans)
    report.dropped = len(orphans)
    if report.documents or report.dropped:
        documents.compact()
    report.seconds = time.perf_counter() - started
    return report


def _compare_documents(
    workspace: Workspace,
) -> tuple[list[Source | Rejected], set[str], set[str]]:
    """Return the stale sources, the ids of all sources, and the ids that the tables know."""
    config = workspace.config
    fingerprint = config.documents_fingerprint()
    loaded = workspace.documents().state()
    refused = workspace.quarantine("documents").state()
    stale: list[Source | Rejected] = []
    seen: set[str] = set()
    for source in scan(config.documents, config.documents_path):
        seen.add(source.document_id)
        before = loaded.get(source.document_id) or refused.get(source.document_id)
        if before is None or before[:2] != (source.content_hash, fingerprint):
            stale.append(source)
    return stale, seen, set(loaded) | set(refused)


def _document_rows(documents: Sequence[Document], fingerprint: str) -> pa.RecordBatch:
    columns = {
        "document_id": [d.document_id for d in documents],
        "content_hash": [d.content_hash for d in documents],
        "fingerprint": [fingerprint] * len(documents),
        "title": [d.title for d in documents],
        "metadata": [json.dumps(dict(d.metadata), sort_keys=True) for d in documents],
        "media_type": [d.media_type for d in documents],
        "characters": [len(d.text) for d in documents],
        "text": [d.text for d in documents],
    }
    return rows_of(columns, DOCUMENTS_SCHEMA)


def _quarantine_rows(
    refused: Sequence[tuple[str, str, str]], fingerprint: str, stage: str
) -> pa.RecordBatch:
    columns = {
        "document_id": [r[0] for r in refused],
        "content_hash": [r[1] for r in refused],
        "fingerprint": [fingerprint] * len(refused),
        "stage": [stage] * len(refused),
        "reason": [r[2] for r in refused],
    }
    return rows_of(columns, QUARANTINE_SCHEMA)


def rows_of(columns: Mapping[str, Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a schema from lists; JSON columns from their text."""
    arrays = [pa.array(columns[f.name], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# --- chunks, contextualized chunks, vectors: sharded ---


@dataclass(frozen=True, slots=True)
class Stage:
    """One partition of a sharded asset: from which table to which, and how."""

    table: Table
    quarantine: Table
    fingerprint: str
    upstream: Table
    upstream_fingerprint: str
    covers: Callable[[str], bool]
    shard_weight: int
    """The most that a shard holds: characters for chunks, rows for the others."""
    build: Callable[[Sequence[str], Report], Iterator[pa.RecordBatch]]
    maintain: Callable[[Table], object]


def open_stage(workspace: Workspace, asset: str, partition: str) -> Stage:
    """Return the stage of one partition (`chunking[.contextualizer[.embedding]]`)."""
    config = workspace.config
    names = partition.split(".")
    quarantine = workspace.quarantine(f"{asset}.{partition}")
    if asset == "chunks":
        settings = config.chunkings[partition]
        given = (
            read_given_chunks(config.chunks_path(partition))
            if isinstance(settings, GivenChunking)
            else None
        )
        return Stage(
            workspace.chunks(partition),
            quarantine,
            config.chunks_fingerprint(partition),
            workspace.documents(),
            config.documents_fingerprint(),
            lambda document_id: given is None or document_id in given,
            2_000_000,
            lambda ids, report: _build_chunks(workspace, partition, ids, report, given),
            Table.compact,
        )
    if asset == "contextualized_chunks":
        return Stage(
            workspace.contextualized_chunks(partition),
            quarantine,
            config.context_fingerprint(*names),
            workspace.chunks(names[0]),
            config.chunks_fingerprint(names[0]),
            lambda _: True,
            4_000,
            lambda ids, report: _build_contexts(workspace, partition, ids),
            Table.compact,
        )
    if asset == "vector_index":
        return Stage(
            workspace.vector_index(partition),
            quarantine,
            config.vector_fingerprint(*names),
            workspace.contextualized_chunks(".".join(names[:2])),
            config.context_fingerprint(*names[:2]),
            lambda _: True,
            2_000,
            lambda ids, report: _build_vectors(workspace, partition, ids, report),
            vector_index.maintain,
        )
    raise ValueError(f"{asset!r} is not one of: {', '.join(SHARDED_ASSETS)}")


def plan(stage: Stage) -> Plan:
    """Compare a table with the one before it; read both tables' states, no rows."""
    before, mine = stage.upstream.state(), stage.table.state()
    refused = stage.quarantine.state()
    stale: list[str] = []
    waiting = current = 0
    for document_id in sorted(before):
        state = before[document_id]
        if not stage.covers(document_id):
            continue
        if state.fingerprint != stage.upstream_fingerprint:
            waiting += 1
            continue
        done = mine.get(document_id) or refused.get(document_id)
        if done is not None and done[:2] == (state.content_hash, stage.fingerprint):
            current += 1
        else:
            stale.append(document_id)
    known = (set(mine) | set(refused)) - {d for d in before if stage.covers(d)}
    shards = _shards(stale, _weights(stage, before, stale), stage.shard_weight)
    return Plan(tuple(stale), tuple(sorted(known)), current, waiting, shards)


def build_shard(stage: Stage, document_ids: Sequence[str]) -> Report:
    """Build the rows of these documents and put them in the place of the old ones."""
    started = time.perf_counter()
    report = Report(documents=len(document_ids))
    stage.table.ensure()
    batches = list(stage.build(document_ids, report))
    report.rows = stage.table.replace(document_ids, batches)
    if stage.quarantine.exists():
        stage.quarantine.drop(document_ids)
    if report.quarantined:
        stage.quarantine.ensure()
        states = stage.upstream.state()
        refused = [(i, states[i].content_hash, r) for i, r in report.quarantined.items()]
        name = stage.quarantine.name.removeprefix("quarantine.")
        stage.quarantine.replace([], [_quarantine_rows(refused, stage.fingerprint, name)])
    report.seconds = time.perf_counter() - started
    return report


def finish(stage: Stage, orphaned: Sequence[str], changed: bool) -> dict[str, DocumentState]:
    """Drop the orphans' rows, maintain the table if it changed, return what it now holds."""
    stage.table.ensure()
    stage.table.drop(orphaned)
    if stage.quarantine.exists():
        stage.quarantine.drop(orphaned)
    if changed or orphaned:
        stage.maintain(stage.table)
    return stage.table.state()


def update(workspace: Workspace, asset: str, partition: str) -> Report:
    """Bring one partition of a sharded asset up to date in this process."""
    stage = open_stage(workspace, asset, partition)
    todo = plan(stage)
    report = Report(dropped=len(todo.orphaned))
    for shard in todo.shards:
        report.add(build_shard(stage, shard))
    finish(stage, todo.orphaned, bool(todo.shards))
    return report


def count_calls(workspace: Workspace, partition: str, document_ids: Sequence[str]) -> int:
    """Return how many texts building these documents' vectors would send to the model."""
    context_key, _, embedding = partition.rpartition(".")
    table = workspace.contextualized_chunks(context_key)
    texts: set[str] = set()
    for batch in table.read(["context", "text"], document_ids):
        texts.update(
            vector_index.indexed_text(row["context"], row["text"]) for row in batch.to_pylist()
        )
    return missing_texts(sorted(texts), workspace.embedder(embedding), workspace.cache)


def _weights(
    stage: Stage, before: Mapping[str, DocumentState], stale: Sequence[str]
) -> Mapping[str, int]:
    if "characters" not in stage.upstream.schema.names:
        return {d: before[d].rows for d in stale}
    if not stale:
        return {}
    sizes: dict[str, int] = {}
    for batch in stage.upstream.read(["document_id", "characters"]):
        columns = batch.to_pydict()
        sizes.update(zip(columns["document_id"], columns["characters"], strict=True))
    return sizes


def _shards(
    stale: Sequence[str], weights: Mapping[str, int], limit: int
) -> tuple[tuple[str, ...], ...]:
    shards: list[tuple[str, ...]] = []
    shard: list[str] = []
    weight = 0
    for document_id in stale:
        size = weights[document_id]
        if shard and (weight + size > limit or len(shard) >= MAX_SHARD_DOCUMENTS):
            shards.append(tuple(shard))
            shard, weight = [], 0
        shard.append(document_id)
        weight += size
    if shard:
        shards.append(tuple(shard))
    return tuple(shards)


def read_documents(workspace: Workspace, document_ids: Sequence[str]) -> Iterator[Document]:
    """Stream loaded documents from the store."""
    columns = ["document_id", "content_hash", "text", "title", "media_type", "metadata"]
    for batch in workspace.documents().read(columns, document_ids, batch_rows=16):
        for row in batch.to_pylist():
            row["metadata"] = parse_metadata(row["metadata"])
            yield Document(**row)


def _build_chunks(
    workspace: Workspace,
    chunking: str,
    document_ids: Sequence[str],
    report: Report,
    given: Mapping[str, Sequence[tuple[int, int]]] | None,
) -> Iterator[pa.RecordBatch]:
    settings = workspace.config.chunkings[chunking]
    embed: Callable[[Sequence[str]], Vectors] | None = None
    if isinstance(settings, SemanticChunking):
        embed = workspace.sentence_embed(settings, report.calls)
    fingerprint = workspace.config.chunks_fingerprint(chunking)
    for document in read_documents(workspace, document_ids):
        try:
            chunks = chunk(document, settings, embed=embed, given=given)
            if not chunks:
                raise DocumentError(document.document_id, f"{chunking}: no chunks")
        except DocumentError as error:
            report.quarantined[document.document_id] = error.reason
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


def _build_contexts(
    workspace: Workspace, partition: str, document_ids: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    chunking, contextualizer = partition.split(".")
    settings = workspace.config.contextualizers[contextualizer]
    fingerprint = workspace.config.context_fingerprint(chunking, contextualizer)
    hashes: dict[str, str] = {}
    chunks: dict[str, list[Chunk]] = {}
    columns = ["document_id", "content_hash", "start", "end", "text"]
    for batch in workspace.chunks(chunking).read(columns, document_ids):
        for row in batch.to_pylist():
            hashes[row["document_id"]] = row.pop("content_hash")
            chunks.setdefault(row["document_id"], []).append(Chunk(**row))
    for document in read_documents(workspace, sorted(chunks)):
        if hashes[document.document_id] != document.content_hash:
            continue  # its chunks are of an earlier text; they are made anew before it is
        own = sorted(chunks.pop(document.document_id), key=lambda c: (c.start, c.end))
        contextualized = contextualize(document, own, settings)
        rows = _chunk_columns(document, own, fingerprint)
        rows["content_hash"] = [hashes[document.document_id]] * len(own)
        rows["title"] = [document.title] * len(own)
        rows["metadata"] = [json.dumps(dict(document.metadata), sort_keys=True)] * len(own)
        rows["context"] = [c.context for c in contextualized]
        advance("chunks", len(own))
        yield rows_of(rows, CONTEXTUALIZED_CHUNKS_SCHEMA)


def _build_vectors(
    workspace: Workspace, partition: str, document_ids: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    context_key, _, embedding = partition.rpartition(".")
    table = workspace.contextualized_chunks(context_key)
    return vector_index.index_chunks(
        table.read(CONTEXTUALIZED_CHUNKS_SCHEMA.names, document_ids),
        workspace.embed(embedding, report.calls),
        workspace.embedder(embedding).dimension,
        workspace.config.vector_fingerprint(*partition.split(".")),
    )


# --- lexical index: built whole, as its statistics are the whole corpus's ---


def plan_lexical(workspace: Workspace, context_key: str) -> list[str]:
    """Return the engines whose index of the chunks as they are now has not been built."""
    return [
        engine
        for engine in workspace.config.lexical_engines(context_key)
        if not workspace.store.has_folder(workspace.lexical_path(context_key, engine))
    ]


def update_lexical(workspace: Workspace, context_key: str) -> Report:
    """Build the missing lexical indexes of one `chunking.contextualizer`."""
    started = time.perf_counter()
    report = Report()
    table = workspace.contextualized_chunks(context_key)
    for engine in plan_lexical(workspace, context_key):
        path = workspace.lexical_path(context_key, engine)
        folder = workspace.store.building_folder(path)
        try:
            columns = ["chunk_id", "document_id", "text", "context"]
            stats = build_lexical_index(
                engine, table.read(columns), workspace.config.lexical, folder
            )
            workspace.store.publish_folder(folder, path)
        except OSError as error:
            raise StoreError(f"{path}: cannot write the lexical index: {error}") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        report.rows += stats.rows
        advance("chunks", stats.rows)
    report.documents = len(table.state())
    report.seconds = time.perf_counter() - started
    return report


def digest(table: Table) -> str:
    """Hash what a table holds (see `store.state_digest`)."""
    return state_digest(table.state())
