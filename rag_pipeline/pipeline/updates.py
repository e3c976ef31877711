"""Make each asset, and return the metadata of the result."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from rag_pipeline import indexing, report
from rag_pipeline.calls.costs import Totals
from rag_pipeline.config import Key
from rag_pipeline.errors import NotReleasedError, StoreError, UnexpectedError, counted
from rag_pipeline.evaluation import quality, runs
from rag_pipeline.evaluation.answers import update_answers
from rag_pipeline.evaluation.leaderboard import update_leaderboard
from rag_pipeline.evaluation.queries import update_queries
from rag_pipeline.evaluation.results import PRESENCE, QUERIES
from rag_pipeline.evaluation.scores import headline_metrics
from rag_pipeline.indexing import Loaded, LoadFound, Plan, Report, TablePartition
from rag_pipeline.pipeline.asset import ShardPlan, Shards
from rag_pipeline.pipeline.metadata import (
    Link,
    Materialized,
    MetadataValue,
    Picture,
    cost_metadata,
    examples,
    first_rows,
    leaderboard_rows,
    preview,
    report_metadata,
    rounded,
    rounded_values,
    rows,
)
from rag_pipeline.release.candidate import candidate_digest, served_reference
from rag_pipeline.release.manifest import Release, current
from rag_pipeline.release.publishing import publish
from rag_pipeline.search.copies import find_copies
from rag_pipeline.store import TableState, state_digest
from rag_pipeline.store.hashes import seal_page
from rag_pipeline.workspace import Workspace

Note = dict[str, Any]
_CHARTED = 20
"""Maximum number of configurations, best first, whose metrics Dagster charts over time."""


def documents(workspace: Workspace, _: Key, todo: Plan | None) -> Materialized:
    """Load new and changed documents, and remove deleted documents."""
    return _documents_outcome(workspace, indexing.update_documents(workspace, todo))


def _documents_outcome(workspace: Workspace, report: Report) -> Materialized:
    """Return the result of a load of all its shards."""
    state = workspace.documents().state()
    copies = find_copies(workspace)
    quarantine = workspace.quarantine("documents")
    doubtful = indexing.text_warnings(workspace)
    return Materialized(
        state_digest(state),
        {
            "dagster/row_count": len(state),
            **report_metadata(report),
            "documents_in_quarantine": quarantine.count(),
            "documents_of_doubtful_text": len(doubtful),
            **examples("text_warnings", doubtful),
            **rows("quarantine", first_rows(quarantine.dataset(), ["document_id", "reason"], 100)),
            "copies": len(copies),
            **examples("same_text", [f"{copy}: as {other}" for copy, other in copies.items()]),
            "preview": {"rows": [*preview(workspace.documents().dataset())]},
        },
    )


def table(
    open_partition: Callable[[Workspace, Key], TablePartition],
    workspace: Workspace,
    key: Key,
    todo: Plan | None,
) -> Materialized:
    """Build the rows of a table's stale documents, and remove the rows of orphaned documents."""
    partition = open_partition(workspace, key)
    todo = todo or indexing.plan(partition)
    report, state = indexing.update_partition(partition, todo)
    return table_outcome(partition, state, report)


def table_outcome(partition: TablePartition, state: TableState, report: Report) -> Materialized:
    """Return the result of building a table from all its shards."""
    return Materialized(
        state_digest(state),
        {
            "dagster/row_count": sum(s.rows for s in state.values()),
            "documents_in_table": len(state),
            **report_metadata(report),
            "fingerprint": partition.fingerprint,
            **cost_metadata(report.costs),
            **examples("quarantined", [f"{d}: {r}" for d, r in report.quarantined.items()]),
            **examples("failed", [f"{d}: {r}" for d, r in report.failed.items()]),
            **examples("longer_than_window", sorted(report.too_long)),
            "preview": {"rows": [*preview(partition.table.dataset())]},
        },
    )


def queries(workspace: Workspace, _: Key) -> Materialized:
    """Resolve the queries' gold spans against the documents."""
    problems = update_queries(workspace)
    queries = runs.load_queries(workspace)
    return Materialized(
        str(QUERIES.digest(workspace)),
        {
            "dagster/row_count": len(queries),
            "gold_spans": sum(len(q.gold_spans) for q in queries),
            "left_out": runs.count_left_out(workspace),
            **examples("problems", problems),
            "preview": {"queries": {q.query_id: q.query for q in queries[:5]}},
        },
    )


def lexical_index(workspace: Workspace, key: Key) -> Materialized:
    """Build the BM25 indexes that are missing."""
    report = indexing.update_lexical(workspace, key)
    engines = workspace.config.lexical_engines(key)
    paths = [workspace.lexical_path(key, engine) for engine in engines]
    return Materialized(
        "+".join(paths) or "none",
        {
            "dagster/row_count": workspace.contextualized_chunks(key).count(),
            **report_metadata(report),
            "engines": ", ".join(engines),
            **examples("paths", paths),
        },
    )


def retrieval_run(workspace: Workspace, key: Key) -> Materialized:
    """Search with every query under a configuration, and save the run."""
    note = runs.update_run(workspace, workspace.config.configuration(key))
    metadata: dict[str, MetadataValue] = {
        "queries": note["queries"],
        "calls_saved": note["calls"]["saved"],
        "not_reranked": len(note["not_reranked"]),
        **examples("reranker_failures", note["not_reranked"]),
        "not_searched": len(note["not_searched"]),
        **examples("embedding_failures", note["not_searched"]),
        "seconds": round(note["seconds"], 3),
        "searched": dict(note["pinned"]),
    }
    if note["weights"] is not None:
        metadata["weights"] = dict(note["weights"])
    return Materialized(note["digest"], metadata)


def relevance_labels(workspace: Workspace, key: Key) -> Materialized:
    """Let a chat model judge the first passages of every query."""
    note = quality.update_labels(workspace, key)
    agreed = note["agreement"]
    table = [
        {"gold": "YES", "judge YES": agreed["both_yes"], "judge NO": agreed["only_gold"]},
        {"gold": "NO", "judge YES": agreed["only_judge"], "judge NO": agreed["both_no"]},
    ]
    return Materialized(
        note["digest"],
        {
            "judged": note["judged"],
            "calls_saved": note["calls"]["saved"],
            "missing": note["missing"],
            **({} if agreed["kappa"] is None else {"kappa": round(agreed["kappa"], 4)}),
            **(rows("agreement_with_gold", table) if agreed["n"] else {}),
            **examples("errors", note["errors"]),
        },
    )


def answer_presence(workspace: Workspace, key: Key) -> Materialized:
    """Measure a run by the judge's labels, or by gold spans without a judge."""
    judge = workspace.config.evaluation.judge
    labels = quality.load_labels(workspace, key) if judge is not None else None
    summaries = quality.update_scores(workspace, key, labels)
    headline = {name: summaries[name].mean for name in headline_metrics() if name in summaries}
    return Materialized(
        str(PRESENCE.digest(workspace, key)),
        {
            **rounded_values(headline),
            **rows("metrics", ({"metric": n} | rounded(asdict(s)) for n, s in summaries.items())),
        },
    )


def leaderboard(workspace: Workspace, costs: Mapping[str, Totals]) -> Materialized:
    """Compare the configurations and their costs, and write the report."""
    board = update_leaderboard(workspace, served_reference(workspace), costs)
    charted = {
        f"{name} · {row.name.replace('.', ' · ')}": row.summary(name).mean
        for name in dict.fromkeys((board.sorted_by, "AnswerPresence@5", "EntityF1"))
        for row in board.configurations[:_CHARTED]
    }
    content = report.collect(workspace)
    workspace.store.write_bytes(report.REPORT_FILE, seal_page(report.render(content)))
    version = board.digest
    with suppress(NotReleasedError, UnexpectedError):
        # The release depends only on the best build, so other scores must not make it stale.
        version = candidate_digest(workspace)
    return Materialized(
        version,
        {
            "leaderboard": leaderboard_rows(board),
            "configurations": len(board.configurations),
            **rounded_values(charted),
            "sorted_by": board.sorted_by,
            "queries_left_out": board.queries_left_out,
            "synthetic_questions": board.synthetic,
            "report": Link(
                workspace.config.report_url or workspace.store.address(report.REPORT_FILE)
            ),
            **{t: Picture(t, svg) for t, svg in report.images(content).items()},
        },
    )


def publish_release(workspace: Workspace, _: Key) -> Materialized:
    """Release the chosen configuration if its gate passes."""
    return _release_outcome(workspace, publish(workspace))


def served(workspace: Workspace) -> Materialized | None:
    """Return the result of making the served release, or None if there is no readable release."""
    with suppress(NotReleasedError, StoreError):
        return _release_outcome(workspace, current(workspace))
    return None


def _release_outcome(workspace: Workspace, served: Release) -> Materialized:
    means = {name: served.metrics.get(name, {}).get("mean") for name in headline_metrics()}
    return Materialized(
        served.release_id,
        {
            "release": served.release_id,
            "configuration": served.configuration,
            "created": served.created,
            "previous": served.previous or "none",
            **rounded_values(means),
            "documents": len(workspace.documents().state()),
            "documents_in_quarantine": workspace.quarantine("documents").count(),
            **examples("gate", served.gate.get("reasons", ())),
            **examples("reasons", served.reasons),
            "manifest": {n: value for n, value in asdict(served).items() if n != "metrics"},
        },
    )


def answers(workspace: Workspace, key: Key) -> Materialized:
    """Answer every query from a configuration's run, and save the answers."""
    note = update_answers(workspace, workspace.config.configuration(key))
    names = ("queries", "unanswered", "flagged", "placed_by")
    return Materialized(note["digest"], {**{n: note[n] for n in names}, **_judgements(note)})


def entity_scores(workspace: Workspace, key: Key) -> Materialized:
    """Compare the facts in the answers with the entities of the queries."""
    note = quality.update_entity_scores(workspace, key)
    summary = note["summary"]
    means = ("mean_precision", "mean_recall", "mean_f1", "mean_critical_recall")
    macro = {
        **{name: summary[name] for name in means},
        "f1_of_mean_precision_and_recall": summary["f1_of_means"],
        "micro_f1": summary["micro"]["f1"],
    }
    by_type = [
        {"type": kind, **counts}
        for kind, counts in [*summary["by_type"].items(), ("all", summary["micro"])]
    ]
    return Materialized(
        note["digest"],
        {
            "annotated_queries": note["annotated"],
            **rounded_values(macro),
            **rows("by_type", map(rounded, by_type)),
            **_judgements(note),
        },
    )


def context_scores(workspace: Workspace, key: Key) -> Materialized:
    """Judge the contexts of every query, and measure their health."""
    note = quality.update_context_scores(workspace, key)
    return Materialized(note["digest"], {**rounded_values(note["health"]), **_judgements(note)})


def _judgements(note: Note) -> dict[str, MetadataValue]:
    return {
        "missing_judgements": note["missing"],
        "calls_saved": note["calls"]["saved"],
        **examples("errors", note["errors"]),
    }


def shards_of_table(
    name: str, open_partition: Callable[[Workspace, Key], TablePartition]
) -> Shards:
    """Return the functions that build a table in shards of documents."""

    def plan(workspace: Workspace, key: Key) -> tuple[Sequence[Sequence[str]], ShardPlan, str]:
        todo = indexing.plan(open_partition(workspace, key))
        counts = f"{counted(len(todo.stale), 'document')} stale, {len(todo.orphaned)} orphaned, "
        counts += f"{todo.waiting} waiting, {todo.current} current"
        return todo.shards, {"orphaned": list(todo.orphaned)}, counts

    def build(workspace: Workspace, key: Key, shard: Sequence[str]) -> Report:
        partition = open_partition(workspace, key)
        with workspace.charging(name, partition.key) as costs:
            report = indexing.build_shard(partition, shard)
        report.costs = costs
        return report

    def finish(
        workspace: Workspace, key: Key, found: ShardPlan, reports: Sequence[Report]
    ) -> Materialized:
        partition, orphaned = open_partition(workspace, key), found["orphaned"]
        total = Report(dropped=len(orphaned))
        for part in reports:
            total.add(part)
        state = indexing.finish(partition, orphaned, bool(reports), total.blamed)
        return table_outcome(partition, state, total)

    return Shards(plan, build, Report, finish)


def _plan_documents(workspace: Workspace, _: Key) -> tuple[Sequence[Sequence[Any]], ShardPlan, str]:
    stale, _taken, found = indexing.plan_load(workspace)
    return indexing.load_shards(stale), asdict(found), f"{len(stale)} files or objects to load"


def _finish_documents(
    workspace: Workspace, _: Key, found: ShardPlan, parts: Sequence[Loaded]
) -> Materialized:
    return _documents_outcome(workspace, indexing.finish_load(workspace, LoadFound(**found), parts))


SHARDS_OF_DOCUMENTS = Shards(
    _plan_documents,
    lambda workspace, _, shard: indexing.load_shard(workspace, shard),
    Loaded,
    _finish_documents,
)
