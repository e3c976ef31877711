"""How an asset is built where work is handed out: planned, built in shards, finished."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rag_pipeline import indexing
from rag_pipeline.config import Key
from rag_pipeline.indexing import Found, Loaded, Report, TableStage
from rag_pipeline.pipeline.facts import Outcome
from rag_pipeline.pipeline.updates import documents_outcome, table_outcome
from rag_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Plan:
    """The shards, and what the end needs of the plan, as JSON; `told` is for people."""

    shards: Sequence[Sequence[Any]]
    told: str
    found: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shards:
    """The three steps of one partition; what a shard comes to is of type `made`."""

    plan: Callable[[Workspace, Key], Plan]
    build: Callable[[Workspace, Key, Sequence[Any]], Any]
    made: type
    finish: Callable[[Workspace, Key, Mapping[str, Any], Sequence[Any]], Outcome]


def shards_of_table(name: str, open_stage: Callable[[Workspace, Key], TableStage]) -> Shards:
    """Return how a table of documents' rows is built in shards of documents."""

    def plan(workspace: Workspace, key: Key) -> Plan:
        todo = indexing.plan(open_stage(workspace, key))
        told = f"{len(todo.stale)} documents stale, {len(todo.orphaned)} orphaned, "
        return Plan(todo.shards, f"{told}{todo.waiting} waiting, {todo.current} current", {})

    def build(workspace: Workspace, key: Key, shard: Sequence[str]) -> Report:
        stage = open_stage(workspace, key)
        with workspace.charging(name, stage.key) as costs:
            report = indexing.build_shard(stage, shard)
        report.costs = costs
        return report

    def finish(
        workspace: Workspace, key: Key, _: Mapping[str, Any], reports: Sequence[Report]
    ) -> Outcome:
        stage = open_stage(workspace, key)
        orphaned = indexing.plan(stage).orphaned
        total = Report(dropped=len(orphaned))
        for report in reports:
            total.add(report)
        state = indexing.finish(stage, orphaned, bool(reports), total.blamed)
        return table_outcome(stage, state, total, len(reports))

    return Shards(plan, build, Report, finish)


def _plan_documents(workspace: Workspace, _: Key) -> Plan:
    todo = indexing.plan_load(workspace)
    told = f"{len(todo.stale)} files or objects to load, {len(todo.found.gone)} looked for"
    return Plan(todo.shards(), told, asdict(todo.found))


def _finish_documents(
    workspace: Workspace, _: Key, found: Mapping[str, Any], parts: Sequence[Loaded]
) -> Outcome:
    report = indexing.finish_load(workspace, Found(**found), parts)
    return documents_outcome(workspace, report)


SHARDS_OF_DOCUMENTS = Shards(
    _plan_documents,
    lambda workspace, _, shard: indexing.load_shard(workspace, shard),
    Loaded,
    _finish_documents,
)
