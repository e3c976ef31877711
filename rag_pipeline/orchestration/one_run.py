"""Bring a whole corpus up to date by one run of every stale step in order, in one process.

`rag run` executes the run in its own process. Sensors and the schedule request the run. A run for
each partition would start a process, import the project and open the models each time. If other
workers build the shards, the sensors request the jobs of single assets instead.
"""

import atexit
import fcntl
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ConfigError, RagPipelineError, UnexpectedError
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.orchestration import assets, internals, names, requests
from rag_pipeline.orchestration.events import evaluation, metadata_of
from rag_pipeline.orchestration.history import purge_runs
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.pools import pool_of
from rag_pipeline.orchestration.recovery import process_tag
from rag_pipeline.orchestration.staleness import Newest, ShownState, found_current, version_made
from rag_pipeline.pipeline import driver
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.planning import DOCUMENTS, Step, readers, stale_steps, steps
from rag_pipeline.store.lease import lease
from rag_pipeline.workspace import Workspace

ORIGIN_TAG = "rag_pipeline/origin"
"""The tag with the command of a run that no sensor, schedule or backfill launched."""
_LOCATION, _MODULE = "rag_pipeline", "rag_pipeline.definitions"
_NAMED = 20

_AFTER_OUTPUTS = {"step_dependency_config": {"require_upstream_step_success": False}}
"""An op that failed for some partitions has an output, so that the ops behind it make the rest."""


@dataclass(slots=True)
class Work:
    """The work that the ops of one run share: its plan, and the failures so far."""

    plan: RunPlan
    observer: Observer
    keep_going: bool = True
    forced: Sequence[Step] = ()
    listen: Callable[[driver.Event], object] = lambda event: None
    progress: driver.Progress | None = None
    failed: dict[Step, Exception | None] = field(default_factory=dict)
    """The errors of steps that could not be made. None means that the step reads a failed step."""
    canceled: str = ""
    """The reason why no further op begins, or ""."""
    _last: dg.OpExecutionContext | None = None

    def announce(self, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
        """Report the partitions that the run will make. The UI shows them as in progress."""
        config, events = self.plan.workspace.config, internals.events
        plan_one = events.DagsterEvent.build_asset_materialization_planned_event
        ops = run.step_keys_to_execute or names.asset_names(config)
        stale = {*stale_steps(self.plan.workspace), *self.forced}
        for step in self.plan.steps:
            if step in stale and step.asset in ops:
                key = names.asset_key(config, step.asset)
                planned = events.AssetMaterializationPlannedData(key, partition=step.partition)
                event = plan_one(run.job_name, step.asset, planned)
                instance.report_dagster_event(event, run.run_id, logging.DEBUG)

    def make(self, context: dg.OpExecutionContext, name: str) -> Iterator[Any]:
        """Make the stale steps of an asset and yield Dagster's events. Raise dg.Failure at the end.

        An output is yielded before the last failure, so that later ops make the other steps.
        """
        self._last = context
        wanted = [step for step in self.plan.steps if step.asset == name]
        for step in wanted:
            self.failed.pop(step, None)
        yield from self._shown(context, wanted)
        config = self.plan.workspace.config
        errors = {
            f"{requests.with_readers(step, len(readers(config, step)))}: {error}": error
            for step in wanted
            if (error := self.failed.get(step)) is not None
        }
        told = assets.failure([*errors][:_NAMED], [*errors.values()]) if errors else None
        retries = policy.max_retries if (policy := context.op_def.retry_policy) else 0
        if not (told and told.allow_retries and context.retry_number < retries):
            yield dg.Output(None)
        if told:
            raise told

    def _shown(self, context: dg.OpExecutionContext, wanted: Sequence[Step]) -> Iterator[Any]:
        """Yield Dagster's events for the driver's events, and log the rest."""
        workspace, instance = self.plan.workspace, context.instance
        config, read = workspace.config, Newest()
        shown = ShownState(workspace, instance, self.observer.graph(context))
        left_out: dict[Step, int] = {}
        for event in driver.drive(
            workspace,
            self.plan,
            wanted=wanted,
            forced=self.forced,
            keep_going=self.keep_going,
            progress=self.progress or assets.LoggedProgress(context.log.info),
            run_id=context.run_id,
        ):
            self.listen(event)
            step, key = event.step, names.asset_key(config, event.step.asset)
            match event:
                case driver.Made(outcome=outcome):
                    if not read:
                        shown.observe_new_inputs(wanted)
                    same = step == DOCUMENTS and version_made(workspace, instance, step)
                    if same == outcome.version:  # no asset behind it has to wait for an event
                        yield found_current(workspace, step, metadata_of(outcome.metadata))
                    else:
                        yield shown.materialization(step, outcome, read)
                case driver.Checked(check=check, result=result):
                    yield evaluation(key, step, check, result)
                case driver.Done(ran=False) if config.schedule is not None and step.row.watched:
                    yield found_current(workspace, step)
                case driver.Waiting(cause=cause):
                    self.failed[step] = None
                    left_out[cause] = left_out.get(cause, 0) + 1
                case driver.Failed(error=error):
                    self.failed[step] = error
                    trace = error.__cause__ if isinstance(error, UnexpectedError) else None
                    context.log.error(f"{step}: {error}", exc_info=trace)
        for cause, count in left_out.items():
            context.log.warning(f"{count} of {len(wanted)} left out, because {cause} failed")

    def end(self, instance: dg.DagsterInstance, run: dg.DagsterRun, log: Any) -> None:
        """Observe the steps that are still stale, and delete runs past their time."""
        workspace = self.plan.workspace
        if self._last is not None:
            # A load may have left an observation instead.
            self.observer.observe_after(self._last, self.plan.made - {DOCUMENTS})
            if self.keep_going:
                # Errors of the store may be temporary. Others occur again with the same inputs.
                lasting = any(e and not assets.is_of_the_store(e) for e in self.failed.values())
                tag = requests.left_over(workspace, instance, self.failed if lasting else ())
                instance.add_run_tags(run.run_id, {requests.LEFT_TAG: tag})
            if purged := purge_runs(workspace, instance):
                log.info(f"{purged} runs past their time deleted from the history")


def build_update_job(
    workspace: Workspace,
    retries: dg.RetryPolicy | None = assets.RETRIES,
    begin: Callable[[], Work] | None = None,
) -> dg.JobDefinition:
    """Return the job `…__bring_up_to_date`: an op for each asset, all in one process.

    `begin` returns the work of a run. By default it is all stale steps of the corpus.
    """
    config, shared = workspace.config, names.identifier(workspace.config, "work")

    @dg.resource(description="The lease of the corpus, and the plan of the run.")
    def work(context: dg.InitResourceContext) -> Iterator[Work]:
        instance, run, log = context.instance, context.run, context.log
        assert instance is not None and run is not None and log is not None
        # Otherwise this process spends two CPU seconds at its end on garbage of all imports.
        atexit.register(gc.freeze)
        # Files and settings may have changed while the run was queued.
        instance.add_run_tags(run.run_id, {requests.SOURCES_TAG: requests.sources_digest(config)})
        # A step that another run makes meanwhile is current when its turn comes.
        with lease(workspace.store, wait=True, waiting=log.info):
            mine = (begin or partial(_begin, workspace))()
            if instance.is_ephemeral and not mine.keep_going:
                yield mine  # without DAGSTER_HOME, nobody reads the run's events
                return
            try:
                mine.announce(instance, run)
            except Exception as error:  # noqa: BLE001 (the op of the step reports it)
                log.warning(f"not planned: {type(error).__name__}: {error}")
            try:
                yield mine
            finally:
                mine.end(instance, run, log)

    @dg.job(
        name=names.job_name(config),
        executor_def=dg.in_process_executor.configured(_AFTER_OUTPUTS, name="in_process"),
        description=f"Bring all of {config.corpus} up to date.",
        tags={"corpus": config.corpus, "dagster/priority": "10"},
        resource_defs={shared: work},
    )
    def bring_up_to_date() -> None:
        every = names.asset_names(config)
        made: dict[str, Any] = {}
        for number, name in enumerate(every):
            op = _op_of(workspace, name, shared, retries, len(every) - number)
            made[name] = op.alias(name)(**{b: made[b] for b in names.upstream_assets(config, name)})

    return bring_up_to_date


def _op_of(
    workspace: Workspace, name: str, shared: str, retries: dg.RetryPolicy | None, priority: int
) -> dg.OpDefinition:
    config = workspace.config

    @dg.op(
        name=names.identifier(config, f"bring_{name}_up_to_date"),
        ins={before: dg.In(dg.Nothing) for before in names.upstream_assets(config, name)},
        out=dg.Out(dg.Nothing),
        retry_policy=retries,
        pool=pool_of(config, name),
        required_resource_keys={shared},
        tags={"dagster/priority": str(priority)},
        description=f"Make the stale partitions of {name} that no failed partition holds back.",
    )
    def make(context: dg.OpExecutionContext) -> Iterator[Any]:
        work: Work = getattr(context.resources, shared)
        if work.canceled:  # Dagster still starts the ops that do not read the canceled one
            raise dg.Failure(work.canceled, allow_retries=False)
        try:
            # Ctrl-C ends `rag run`, which retries no step.
            until_canceled = assets.at_work_until_canceled(workspace, context)
            with until_canceled if work.keep_going else nullcontext():
                yield from work.make(context, name)
        except dg.Failure as error:
            if isinstance(error.__cause__, assets.INTERRUPTS):
                work.canceled = error.description or ""
            raise

    return make


def _begin(workspace: Workspace) -> Work:
    """Return the work of a run of all stale steps.

    Files with new times and the same content are loaded, too. Without a record of the new times,
    the sensor would always see these files as changed.
    """
    changed = loaded_listing(workspace) != listing_digest(workspace.config)
    forced = [DOCUMENTS] if changed else []
    return Work(RunPlan(workspace, steps(workspace.config)), Observer(workspace), forced=forced)


# --- `rag run` ---


def run_steps(
    plan: RunPlan,
    listen: Callable[[driver.Event], object] = lambda event: None,
    progress: driver.Progress = lambda step, what, count: None,
) -> list[driver.Done]:
    """Make the stale steps of a plan in order, as one run, and return the results of all steps.

    `listen` receives every event of the driver. The first failed step ends the run and raises its
    error, with the step in the message. Earlier steps stay finished. SIGINT and SIGTERM raise
    KeyboardInterrupt.
    """
    workspace = plan.workspace
    done: list[driver.Done] = []

    def heard(event: driver.Event) -> None:
        if isinstance(event, driver.Done):
            done.append(event)
        listen(event)

    with _instance() as instance:
        work = Work(plan, Observer(workspace), keep_going=False, listen=heard, progress=progress)
        job = build_update_job(workspace, retries=None, begin=lambda: work)
        try:
            _execute(job, instance, workspace.config)
        except dg.Failure:
            ((step, error),) = work.failed.items()
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
    internals.execute_run(internals.InMemoryJob(job), created, instance, raise_on_error=True)


def _origin(
    instance: dg.DagsterInstance, config: CorpusConfig, job: str
) -> internals.remote_origin.RemoteJobOrigin | None:
    """Return the code location of a job: the sensors' location if it exists, or this project.

    Return None for a temporary instance.
    """
    if instance.is_ephemeral:
        return None
    mine = names.identifier(config, "")
    for state in instance.all_instigator_state():
        if state.instigator_name.startswith(mine):
            return internals.remote_origin.RemoteJobOrigin(state.origin.repository_origin, job)
    target = internals.LoadableTargetOrigin(executable_path=sys.executable, module_name=_MODULE)
    location = internals.remote_origin.ManagedGrpcPythonEnvCodeLocationOrigin(target, _LOCATION)
    repository = internals.remote_origin.RemoteRepositoryOrigin(location, "__repository__")
    return internals.remote_origin.RemoteJobOrigin(repository, job)
