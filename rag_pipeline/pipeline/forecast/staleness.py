"""What is stale, and what it would be made from: what plans, sensors and the UI go by alike."""

from collections.abc import Container, Mapping

from rag_pipeline.config import fingerprint
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.pipeline.forecast.tables import Todo, documents_to_do
from rag_pipeline.pipeline.planning import Step, plan_step, steps, upstream
from rag_pipeline.workspace import Workspace


def stale_steps(workspace: Workspace) -> dict[Step, str]:
    """Return the steps that a run would make, each with a hash of what it would be made from.

    In the order of the flow, what follows from a stale step included. Opens no file while names,
    sizes and times are those of the last load.
    """
    loaded = loaded_listing(workspace)
    as_loaded = loaded is not None and loaded == listing_digest(workspace.config)
    todo = documents_to_do(workspace, steps(workspace.config), as_loaded)
    stale: dict[Step, str] = {}
    for step in steps(workspace.config):
        if is_stale(workspace, step, todo, stale):
            stale[step] = made_from(workspace, step, stale)
    return stale


def is_stale(
    workspace: Workspace, step: Step, todo: Mapping[Step, Todo], stale: Container[Step]
) -> bool:
    """Return whether a run would make a step, of those before it the `stale` ones made first."""
    if step in todo:
        return bool(todo[step].pending or todo[step].gone)
    before = upstream(workspace.config, step)
    return any(b in stale for b in before) or plan_step(workspace, step).must_run


def made_from(workspace: Workspace, step: Step, stale: Mapping[Step, str]) -> str:
    """Return the hash of what a step would be made from, `stale` steps before it by their own."""
    try:
        own = step.row.made_from(workspace, step.key(workspace.config))
    except RagPipelineError:
        own = ()  # what it reads is not there yet
    before = [stale[b] for b in upstream(workspace.config, step) if b in stale]
    return fingerprint(step.store_name, *map(str, own), *before)
