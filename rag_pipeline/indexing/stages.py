"""The sharded tables: plan what is stale, build it shard by shard, finish."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rag_pipeline import vector_index
from rag_pipeline.chunking import read_given_chunks
from rag_pipeline.config import GivenChunking
from rag_pipeline.embedding import missing_texts
from rag_pipeline.indexing.builders import build_chunks, build_contexts, build_vectors
from rag_pipeline.indexing.plans import MAX_SHARD_DOCUMENTS, Plan, Report, quarantine_rows
from rag_pipeline.store import DocumentState, Table
from rag_pipeline.workspace import Workspace

SHARDED_ASSETS = ("chunks", "contextualized_chunks", "vector_index")


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
            lambda ids, report: build_chunks(workspace, partition, ids, report, given),
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
            lambda ids, report: build_contexts(workspace, partition, ids),
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
            lambda ids, report: build_vectors(workspace, partition, ids, report),
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
        stage.quarantine.replace([], [quarantine_rows(refused, stage.fingerprint, name)])
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
