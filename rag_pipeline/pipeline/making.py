"""Make one partition of an asset in this process, with what the store no longer needs freed."""

from rag_pipeline.errors import RagPipelineError
from rag_pipeline.pipeline import retention
from rag_pipeline.pipeline.facts import Fact, Outcome, cost_facts, examples
from rag_pipeline.pipeline.forecast import hold_budget_of_step
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace


def make(workspace: Workspace, step: Step) -> Outcome:
    """Make a step whatever its state is, and charge its calls to it; return what came of it.

    Raises the step's own RagPipelineError, and BudgetError where it would cost more than is left.
    `assistant_prompts` is made by its own command.
    """
    row, key = step.row, step.key(workspace.config)
    if row.update is None:
        raise ValueError(f"{step} is not made by the pipeline")
    hold_budget_of_step(workspace, step)
    swept: dict[str, Fact] = {}
    with workspace.charging(step.asset, key) as costs:
        if row.sweep == "before":
            swept = _sweep(workspace)
        made = row.update(workspace, key)
        if row.sweep == "after":
            swept = _sweep(workspace)
    return Outcome(made.version, {**made.facts, **swept, **cost_facts(costs)}, made.alerts)


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
