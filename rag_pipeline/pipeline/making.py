"""Make one partition of an asset in this process, with what the store no longer needs freed."""

import time

from rag_pipeline.errors import RagPipelineError
from rag_pipeline.pipeline import retention
from rag_pipeline.pipeline.facts import Columns, Fact, Materialized, cost_facts, examples
from rag_pipeline.pipeline.forecast import hold_budget_of_step
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace


def make(workspace: Workspace, step: Step) -> Materialized:
    """Make a step whatever its state is, and charge its calls to it; return what came of it.

    Raises the step's own RagPipelineError, and BudgetError where it would cost more than is left.
    `assistant_prompts` is made by its own command.
    """
    row, key = step.row, step.key(workspace.config)
    if row.update is None:
        raise ValueError(f"{step} is not made by the pipeline")
    hold_budget_of_step(workspace, step)
    swept: dict[str, Fact] = {}
    started = time.perf_counter()
    with workspace.charging(step.asset, key) as costs:
        if row.sweep == "before":
            swept = _sweep(workspace)
        made = row.update(workspace, key)
        if row.sweep == "after":
            swept = _sweep(workspace)
    # The same keys at every materialization, so that they are charted over time.
    always: dict[str, Fact] = {
        "seconds": round(time.perf_counter() - started, 3),
        "cost_usd": 0.0,
        "calls_made": made.facts.get("inputs_sent", 0),
        "calls_saved": made.facts.get("inputs_cached", 0),
    }
    placed = place_facts(workspace, step)
    missing = {name: fact for name, fact in always.items() if name not in made.facts}
    facts = {**made.facts, **placed, **swept, **missing, **cost_facts(costs)}
    return Materialized(made.version, facts, made.alerts)


def place_facts(workspace: Workspace, step: Step) -> dict[str, Fact]:
    """Return where what was made stands: a table's name, its columns and its address."""
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


def _sweep(workspace: Workspace) -> dict[str, Fact]:
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
