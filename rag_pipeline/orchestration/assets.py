"""The asset graph of one corpus: each asset reads, makes one domain call and reports."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import dagster as dg

from rag_pipeline import indexing, release, report
from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import Totals, totals_by
from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import (
    CallsStoppedError,
    MissingExtraError,
    NotReleasedError,
    ProviderError,
    RagPipelineError,
    StoreError,
    TextTooLongError,
)
from rag_pipeline.evaluation import quality, runs
from rag_pipeline.evaluation.leaderboard import update_leaderboard
from rag_pipeline.evaluation.scores import headline_metrics
from rag_pipeline.indexing import Report
from rag_pipeline.loading import duplicate_groups
from rag_pipeline.orchestration.descriptions import shared_settings
from rag_pipeline.orchestration.metadata import (
    cost_metadata,
    examples,
    first_rows,
    images,
    leaderboard_rows,
    preview,
    report_metadata,
    rounded,
    rows,
)
from rag_pipeline.orchestration.names import asset_key, identifier
from rag_pipeline.orchestration.partitions import (
    asset_names,
    mapping_between,
    upstream_assets,
)
from rag_pipeline.orchestration.step_values import clear_step_values, step_values_key
from rag_pipeline.pipeline import retention
from rag_pipeline.pipeline.planning import configurations_of
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.store import state_digest
from rag_pipeline.workspace import Workspace

RETRIES = dg.RetryPolicy(max_retries=2, delay=2, backoff=dg.Backoff.EXPONENTIAL)


def build_assets(
    config: CorpusConfig, retries: dg.RetryPolicy | None = RETRIES
) -> list[dg.AssetsDefinition]:
    """Return the assets of a corpus, left to right, without the answers and their scores."""
    workspace = Workspace(config)
    plain: dict[str, Callable[[Workspace, str], dg.MaterializeResult[Any]]] = {
        "documents": _documents,
        "queries": _queries,
        "lexical_index": _lexical_index,
        "retrieval_run": _retrieval_run,
        "relevance_labels": _relevance_labels,
        "answer_presence": _answer_presence,
        "leaderboard": _leaderboard,
        "release": _release,
    }
    return [
        _plain_asset(workspace, name, plain[name], retries)
        if name in plain
        else _sharded_asset(workspace, name, retries)
        for name in asset_names(config)
        if name in plain or ASSETS[name].sharded
    ]


def _plain_asset(
    workspace: Workspace,
    name: str,
    materialize: Callable[[Workspace, str], dg.MaterializeResult[Any]],
    retries: dg.RetryPolicy | None,
) -> dg.AssetsDefinition:
    config = workspace.config
    deps = [
        dg.AssetDep(asset_key(config, up), partition_mapping=mapping_between(config, up, name))
        for up in upstream_assets(config, name)
    ]

    def asset(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        partition = context.partition_key if context.has_partition_key else None
        key = ASSETS[name].key(config, partition)
        with clear_failures(), workspace.charging(name, key) as costs:
            result = materialize(workspace, key)
        metadata = {**(result.metadata or {}), **cost_metadata(costs)}
        return result._replace(metadata=metadata)

    built: dg.AssetsDefinition = dg.asset(
        **shared_settings(config, name), deps=deps, retry_policy=retries
    )(asset)
    return built


def _sharded_asset(
    workspace: Workspace, name: str, retries: dg.RetryPolicy | None
) -> dg.AssetsDefinition:
    """Return a graph asset: plan the stale documents, build shards, finish."""
    config = workspace.config
    (before,) = upstream_assets(config, name)

    @dg.op(
        name=identifier(config, f"{name}_plan"),
        ins={"upstream": dg.In(dg.Nothing)},
        out=dg.DynamicOut(list, io_manager_key=step_values_key(config)),
        retry_policy=retries,
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
        out=dg.Out(dict, io_manager_key=step_values_key(config)),
        retry_policy=retries,
        description="Build one shard and commit its rows.",
    )
    def shard(context: dg.OpExecutionContext, document_ids: list) -> dict:  # type: ignore[type-arg]
        with clear_failures():
            stage = indexing.open_stage(workspace, name, context.partition_key)
            with workspace.charging(name, stage.key) as costs:
                report = indexing.build_shard(stage, document_ids)
            report.costs = costs
            return asdict(report)

    @dg.op(
        name=identifier(config, f"{name}_finish"),
        out=dg.Out(dg.Nothing),
        retry_policy=retries,
        description="Drop orphaned rows, maintain the table and report.",
    )
    def finish(context: dg.OpExecutionContext, reports: list) -> dg.Output[None]:  # type: ignore[type-arg]
        with clear_failures():
            stage = indexing.open_stage(workspace, name, context.partition_key)
            orphaned = indexing.plan(stage).orphaned
            state = indexing.finish(stage, orphaned, bool(reports))
            total = Report(dropped=len(orphaned))
            for report in reports:
                calls, costs = CallCounts(**report["calls"]), Totals(**report["costs"])
                total.add(Report(**{**report, "calls": calls, "costs": costs}))
            metadata = {
                "dagster/row_count": sum(s.rows for s in state.values()),
                "documents_in_table": len(state),
                **report_metadata(total),
                "shards": len(reports),
                "fingerprint": stage.fingerprint,
                **cost_metadata(total.costs),
                **examples("quarantined", [f"{d}: {r}" for d, r in total.quarantined.items()]),
                **examples("failed", [f"{d}: {r}" for d, r in total.failed.items()]),
                **rows("preview", preview(stage.table.open())),
            }
        clear_step_values(workspace, context.run)
        version = dg.DataVersion(state_digest(state))
        with unstable():
            return dg.Output(None, metadata=metadata, data_version=version)

    def graph(upstream: Any) -> Any:
        return finish(plan(upstream).map(shard).collect())

    ins = {
        "upstream": dg.AssetIn(
            asset_key(config, before),
            dagster_type=dg.Nothing,
            partition_mapping=mapping_between(config, before, name),
        )
    }
    return dg.graph_asset(**shared_settings(config, name), ins=ins)(graph)


# --- what each plain asset does ---


def _documents(workspace: Workspace, _: str) -> dg.MaterializeResult[Any]:
    report = indexing.update_documents(workspace)
    state = workspace.documents().state()
    same = duplicate_groups((i, s.content_hash) for i, s in state.items())
    quarantine = workspace.quarantine("documents")
    metadata: dict[str, Any] = {
        "dagster/row_count": len(state),
        **report_metadata(report),
        "documents_in_quarantine": quarantine.count(),
        **rows("quarantine", first_rows(quarantine.open(), ["document_id", "reason"], 100)),
        **examples("same_bytes", [", ".join(group) for group in same]),
        **rows("preview", preview(workspace.documents().open())),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(state_digest(state)))


def _queries(workspace: Workspace, _: str) -> dg.MaterializeResult[Any]:
    problems = runs.update_queries(workspace)
    queries = runs.load_queries(workspace)
    metadata: dict[str, Any] = {
        "dagster/row_count": len(queries),
        "gold_spans": sum(len(q.gold_spans) for q in queries),
        "left_out": len(problems),
        **examples("problems", problems),
        **rows("preview", ({"query_id": q.query_id, "query": q.query} for q in queries[:5])),
    }
    version = dg.DataVersion(str(workspace.store.read_note(runs.QUERIES_FILE)["digest"]))
    return dg.MaterializeResult(metadata=metadata, data_version=version)


def _lexical_index(workspace: Workspace, key: str) -> dg.MaterializeResult[Any]:
    report = indexing.update_lexical(workspace, key)
    engines = workspace.config.lexical_engines(key)
    paths = [workspace.lexical_path(key, engine) for engine in engines]
    metadata = {
        "dagster/row_count": workspace.contextualized_chunks(key).count(),
        **report_metadata(report),
        **_sweep(workspace),
        "engines": ", ".join(engines),
        **examples("paths", paths),
    }
    version = dg.DataVersion("+".join(paths) or "none")
    return dg.MaterializeResult(metadata=metadata, data_version=version)


def _retrieval_run(workspace: Workspace, key: str) -> dg.MaterializeResult[Any]:
    note = runs.update_run(workspace, workspace.config.configuration(key))
    metadata: dict[str, Any] = {
        "queries": note["queries"],
        "calls_made": note["calls"]["made"],
        "calls_saved": note["calls"]["saved"],
        "not_reranked": len(note["not_reranked"]),
        **examples("reranker_failures", note["not_reranked"]),
        "seconds": round(note["seconds"], 3),
        "searched": dg.MetadataValue.json(note["pinned"]),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(note["digest"]))


def _relevance_labels(workspace: Workspace, key: str) -> dg.MaterializeResult[Any]:
    note = quality.update_labels(workspace, workspace.config.configuration(key))
    agreed = note["agreement"]
    table = [
        {"gold": "YES", "judge YES": agreed["both_yes"], "judge NO": agreed["only_gold"]},
        {"gold": "NO", "judge YES": agreed["only_judge"], "judge NO": agreed["both_no"]},
    ]
    metadata: dict[str, Any] = {
        "judged": note["judged"],
        "missing": note["missing"],
        **({} if agreed["kappa"] is None else {"kappa": round(agreed["kappa"], 4)}),
        **(rows("agreement_with_gold", table) if agreed["n"] else {}),
        **examples("errors", note["errors"]),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(note["digest"]))


def _answer_presence(workspace: Workspace, key: str) -> dg.MaterializeResult[Any]:
    labels = (
        quality.load_labels(workspace, key)
        if "relevance_labels" in asset_names(workspace.config)
        else None
    )
    summaries = runs.update_scores(workspace, workspace.config.configuration(key), labels)
    headline = {name: summaries[name].mean for name in headline_metrics() if name in summaries}
    metadata: dict[str, Any] = {
        **{name: round(mean, 4) for name, mean in headline.items() if mean is not None},
        **rows("metrics", ({"metric": n, **rounded(summaries[n])} for n in summaries)),
    }
    note = workspace.store.read_note(runs.scores_file(key))
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(note["digest"]))


def _leaderboard(workspace: Workspace, _: str) -> dg.MaterializeResult[Any]:
    board = update_leaderboard(
        workspace,
        release.released(workspace),
        totals_by(
            workspace.ledger.charges(),
            "configuration",
            partial(configurations_of, workspace.config),
        ),
    )
    content = report.collect(workspace)
    workspace.store.write_bytes(report.REPORT_FILE, report.render(content).encode())
    metadata: dict[str, Any] = {
        **rows("leaderboard", leaderboard_rows(board)),
        "configurations": len(board.configurations),
        "sorted_by": board.sorted_by,
        "queries_left_out": board.queries_left_out,
        "report": workspace.store.address(report.REPORT_FILE),
        **images(report.images(content)),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(board.digest))


def _release(workspace: Workspace, _: str) -> dg.MaterializeResult[Any]:
    # Before the gate: a store stays level even where nothing is let through for long.
    swept = _sweep(workspace)
    served = release.publish(workspace)
    metadata: dict[str, Any] = {
        **swept,
        "release": served.release_id,
        "configuration": served.configuration,
        "created": served.created,
        "previous": served.previous or "none",
        **examples("gate", served.gate.get("reasons", ())),
        **examples("reasons", served.reasons),
        "manifest": dg.MetadataValue.json(asdict(served)),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(served.release_id))


def _sweep(workspace: Workspace) -> dict[str, Any]:
    """Free what has had its time; that it can't be freed is no reason to build or serve nothing."""
    try:
        freed = retention.sweep(workspace)
    except (RagPipelineError, OSError) as error:
        return {"not_freed": str(error)}
    if not freed:
        return {}
    return {
        "freed_bytes": sum(thing.bytes for thing in freed),
        **examples("freed", [f"{thing.what} {thing.name}" for thing in freed]),
    }


@contextmanager
def clear_failures() -> Iterator[None]:
    """Turn the pipeline's own errors into failures with the one message that explains them.

    Only a store or a model may be better next time; wrong settings or inputs are not retried.
    """
    try:
        yield
    except RagPipelineError as error:
        passing = isinstance(error, StoreError | ProviderError)
        lasting = isinstance(
            error, NotReleasedError | MissingExtraError | CallsStoppedError | TextTooLongError
        )
        retry = passing and not lasting
        raise dg.Failure(description=str(error), allow_retries=retry) from error


@contextmanager
def unstable() -> Iterator[None]:
    """Use a part of Dagster that may change, without telling every user's terminal.

    These are data versions of ops and partitions of checks; the version range in pyproject.toml
    bounds what they can change to.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield
