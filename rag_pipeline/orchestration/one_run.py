"""Bring a whole corpus up to date by one run of every stale step in order, in one process.

`rag run` executes the run in its own process. Sensors and the schedule request the run. A run for
each partition would start a process, import the project and open the models each time. If other
workers build the shards, the sensors request the jobs of single assets instead.
"""

import fcntl
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ConfigError, RagPipelineError, UnexpectedError
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
from rag_pipeline.orchestration.internals import (
    InMemoryJob,
    LoadableTargetOrigin,
    execute_run,
    remote_origin,
)
from rag_pipeline.orchestration.names import asset_key, identifier, update_job_name
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.pools import pool_of
from rag_pipeline.orchestration.recovery import process_tag
from rag_pipeline.orchestration.requests import LEFT_TAG, SOURCES_TAG, left_over, sources_digest
from rag_pipeline.orchestration.staleness import Graph, found_current, observe_for_the_first_time
from rag_pipeline.pipeline.driver import (
    Checked,
    Done,
    Event,
    Failed,
    Made,
    Progress,
    Started,
    Waiting,
    drive,
)
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace

ORIGIN_TAG = "rag_pipeline/origin"
"""The tag with the command of a run that no sensor, schedule or backfill launched."""
_LOCATION, _MODULE = "rag_pipeline", "rag_pipeline.definitions"
_NAMED = 20

Update = Callable[[dg.OpExecutionContext], Iterator[Any]]


def build_update_job(
    workspace: Workspace,
    retries: dg.RetryPolicy | None = RETRIES,
    update: Update | None = None,
) -> dg.JobDefinition:
    """Return the job `…__bring_up_to_date`, whose steps appear as events of their assets.

    `update` makes the steps. By default it makes all stale steps of the corpus.
    """
    config = workspace.config
    body = update or _update_of_all(workspace)

    @dg.op(
        name=identifier(config, "update_what_is_stale"),
        out=dg.Out(dg.Nothing),
        retry_policy=retries,
        pool=pool_of(config),
        description="Make every stale step in order. A failed step stops the steps that read it.",
    )
    def update_what_is_stale(context: dg.OpExecutionContext) -> Iterator[Any]:
        tags = {SOURCES_TAG: sources_digest(config)}  # they may have changed in the queue
        context.instance.add_run_tags(context.run_id, tags)
        yield from body(context)

    @dg.job(
        name=update_job_name(config),
        executor_def=dg.in_process_executor,
        description=f"Bring all of {config.corpus} up to date.",
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
            # Files with new times and the same content are loaded, too. Without a record of the
            # new times, the sensor would always see these files as changed.
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
                failed = yield from shown(workspace, context, events, observer.graph(context))
            finally:
                observer.observe_after(context)
            tag = left_over(workspace, context.instance, _unmakeable(failed))
            context.instance.add_run_tags(context.run_id, {LEFT_TAG: tag})
            purged = purge_runs(workspace, context.instance)
            context.log.info(f"{purged} runs past their time deleted from the history")
            raise_failures(failed)

    return update


Failures = dict[Step, Exception | None]
"""The errors of steps that could not be made. None means that the step reads a failed step."""


def shown(
    workspace: Workspace, context: dg.OpExecutionContext, events: Iterator[Event], graph: Graph
) -> Generator[Any, None, Failures]:
    """Yield Dagster's events for the driver's events, log the rest, and return the failures."""
    config, instance = workspace.config, context.instance
    failed: Failures = {}
    made = 0
    observe_for_the_first_time(workspace, instance, steps(config))
    for event in events:
        step, key = event.step, asset_key(config, event.step.asset)
        match event:
            case Started():
                context.log.info(f"{step}: {step.row.activity}")
            case Made(outcome=outcome):
                yield materialization(workspace, instance, step, outcome, graph)
                for alert in outcome.alerts:
                    yield evaluation(alert_result(key, alert), step, blocking=False)
            case Checked(check=check, result=result):
                yield evaluation(check_result(key, check, result), step, check.blocking)
            case Done(ran=True):
                made += 1
            case Done() if config.schedule is not None and step.row.watched:
                yield found_current(workspace, step)
            case Waiting():
                failed[step] = None
            case Failed(error=error):
                failed[step] = error
                trace = error.__cause__ if isinstance(error, UnexpectedError) else None
                context.log.error(f"{step}: {error}", exc_info=trace)
    context.log.info(f"{made} steps made, {len(failed)} failed or held back")
    return failed


def raise_failures(failed: Failures) -> None:
    """Raise dg.Failure if steps failed."""
    errors = {step: error for step, error in failed.items() if error is not None}
    if errors:
        said = [f"{step}: {error}" for step, error in errors.items()]
        raise failure(said[:_NAMED], list(errors.values()))


def _unmakeable(failed: Failures) -> Collection[Step]:
    """Return the failed steps that would fail again with the same inputs.

    Return no steps if all errors come from the store, because they may pass.
    """
    errors = [error for error in failed.values() if error is not None]
    return failed if any(not is_of_the_store(error) for error in errors) else ()


# --- `rag run` ---


def run(config: CorpusConfig, configuration: str | None = None) -> list[Done]:
    """Make every stale step of the corpus, or of one configuration (see `run_steps`)."""
    workspace = Workspace(config)
    return run_steps(RunPlan(workspace, steps(config, configuration)))


def run_steps(
    plan: RunPlan,
    listen: Callable[[Event], object] = lambda event: None,
    progress: Progress = lambda step, what, count: None,
) -> list[Done]:
    """Make the stale steps of a plan in order, as one run, and return the results of all steps.

    `listen` receives every event of the driver. The first failed step ends the run and raises its
    error, with the step in the message. Earlier steps stay finished. SIGINT and SIGTERM raise
    KeyboardInterrupt.
    """
    workspace, observer = plan.workspace, Observer(plan.workspace)
    done: list[Done] = []
    failed: dict[Step, Any] = {}

    def reported(run_id: str) -> Iterator[Event]:
        for event in drive(workspace, plan, progress=progress, run_id=run_id):
            if isinstance(event, Done):
                done.append(event)
            listen(event)
            yield event

    def update(context: dg.OpExecutionContext) -> Iterator[Any]:
        events = reported(context.run_id)
        failed.update((yield from shown(workspace, context, events, observer.graph(context))))
        if not context.instance.is_ephemeral:
            observer.observe_after(context)
            purge_runs(workspace, context.instance)
        raise_failures(failed)

    job = build_update_job(workspace, retries=None, update=update)
    with _instance() as instance:
        try:
            _execute(job, instance, workspace.config)
        except dg.Failure:
            ((step, error),) = failed.items()
            if not isinstance(error, RagPipelineError):
                raise RagPipelineError(f"{step}: {error}") from error
            error.args = (f"{step}: {error}",)
            raise error from error.__cause__
        except dg.DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None
    return done


def _instance() -> dg.DagsterInstance:
    """Open the Dagster instance of DAGSTER_HOME, or a temporary instance without DAGSTER_HOME.

    Only one process at a time opens the instance. Two processes that create its SQLite files at the
    same time would damage them.
    """
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        return dg.DagsterInstance.ephemeral()
    if not Path(home).is_dir():
        raise ConfigError(f"DAGSTER_HOME: {home}: no such folder; make it or unset DAGSTER_HOME")
    handle = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return dg.DagsterInstance.get()
    finally:
        os.close(handle)


def _execute(job: dg.JobDefinition, instance: dg.DagsterInstance, config: CorpusConfig) -> None:
    """Execute a job as a run of the corpus's code location, so that the UI's timeline shows it."""
    tags = {"corpus": config.corpus, ORIGIN_TAG: "rag run", "dagster/max_retries": "0"}
    created = instance.create_run_for_job(
        job,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        tags={**job.run_tags, **tags, **process_tag()},
        remote_job_origin=_origin(instance, config, job.name),
    )
    execute_run(InMemoryJob(job), created, instance, raise_on_error=True)


def _origin(
    instance: dg.DagsterInstance, config: CorpusConfig, job: str
) -> remote_origin.RemoteJobOrigin | None:
    """Return the code location of a job: the sensors' location if it exists, or this project.

    Return None for a temporary instance.
    """
    if instance.is_ephemeral:
        return None
    mine = identifier(config, "")
    for state in instance.all_instigator_state():
        if state.instigator_name.startswith(mine):
            return remote_origin.RemoteJobOrigin(state.origin.repository_origin, job)
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=_MODULE)
    location = remote_origin.ManagedGrpcPythonEnvCodeLocationOrigin(target, _LOCATION)
    repository = remote_origin.RemoteRepositoryOrigin(location, "__repository__")
    return remote_origin.RemoteJobOrigin(repository, job)
