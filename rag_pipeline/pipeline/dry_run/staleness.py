"""Which steps are stale, and the hash of their inputs: the base of plans, sensors and the UI."""

from collections.abc import Container, Mapping

from rag_pipeline.config import fingerprint
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.pipeline.dry_run.tables import PendingDocuments, pending_documents
from rag_pipeline.pipeline.planning import Step, plan_step, steps, upstream
from rag_pipeline.workspace import Workspace


def stale_steps(workspace: Workspace) -> dict[Step, str]:
    """Return the steps that a run would make, each with the hash of its inputs.

    The steps are in the order of the flow, those after a stale step included. No file is opened
    while names, sizes and times are those of the last load.
    """
    loaded = loaded_listing(workspace)
    as_loaded = loaded is not None and loaded == listing_digest(workspace.config)
    pending = pending_documents(workspace, steps(workspace.config), as_loaded)
    stale: dict[Step, str] = {}
    for step in steps(workspace.config):
        if is_stale(workspace, step, pending, stale):
            stale[step] = made_from(workspace, step, stale)
    return stale


def is_stale(
    workspace: Workspace,
    step: Step,
    pending: Mapping[Step, PendingDocuments],
    stale: Container[Step],
) -> bool:
    """Return whether a run would make a step, if it makes the `stale` steps before it."""
    if step in pending:
        return not pending[step].is_empty
    before = upstream(workspace.config, step)
    return any(b in stale for b in before) or plan_step(workspace, step).must_run


def made_from(workspace: Workspace, step: Step, stale: Mapping[Step, str]) -> str:
    """Return the hash of a step's inputs; `stale` steps before it count by their own hash."""
    try:
        own = step.row.made_from(workspace, step.key(workspace.config))
    except RagPipelineError:
        own = ()  # an input does not exist yet
    before = [stale[b] for b in upstream(workspace.config, step) if b in stale]
    return fingerprint(step.store_name, *map(str, own), *before)
