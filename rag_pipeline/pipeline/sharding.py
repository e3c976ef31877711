"""How an executor builds an asset: a plan, shards that it distributes, and an end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rag_pipeline import indexing
from rag_pipeline.config import Key
from rag_pipeline.indexing import Loaded, LoadFound, Report, TableStage
from rag_pipeline.pipeline.metadata import Materialized
from rag_pipeline.pipeline.updates import documents_outcome, table_outcome
from rag_pipeline.workspace import Workspace

ShardPlan = Mapping[str, Any]
"""The part of the plan that the end needs, as JSON."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The three steps of one partition; `build` returns a value of type `made`."""

    plan: Callable[[Workspace, Key], tuple[Sequence[Sequence[Any]], ShardPlan, str]]
    """Returns the shards, the part for the end, and a line for the log."""
    build: Callable[[Workspace, Key, Sequence[Any]], Any]
    made: type
    finish: Callable[[Workspace, Key, ShardPlan, Sequence[Any]], Materialized]


def shards_of_table(name: str, open_stage: Callable[[Workspace, Key], TableStage]) -> Shards:
    """Return how a table of documents' rows is built in shards of documents."""

    def plan(workspace: Workspace, key: Key) -> tuple[Sequence[Sequence[str]], ShardPlan, str]:
        todo = indexing.plan(open_stage(workspace, key))
        told = f"{len(todo.stale)} documents stale, {len(todo.orphaned)} orphaned, "
        told += f"{todo.waiting} waiting, {todo.current} current"
        return todo.shards, {"orphaned": list(todo.orphaned)}, told

    def build(workspace: Workspace, key: Key, shard: Sequence[str]) -> Report:
        stage = open_stage(workspace, key)
        with workspace.charging(name, stage.key) as costs:
            report = indexing.build_shard(stage, shard)
        report.costs = costs
        return report

    def finish(
        workspace: Workspace, key: Key, found: ShardPlan, reports: Sequence[Report]
    ) -> Materialized:
        stage, orphaned = open_stage(workspace, key), found["orphaned"]
        total = Report(dropped=len(orphaned))
        for report in reports:
            total.add(report)
        state = indexing.finish(stage, orphaned, bool(reports), total.blamed)
        return table_outcome(stage, state, total, len(reports))

    return Shards(plan, build, Report, finish)


def _plan_documents(workspace: Workspace, _: Key) -> tuple[Sequence[Sequence[Any]], ShardPlan, str]:
    stale, _taken, found = indexing.plan_load(workspace)
    return indexing.load_shards(stale), asdict(found), f"{len(stale)} files or objects to load"


def _load_shard(workspace: Workspace, _: Key, shard: Sequence[Any]) -> Loaded:
    return indexing.load_shard(workspace, shard)


def _finish_documents(
    workspace: Workspace, _: Key, found: ShardPlan, parts: Sequence[Loaded]
) -> Materialized:
    report = indexing.finish_load(workspace, LoadFound(**found), parts)
    return documents_outcome(workspace, report)


SHARDS_OF_DOCUMENTS = Shards(_plan_documents, _load_shard, Loaded, _finish_documents)
