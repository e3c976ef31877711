"""Make one partition of an asset in this process, and remove what the store no longer needs."""

import time

from rag_pipeline import indexing
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.indexing import Plan
from rag_pipeline.pipeline import retention
from rag_pipeline.pipeline.metadata import (
    Columns,
    Materialized,
    MetadataValue,
    cost_metadata,
    examples,
)
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.pipeline.updates import table_outcome
from rag_pipeline.workspace import Workspace


def make(workspace: Workspace, step: Step, plan: Plan | None = None) -> Materialized:
    """Make a step whatever its state, and charge its calls to it; return its outcome.

    A table is built by `plan`, or by a new plan. Raises the step's own RagPipelineError.
    `assistant_prompts` is made by its own command.
    """
    row, key = step.row, step.key(workspace.config)
    removed: dict[str, MetadataValue] = {}
    started = time.perf_counter()
    with workspace.charging(step.asset, key) as costs:
        if row.cleanup == "before":
            removed = _clean_up(workspace)
        if row.stage is not None:
            stage = row.stage(workspace, key)
            plan = plan or indexing.plan(stage)
            report, state = indexing.update_stage(stage, plan)
            made = table_outcome(stage, state, report, len(plan.shards))
        elif row.update is not None:
            made = row.update(workspace, key)
        else:
            raise ValueError(f"{step} is not made by the pipeline")
        if row.cleanup == "after":
            removed = _clean_up(workspace)
    # Every materialization has these keys, so that Dagster charts them over time.
    always: dict[str, MetadataValue] = {
        "seconds": round(time.perf_counter() - started, 3),
        "cost_usd": 0.0,
        "calls_made": made.metadata.get("inputs_sent", 0),
        "calls_saved": made.metadata.get("inputs_cached", 0),
    }
    placed = place_metadata(workspace, step)
    missing = {name: fact for name, fact in always.items() if name not in made.metadata}
    metadata = {**made.metadata, **placed, **removed, **missing, **cost_metadata(costs)}
    return Materialized(made.version, metadata, made.alerts)


def place_metadata(workspace: Workspace, step: Step) -> dict[str, MetadataValue]:
    """Return where a step's result stands: the name, columns and address of a table or file."""
    row, key = step.row, step.key(workspace.config)
    if row.table is None:
        return {"dagster/uri": workspace.store.address(row.place(key))} if row.place else {}
    table = row.table(workspace, key)
    return {
        "dagster/table_name": f"{workspace.config.corpus}.{table.name}",
        "dagster/uri": workspace.store.address(f"tables/{table.name}.lance"),
        "dagster/column_schema": Columns(
            tuple((field.name, str(field.type)) for field in table.open().schema)
        ),
    }


def _clean_up(workspace: Workspace) -> dict[str, MetadataValue]:
    """Remove what is past its time; an error there stops no build and no release."""
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
