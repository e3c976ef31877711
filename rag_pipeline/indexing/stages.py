"""The sharded tables: plan what is stale, build it shard by shard, finish."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from rag_pipeline.calls.grouping import groups
from rag_pipeline.config import ChatSettings, Key
from rag_pipeline.errors import ProviderError
from rag_pipeline.indexing.builders import build_chunks, build_contexts, build_vectors
from rag_pipeline.indexing.plans import (
    MADE_OTHERWISE,
    MAX_SHARD_DOCUMENTS,
    Plan,
    Report,
    quarantine_rows,
)
from rag_pipeline.search import vector_index
from rag_pipeline.store import DocumentState, Store, Table, TableState
from rag_pipeline.workspace import Workspace

_BATCH_DOCUMENTS = 2_000
_FEW = 0.05
"""Share of the documents that may lose their rows at once because a model failed on them."""


@dataclass(frozen=True, slots=True)
class TableStage:
    """One partition of a sharded asset: from which table to which, and how."""

    key: Key
    store: Store
    table: Table
    quarantine: Table
    fingerprint: str
    upstream: Table
    upstream_fingerprint: str
    shard_weight: int
    """The most that a shard holds: characters for chunks, rows for the others."""
    build: Callable[[Sequence[str], Report], Iterator[pa.RecordBatch]]
    covers: Callable[[str], bool] = lambda _: True
    maintain: Callable[[Table], object] = Table.compact
    shard_documents: int | None = None
    """The most documents of a shard, where it is not `MAX_SHARD_DOCUMENTS`."""


def _chunks(workspace: Workspace, key: Key) -> TableStage:
    config, key = workspace.config, key.at("chunking")
    table = workspace.chunks(key)
    return TableStage(
        key,
        workspace.store,
        table,
        workspace.quarantine(table.name),
        config.chunks_fingerprint(key.chunking),
        workspace.documents(),
        config.documents_fingerprint(),
        2_000_000,
        partial(build_chunks, workspace, key),
        partial(config.chunkings[key.chunking].covers, config),
    )


def _contextualized_chunks(workspace: Workspace, key: Key) -> TableStage:
    config, key = workspace.config, key.at("contextualizer")
    settings = config.contextualizers[key.contextualizer]
    # A batch may take a day, and the shards of one process follow each other.
    in_batches = any(isinstance(m, ChatSettings) and m.batch for m in settings.models_used(config))
    table = workspace.contextualized_chunks(key)
    return TableStage(
        key,
        workspace.store,
        table,
        workspace.quarantine(table.name),
        config.context_fingerprint(*key.variants),
        workspace.chunks(key),
        config.chunks_fingerprint(key.chunking),
        20_000 if in_batches else 4_000,
        partial(build_contexts, workspace, key),
        shard_documents=_BATCH_DOCUMENTS if in_batches else None,
    )


def _vector_index(workspace: Workspace, key: Key) -> TableStage:
    config, key = workspace.config, key.at("embedding")
    table = workspace.vector_index(key)
    return TableStage(
        key,
        workspace.store,
        table,
        workspace.quarantine(table.name),
        config.vector_fingerprint(*key.variants),
        workspace.contextualized_chunks(key),
        config.context_fingerprint(*key.at("contextualizer").variants),
        2_000,
        partial(build_vectors, workspace, key),
        maintain=vector_index.maintain,
    )


STAGES: dict[str, Callable[[Workspace, Key], TableStage]] = {
    "chunks": _chunks,
    "contextualized_chunks": _contextualized_chunks,
    "vector_index": _vector_index,
}
"""Functions that open each sharded table, by its asset, in the order of the flow."""


def open_stage(workspace: Workspace, asset: str, partition: str) -> TableStage:
    """Return the stage of one partition (`chunking[.contextualizer[.embedding]]`)."""
    if asset not in STAGES:
        raise ValueError(f"{asset!r} is not one of: {', '.join(STAGES)}")
    return STAGES[asset](workspace, Key.parse(partition))


def plan(stage: TableStage) -> Plan:
    """Compare a table with the one before it; read both tables' states, no rows."""
    before, mine = stage.upstream.state(), stage.table.state()
    refused = stage.quarantine.state()
    per_chunk = "chunk_id" in stage.upstream.schema.names
    stale: list[str] = []
    missing: list[str] = []
    waiting = current = 0
    why = ""
    for document_id in sorted(before):
        state = before[document_id]
        if not stage.covers(document_id):
            continue
        if state.fingerprint != stage.upstream_fingerprint:
            waiting += 1
            why = MADE_OTHERWISE if document_id in mine else why
            continue
        done = mine.get(document_id) or refused.get(document_id)
        # Two writers at once, one of them killed, may have left a document's rows twice.
        rows = state.rows if per_chunk and document_id in mine else done and done.rows
        if done is not None and done == (state.content_hash, stage.fingerprint, rows):
            current += 1
        else:
            stale.append(document_id)
            if document_id not in mine and _is_failed(done, state):
                missing.append(document_id)
            if done is not None and done.content_hash == state.content_hash and done.fingerprint:
                why = MADE_OTHERWISE
    known = (set(mine) | set(refused)) - {d for d in before if stage.covers(d)}
    weights = _weights(stage, before, stale)
    most = stage.shard_documents or MAX_SHARD_DOCUMENTS
    together = groups((weights[d] for d in stale), most, stage.shard_weight)
    shards = tuple(tuple(stale[place] for place in group) for group in together)
    orphaned = tuple(sorted(known))
    return Plan(tuple(stale), orphaned, current, waiting, shards, why, tuple(missing))


def _is_failed(done: DocumentState | None, upstream: DocumentState) -> bool:
    """Tell whether a model failed on a document as it is; it then stands under no fingerprint."""
    return done is not None and done[:2] == (upstream.content_hash, "")


def build_shard(
    stage: TableStage, document_ids: Sequence[str], orphaned: Sequence[str] = ()
) -> Report:
    """Replace the rows of these documents by new ones, and drop the orphans', in one commit.

    Documents that a model fails on stay stale. They stand in quarantine until they succeed, and
    keep their earlier rows until `finish`. Raises the model's ProviderError if it fails on all of
    them and the table is empty.
    """
    started = time.perf_counter()
    report = Report(documents=len(document_ids))
    stage.table.ensure()
    batches = list(stage.build(document_ids, report))
    if report.failed and len(report.failed) == len(document_ids) and not stage.table.state():
        first = next(iter(report.failed.values()))
        others = len(report.failed) - 1
        raise ProviderError(first + (f" (and {others} more documents)" if others else ""))
    done = [d for d in document_ids if d not in report.failed]
    report.rows = stage.table.replace([*done, *orphaned], batches)
    states = stage.upstream.state() if report.quarantined or report.failed else {}
    if report.failed:
        earlier = stage.quarantine.state()
        report.again = {i for i in report.failed if _is_failed(earlier.get(i), states[i])}
    if states:
        stage.quarantine.ensure()
    if stage.quarantine.exists():
        stage_name = stage.quarantine.name.removeprefix("quarantine.")
        # A failed document stands under no fingerprint: the next run tries it again.
        rows = [
            quarantine_rows(
                [(i, states[i].content_hash, reason) for i, reason in reasons.items()],
                fingerprint,
                stage_name,
            )
            for reasons, fingerprint in (
                (report.quarantined, stage.fingerprint),
                (report.failed, ""),
            )
        ]
        stage.quarantine.replace([*document_ids, *orphaned], rows)
    report.seconds = time.perf_counter() - started
    return report


def finish(
    stage: TableStage, orphaned: Sequence[str], changed: bool, blamed: Sequence[str] = ()
) -> TableState:
    """Drop the orphans' rows, maintain the table if it changed, return what it now holds.

    Documents that are `blamed` for a model's failure lose what was made of them before, if they are
    few: they are missing from what is released next, and hold nothing back. Of many, a model may be
    the cause.
    """
    stage.table.ensure()
    made = stage.table.state()
    outdated = [document_id for document_id in blamed if document_id in made]
    if len(outdated) > max(1, _FEW * len(made)):
        outdated = []
    stage.table.drop([*orphaned, *outdated])
    if stage.quarantine.exists():
        stage.quarantine.drop(orphaned)
    if changed or orphaned or outdated:
        stage.maintain(stage.table)
        stage.store.hash_table(stage.table.name)
    return stage.table.state()


def update_stage(stage: TableStage, todo: Plan) -> tuple[Report, TableState]:
    """Build what a plan lists in this process; return what was done and what the table holds."""
    report = Report(dropped=len(todo.orphaned))
    for place, shard in enumerate(todo.shards):
        report.add(build_shard(stage, shard, () if place else todo.orphaned))
    return report, finish(stage, todo.orphaned, bool(todo.shards), report.blamed)


def update(workspace: Workspace, asset: str, partition: str) -> Report:
    """Bring one partition of a sharded asset up to date in this process."""
    stage = open_stage(workspace, asset, partition)
    return update_stage(stage, plan(stage))[0]


def _weights(stage: TableStage, before: TableState, stale: Sequence[str]) -> Mapping[str, int]:
    if "characters" not in stage.upstream.schema.names:
        return {d: before[d].rows for d in stale}
    if not stale:
        return {}
    sizes: dict[str, int] = {}
    for batch in stage.upstream.read(["document_id", "characters"]):
        columns = batch.to_pydict()
        sizes.update(zip(columns["document_id"], columns["characters"], strict=True))
    return sizes
