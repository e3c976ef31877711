"""One run that brings a whole corpus up to date: every stale step in order, in one process.

A run for each partition would start a process, import the project and open the models each time.
Where other workers build the shards, the sensors request the jobs of single assets instead.
"""

from collections.abc import Callable, Collection, Generator, Iterator
from typing import Any

import dagster as dg

from rag_pipeline.errors import RagPipelineError
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.orchestration.assets import (
    RETRIES,
    LoggedProgress,
    at_work_until_canceled,
    failure,
    is_of_the_store,
)
from rag_pipeline.orchestration.events import (
    alert_result,
    check_result,
    evaluation,
    materialization,
)
from rag_pipeline.orchestration.history import purge_runs
from rag_pipeline.orchestration.names import asset_key, identifier, update_job_name
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.pools import pool_of
from rag_pipeline.orchestration.requests import LEFT_TAG, left_over
from rag_pipeline.orchestration.staleness import observe_for_the_first_time, unchanged
from rag_pipeline.pipeline.driver import (
    Checked,
    Done,
    Event,
    Failed,
    Made,
    Started,
    Waiting,
    describe,
    drive,
)
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace

_NAMED = 20

Update = Callable[[dg.OpExecutionContext], Iterator[Any]]


def build_update_job(
    workspace: Workspace,
    retries: dg.RetryPolicy | None = RETRIES,
    update: Update | None = None,
) -> dg.JobDefinition:
    """Return the job `…__bring_up_to_date`; its steps are events of their assets.

    `rag run` passes its own `update`; by default all stale steps of the corpus are made.
    """
    config = workspace.config
    body = update or _update_of_all(workspace)

    @dg.op(
        name=identifier(config, "update_what_is_stale"),
        out=dg.Out(dg.Nothing),
        retry_policy=retries,
        pool=pool_of(config),
        description="Make every stale step in order; a step that fails stops those that read it.",
    )
    def update_what_is_stale(context: dg.OpExecutionContext) -> Iterator[Any]:
        yield from body(context)

    @dg.job(
        name=update_job_name(config),
        executor_def=dg.in_process_executor,
        description=f"Bring all of {config.corpus} up to date, and do nothing where it is.",
        tags={"corpus": config.corpus, "dagster/priority": "10"},
    )
    def bring_up_to_date() -> None:
        update_what_is_stale()

    return bring_up_to_date


def _update_of_all(workspace: Workspace) -> Update:
    observer = Observer(workspace)

    def update(context: dg.OpExecutionContext) -> Iterator[Any]:
        # A step that another run makes meanwhile is current when its turn comes.
        with at_work_until_canceled(workspace, context):
            # Files with other times and the same content are loaded too. Without a new note of
            # their times, the sensor would see them as changed for good.
            changed = loaded_listing(workspace) != listing_digest(workspace.config)
            events = drive(
                workspace,
                RunPlan(workspace, steps(workspace.config)),
                forced=[Step("documents")] if changed else (),
                keep_going=True,
                progress=LoggedProgress(context.log.info),
                run_id=context.run_id,
            )
            try:
                failed = yield from shown(workspace, context, events)
            finally:
                observer.observe_after(context.instance, context.log.warning)
            tag = left_over(workspace, context.instance, _unmakeable(failed))
            context.instance.add_run_tags(context.run_id, {LEFT_TAG: tag})
            purged = purge_runs(workspace, context.instance)
            context.log.info(f"{purged} runs past their time deleted from the history")
            raise_failures(failed)

    return update


Failures = dict[Step, Exception | None]
"""Steps that could not be made, with None those that wait for such a step."""


def shown(
    workspace: Workspace, context: dg.OpExecutionContext, events: Iterator[Event]
) -> Generator[Any, None, Failures]:
    """Yield Dagster's events for the driver's events and log the rest; return what failed."""
    config, instance = workspace.config, context.instance
    failed: Failures = {}
    made = 0
    observe_for_the_first_time(workspace, instance)
    for event in events:
        step, key = event.step, asset_key(config, event.step.asset)
        match event:
            case Started():
                context.log.info(f"{step}: {step.row.activity}")
            case Made(outcome=outcome):
                yield materialization(workspace, instance, step, outcome, context.run_id)
                for alert in outcome.alerts:
                    yield evaluation(alert_result(key, alert), step, blocking=False)
            case Checked(check=check, result=result):
                yield evaluation(check_result(key, check, result), step, check.blocking)
            case Done(ran=True):
                made += 1
            case Done() if config.schedule is not None and step.row.watched:
                yield unchanged(workspace, instance, step)
            case Waiting():
                failed[step] = None
            case Failed(error=error):
                failed[step] = error
                trace = None if isinstance(error, RagPipelineError | OSError) else error
                context.log.error(f"{step}: {error}", exc_info=trace)
    context.log.info(f"{made} steps made, {len(failed)} failed or held back")
    return failed


def raise_failures(failed: Failures) -> None:
    """Raise the Failure of a run in which steps failed."""
    errors = {step: error for step, error in failed.items() if error is not None}
    if errors:
        said = [f"{step}: {describe(error)}" for step, error in errors.items()]
        raise failure(said[:_NAMED], list(errors.values()))


def _unmakeable(failed: Failures) -> Collection[Step]:
    """Return the steps that fail again with the same inputs.

    Where only the store failed, nothing is known of them.
    """
    errors = [error for error in failed.values() if error is not None]
    return failed if any(not is_of_the_store(error) for error in errors) else ()
