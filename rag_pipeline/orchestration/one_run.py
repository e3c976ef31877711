"""One run that brings a whole corpus up to date: every stale step in order, in one process.

A run a partition pays for a process, its imports and its models a hundred times over. Where shards
are to be built by other workers, the jobs of single assets are requested instead.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from rag_pipeline.calls.telemetry import in_run
from rag_pipeline.errors import CheckFailedError, RagPipelineError
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.orchestration.assets import (
    RETRIES,
    at_work_until_canceled,
    failure,
    is_of_the_store,
    progress_logged,
)
from rag_pipeline.orchestration.checks import judge
from rag_pipeline.orchestration.events import alert_result, evaluation, materialization
from rag_pipeline.orchestration.history import purge_runs
from rag_pipeline.orchestration.names import asset_key, identifier, update_job_name
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.pools import pool_of
from rag_pipeline.orchestration.requests import LEFT_TAG, left_over
from rag_pipeline.orchestration.staleness import observe_for_the_first_time, unchanged
from rag_pipeline.orchestration.verdicts import passed
from rag_pipeline.pipeline.forecast import Outlook, pays
from rag_pipeline.pipeline.making import make
from rag_pipeline.pipeline.planning import Step, plan_step, steps, upstream
from rag_pipeline.workspace import Workspace

_NAMED = 20


def build_update_job(
    workspace: Workspace, retries: dg.RetryPolicy | None = RETRIES
) -> dg.JobDefinition:
    """Return the job `…__bring_up_to_date`; its steps are shown as events of their assets."""
    config = workspace.config
    observer = Observer(workspace)

    @dg.op(
        name=identifier(config, "update_what_is_stale"),
        out=dg.Out(dg.Nothing),
        retry_policy=retries,
        pool=pool_of(config),
        description="Make every stale step in order; one that fails holds back what reads it.",
    )
    def update_what_is_stale(context: dg.OpExecutionContext) -> Iterator[Any]:
        # What another run does meanwhile is current when its turn comes.
        with at_work_until_canceled(workspace, context):
            observe_for_the_first_time(workspace, context.instance)
            try:
                yield from _update(context, workspace)
            finally:
                observer.observe_after(context.instance, context.log.warning)
            purged = purge_runs(workspace, context.instance)
            context.log.info(f"{purged} runs past their time deleted from the history")

    @dg.job(
        name=update_job_name(config),
        executor_def=dg.in_process_executor,
        description=f"Bring all of {config.corpus} up to date, and do nothing where it is.",
        tags={"corpus": config.corpus, "dagster/priority": "10"},
    )
    def bring_up_to_date() -> None:
        update_what_is_stale()

    return bring_up_to_date


def _update(context: dg.OpExecutionContext, workspace: Workspace) -> Iterator[Any]:
    """Make every stale step; yield the events. Raises Failure where one could not be made."""
    config = workspace.config
    failed: dict[Step, Exception | str] = {}
    made = 0
    outlook = Outlook(workspace, steps(config))
    for step in outlook.wanted:
        before = upstream(config, step)
        held = [b for b in before if b in failed]
        if held and (step.row.holds_back or len(held) == len(before)):
            failed[step] = f"it reads {held[0]}"
            continue
        try:
            if not _must_run(workspace, step) and passed(workspace, step):
                if config.schedule is not None and step.row.watched:
                    yield unchanged(workspace, context.instance, step)
                continue
            if config.budget_usd is not None and pays(workspace, step):
                outlook.look_ahead()  # all that is to come, as `rag run` does
            context.log.info(f"{step}: {step.row.doing}")
            yield from _made(workspace, context, step)
            made += 1
        except Exception as error:
            # A defect in one step is no reason to leave the others undone; its trace is logged.
            ours = isinstance(error, RagPipelineError | OSError)
            context.log.error(f"{step}: {error}", exc_info=not ours)
            failed[step] = error
    errors = [error for error in failed.values() if isinstance(error, Exception)]
    # Where only the store failed, nothing is known of what could not be made.
    left = failed if any(not is_of_the_store(error) for error in errors) else ()
    context.instance.add_run_tags(
        context.run_id, {LEFT_TAG: left_over(workspace, context.instance, left)}
    )
    context.log.info(f"{made} steps made, {len(failed)} failed or held back")
    if failed:
        said = [f"{s}: {_told(e)}" for s, e in failed.items() if isinstance(e, Exception)]
        raise failure(said[:_NAMED], errors)


def _must_run(workspace: Workspace, step: Step) -> bool:
    """Return whether to make a step.

    Files with other times and the same bytes are loaded, too: what they look like is noted, or the
    sensor would see them as changed for good.
    """
    if step.asset == "documents" and loaded_listing(workspace) != listing_digest(workspace.config):
        return True
    return plan_step(workspace, step).must_run


def _told(error: Exception) -> str:
    ours = isinstance(error, RagPipelineError | OSError)
    return str(error) if ours else f"{type(error).__name__}: {error}"


def _made(workspace: Workspace, context: dg.OpExecutionContext, step: Step) -> Iterator[Any]:
    """Make a step and judge it; yield what its asset's page shows.

    Raises CheckFailedError when a blocking check fails.
    """
    config = workspace.config
    key = asset_key(config, step.asset)
    with in_run(context.run_id), progress_logged(step, context.log.info):
        outcome = make(workspace, step)
    yield materialization(workspace, context.instance, step, outcome, context.run_id)
    for alert in outcome.alerts:
        yield evaluation(alert_result(key, alert), step, blocking=False)
    failed = []
    for check in step.row.checks:
        result = judge(workspace, step, check)
        yield evaluation(result, step, check.blocking)
        if check.blocking and not result.passed:
            failed.append(f"check {check.name} failed: {result.description}")
    if failed:
        raise CheckFailedError("; ".join(failed))
