"""The asset graph of one corpus: each asset reads, makes one domain call and reports."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import dagster as dg

from rag_pipeline import indexing, release
from rag_pipeline.calls import CallCounts
from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ProviderError, RagPipelineError, StoreError
from rag_pipeline.evaluation import runs
from rag_pipeline.evaluation.summary import Summary
from rag_pipeline.indexing import Report
from rag_pipeline.loading import duplicate_groups
from rag_pipeline.orchestration.partitions import (
    PARTITIONED,
    mapping_between,
    partitions_of,
    upstream_assets,
)
from rag_pipeline.store import state_digest
from rag_pipeline.workspace import Workspace

RETRIES = dg.RetryPolicy(max_retries=2, delay=2, backoff=dg.Backoff.EXPONENTIAL)
_PREVIEW_ROWS = 5
_PREVIEW_CHARACTERS = 200

DESCRIPTIONS = {
    "documents": "Files and JSON Lines records, decoded; what can't be used is quarantined.",
    "queries": "The questions, with their gold spans resolved against the documents.",
    "chunks": "Spans of each document's text, one partition per chunking.",
    "contextualized_chunks": "Chunks with the short context that is indexed before them.",
    "lexical_index": "BM25 over contextualized chunks.",
    "vector_index": "A LanceDB table of contextualized chunks with a unit vector each.",
    "retrieval_run": "The ranked chunks of every query under one configuration.",
    "answer_presence": "Answer Presence@k and ranking metrics per query, judged by gold spans.",
    "leaderboard": "Every configuration with its metrics, best first.",
    "release": "The manifest that pins the configuration and the exact builds that are served.",
}
KINDS = {
    "documents": {"lancedb"},
    "queries": {"parquet"},
    "chunks": {"lancedb"},
    "contextualized_chunks": {"lancedb"},
    "lexical_index": {"bm25"},
    "vector_index": {"lancedb"},
    "retrieval_run": {"parquet"},
    "answer_presence": {"parquet"},
    "leaderboard": {"json"},
    "release": {"json"},
}


def asset_key(config: CorpusConfig, name: str) -> dg.AssetKey:
    """Return an asset's key: corpus, then name."""
    return dg.AssetKey([config.corpus, name])


def identifier(config: CorpusConfig, name: str) -> str:
    """Return a name for an op or job that is unique among corpora."""
    return f"{config.corpus.replace('-', '_')}__{name}"


def build_assets(config: CorpusConfig) -> list[dg.AssetsDefinition]:
    """Return all assets of a corpus, left to right."""
    workspace = Workspace(config)
    plain: dict[str, Callable[[Workspace, str], dg.MaterializeResult[Any]]] = {
        "documents": _documents,
        "queries": _queries,
        "lexical_index": _lexical_index,
        "retrieval_run": _retrieval_run,
        "answer_presence": _answer_presence,
        "leaderboard": _leaderboard,
        "release": _release,
    }
    return [
        _plain_asset(workspace, name, plain[name])
        if name in plain
        else _sharded_asset(workspace, name)
        for name in DESCRIPTIONS
    ]


def _shared(config: CorpusConfig, name: str) -> dict[str, Any]:
    return {
        "key": asset_key(config, name),
        "group_name": identifier(config, "index").removesuffix("__index"),
        "description": DESCRIPTIONS[name],
        "kinds": KINDS[name],
        "owners": list(config.owners),
        "tags": {"corpus": config.corpus},
        "partitions_def": partitions_of(config, name) if name in PARTITIONED else None,
    }


def _plain_asset(
    workspace: Workspace,
    name: str,
    materialize: Callable[[Workspace, str], dg.MaterializeResult[Any]],
) -> dg.AssetsDefinition:
    config = workspace.config
    deps = [
        dg.AssetDep(asset_key(config, up), partition_mapping=mapping_between(config, up, name))
        for up in upstream_assets(config, name)
    ]

    @dg.asset(**_shared(config, name), deps=deps, retry_policy=RETRIES, code_version="1")
    def asset(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        with clear_failures():
            return materialize(workspace, context.partition_key if context.has_partition_key else "")

    return asset


def _sharded_asset(workspace: Workspace, name: str) -> dg.AssetsDefinition:
    """Return a graph asset: plan the stale documents, build shards, finish."""
    config = workspace.config
    (before,) = upstream_assets(config, name)

    @dg.op(
        name=identifier(config, f"{name}_plan"),
        ins={"upstream": dg.In(dg.Nothing)},
        out=dg.DynamicOut(list),
        retry_policy=RETRIES,
        description="List the stale documents and group them into shards.",
    )
    def plan(context: dg.OpExecutionContext) -> Iterator[dg.DynamicOutput[Any]]:
        with clear_failures():
            todo = indexing.plan(indexing.open_stage(workspace, name, context.partition_key))
        context.log.info(
            f"{name} {context.partition_key}: {len(todo.stale)} documents stale, "
            f"{len(todo.orphaned)} orphaned, {todo.waiting} waiting, {todo.current} current"
        )
        for number, shard in enumerate(todo.shards):
            yield dg.DynamicOutput(list(shard), mapping_key=f"{number:05d}")

    @dg.op(
        name=identifier(config, f"{name}_shard"),
        retry_policy=RETRIES,
        description="Build one shard and commit its rows.",
    )
    def shard(context: dg.OpExecutionContext, document_ids: list) -> dict:  # type: ignore[type-arg]
        with clear_failures():
            stage = indexing.open_stage(workspace, name, context.partition_key)
            return asdict(indexing.build_shard(stage, document_ids))

    @dg.op(
        name=identifier(config, f"{name}_finish"),
        out=dg.Out(dg.Nothing),
        retry_policy=RETRIES,
        description="Drop orphaned rows, maintain the table and report.",
    )
    def finish(context: dg.OpExecutionContext, reports: list) -> dg.Output[None]:  # type: ignore[type-arg]
        with clear_failures():
            stage = indexing.open_stage(workspace, name, context.partition_key)
            orphaned = indexing.plan(stage).orphaned
            state = indexing.finish(stage, orphaned, bool(reports))
            total = Report(dropped=len(orphaned))
            for report in reports:
                total.add(Report(**{**report, "calls": CallCounts(**report["calls"])}))
            metadata = {
                **_report_metadata(total),
                "dagster/row_count": sum(s.rows for s in state.values()),
                "documents_in_table": len(state),
                "shards": len(reports),
                "fingerprint": stage.fingerprint,
                "preview": _preview(stage.table.open()),
            }
        version = dg.DataVersion(state_digest(state))
        return dg.Output(None, metadata=metadata, data_version=version)

    @dg.graph_asset(
        **_shared(config, name),
        ins={
            "upstream": dg.AssetIn(
                asset_key(config, before),
                dagster_type=dg.Nothing,
                partition_mapping=mapping_between(config, before, name),
            )
        },
    )
    def graph(upstream: Any) -> Any:
        return finish(plan(upstream).map(shard).collect())

    return graph


# --- what each plain asset does ---


def _documents(workspace: Workspace, _: str) -> dg.MaterializeResult[Any]:
    report = indexing.update_documents(workspace)
    state = workspace.documents().state()
    same = duplicate_groups((i, s.content_hash) for i, s in state.items())
    refused = list(_rows(workspace.quarantine("documents").open(), ["document_id", "reason"], 100))
    metadata = {
        **_report_metadata(report),
        "dagster/row_count": len(state),
        "documents_in_quarantine": workspace.quarantine("documents").count(),
        "same_bytes": dg.MetadataValue.json([list(group) for group in same[:50]]),
        "preview": _preview(workspace.documents().open()),
    }
    if refused:
        metadata["quarantine"] = table_metadata(refused)
    return dg.MaterializeResult(metadata=metadata, data_version=_version(state_digest(state)))


def _queries(workspace: Workspace, _: str) -> dg.MaterializeResult[Any]:
    problems = runs.update_queries(workspace)
    queries = runs.load_queries(workspace)
    metadata = {
        "dagster/row_count": len(queries),
        "gold_spans": sum(len(q.gold_spans) for q in queries),
        "left_out": len(problems),
        "problems": dg.MetadataValue.json(problems[:50]),
        "preview": table_metadata([{"query_id": q.query_id, "query": q.query} for q in queries[:5]]),
    }
    version = _version(str(workspace.store.read_note(runs.QUERIES_FILE)["digest"]))
    return dg.MaterializeResult(metadata=metadata, data_version=version)


def _lexical_index(workspace: Workspace, key: str) -> dg.MaterializeResult[Any]:
    report = indexing.update_lexical(workspace, key)
    engines = workspace.config.lexical_engines(key)
    paths = [workspace.lexical_path(key, engine) for engine in engines]
    metadata = {
        **_report_metadata(report),
        "engines": ", ".join(engines) or "none asked for",
        "dagster/row_count": workspace.contextualized_chunks(key).count(),
        "paths": dg.MetadataValue.json(paths),
    }
    version = _version("+".join(paths) or "none")
    return dg.MaterializeResult(metadata=metadata, data_version=version)


def _retrieval_run(workspace: Workspace, key: str) -> dg.MaterializeResult[Any]:
    note = runs.update_run(workspace, workspace.config.configuration(key))
    metadata = {
        "queries": note["queries"],
        "seconds": note["seconds"],
        "calls_made": note["calls"]["made"],
        "calls_saved": note["calls"]["saved"],
        "searched": dg.MetadataValue.json(note["pinned"]),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=_version(note["digest"]))


def _answer_presence(workspace: Workspace, key: str) -> dg.MaterializeResult[Any]:
    summaries = runs.update_scores(workspace, workspace.config.configuration(key))
    rows = [{"metric": name, **_rounded(summary)} for name, summary in summaries.items()]
    metadata: dict[str, Any] = {
        name: summary.mean for name, summary in summaries.items() if summary.mean is not None
    }
    if rows:
        metadata["metrics"] = table_metadata(rows)
    note = workspace.store.read_note(runs.scores_file(key))
    return dg.MaterializeResult(metadata=metadata, data_version=_version(note["digest"]))


def _leaderboard(workspace: Workspace, _: str) -> dg.MaterializeResult[Any]:
    board = runs.update_leaderboard(workspace)
    metadata: dict[str, Any] = {
        "configurations": len(board["configurations"]),
        "sorted_by": board["sorted_by"],
        "queries_left_out": board["queries_left_out"],
    }
    if board["configurations"]:
        rows = [leaderboard_row(row) for row in board["configurations"]]
        metadata["leaderboard"] = table_metadata(rows)
    return dg.MaterializeResult(metadata=metadata, data_version=_version(board["digest"]))


def _release(workspace: Workspace, _: str) -> dg.MaterializeResult[Any]:
    served = release.publish(workspace)
    metadata = {
        "release": served.release_id,
        "configuration": served.configuration,
        "created": served.created,
        "reasons": dg.MetadataValue.json(list(served.reasons)),
        "manifest": dg.MetadataValue.json(asdict(served)),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=_version(served.release_id))


# --- metadata ---

LEADERBOARD_METRICS = (
    "AnswerPresence@1",
    "AnswerPresence@5",
    "AnswerPresence@10",
    "AnswerPresence@20",
    "nDCG@10",
    "RR@10",
    "R@5",
    "IoU@5",
)


def leaderboard_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration's line in the leaderboard table."""
    shown = {name: row["metrics"][name] for name in LEADERBOARD_METRICS}
    first = next(iter(shown.values()))
    return {
        "configuration": row["name"],
        **{name: _round(metric["mean"]) for name, metric in shown.items()},
        "n": first["n"],
        "missing": first["missing"],
        "chunks": row["chunks"],
    }


def table_metadata(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return rows as a table for the UI; missing values are shown as empty."""
    records = [
        dg.TableRecord({k: "" if v is None else v for k, v in row.items()}) for row in rows
    ]
    columns = []
    for name in rows[0]:
        values = [row[name] for row in rows if row[name] is not None]
        number = bool(values) and all(isinstance(v, int | float) for v in values)
        columns.append(dg.TableColumn(name, "float" if number else "string"))
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns))


def _report_metadata(report: Report) -> dict[str, Any]:
    return {
        "documents_worked_on": report.documents,
        "rows_written": report.rows,
        "documents_dropped": report.dropped,
        "documents_quarantined": len(report.quarantined),
        "calls_made": report.calls.made,
        "calls_saved": report.calls.saved,
        "seconds": report.seconds,
    }


def _preview(table: Any) -> Any:
    wanted = ("document_id", "title", "start", "end", "context", "text")
    columns = [name for name in wanted if name in table.schema.names]
    rows = list(_rows(table, columns, _PREVIEW_ROWS))
    return table_metadata(rows) if rows else "no rows"


def _rows(table: Any, columns: Sequence[str], limit: int) -> Iterator[dict[str, Any]]:
    for row in table.search().select(list(columns)).limit(limit).to_list():
        yield {
            name: row[name][:_PREVIEW_CHARACTERS] if isinstance(row[name], str) else row[name]
            for name in columns
        }


def _rounded(summary: Summary) -> dict[str, Any]:
    return {name: _round(value) for name, value in asdict(summary).items()}


def _round(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _version(value: str) -> dg.DataVersion:
    return dg.DataVersion(value)


@contextmanager
def clear_failures() -> Iterator[None]:
    """Turn the pipeline's own errors into failures with the one message that explains them.

    Only a store or a model may be better next time; wrong settings or inputs are not retried.
    """
    try:
        yield
    except RagPipelineError as error:
        retry = isinstance(error, StoreError | ProviderError)
        # The CLI runs in the process that will show the message: waiting there helps nobody.
        retry = retry and "RAG_NO_RETRIES" not in os.environ
        raise dg.Failure(description=str(error), allow_retries=retry) from error
