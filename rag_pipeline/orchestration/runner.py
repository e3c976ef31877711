"""`rag run`: one Dagster run in this process, of the job that brings a corpus up to date."""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import (
    BudgetError,
    CheckFailedError,
    ConfigError,
    InputError,
    RagPipelineError,
)
from rag_pipeline.orchestration.history import purge_runs
from rag_pipeline.orchestration.internals import (
    InMemoryJob,
    LoadableTargetOrigin,
    execute_run,
    remote_origin,
)
from rag_pipeline.orchestration.names import identifier
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.one_run import build_update_job, raise_failures, shown
from rag_pipeline.orchestration.recovery import process_tag
from rag_pipeline.pipeline.driver import Done, Event, Progress, drive
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.workspace import Workspace

ORIGIN_TAG = "rag_pipeline/origin"
"""Names the command of a run that no sensor, schedule or backfill launched."""
_LOCATION, _MODULE = "rag_pipeline", "rag_pipeline.definitions"


def run(config: CorpusConfig, configuration: str | None = None) -> list[Done]:
    """Make every stale step of the corpus, or of one configuration; see `run_steps`."""
    workspace = Workspace(config)
    return run_steps(RunPlan(workspace, steps(config, configuration)))


def run_steps(
    plan: RunPlan,
    listen: Callable[[Event], object] = lambda event: None,
    progress: Progress = lambda step, what, count: None,
) -> list[Done]:
    """Make the stale steps among some, in order, as one run; return the results of all.

    `listen` is called with every event of the driver. The first step that fails ends the run. Its
    message is raised as a BudgetError, CheckFailedError, ConfigError or InputError if that is the
    cause, else as a RagPipelineError. Earlier steps stay finished. SIGINT and SIGTERM raise
    KeyboardInterrupt.
    """
    workspace = plan.workspace
    done: list[Done] = []

    def reported(run_id: str) -> Iterator[Event]:
        for event in drive(workspace, plan, progress=progress, run_id=run_id):
            if isinstance(event, Done):
                done.append(event)
            listen(event)
            yield event

    def update(context: dg.OpExecutionContext) -> Iterator[Any]:
        failed = yield from shown(workspace, context, reported(context.run_id))
        if not context.instance.is_ephemeral:
            Observer(workspace).observe_after(context.instance, context.log.warning)
            purge_runs(workspace, context.instance)
        raise_failures(failed)

    job = build_update_job(workspace, retries=None, update=update)
    with _instance() as instance:
        try:
            _execute(job, instance, workspace.config)
        except dg.Failure as failure:
            cause = failure.__cause__
            kinds = (BudgetError, CheckFailedError, ConfigError, InputError)
            kind = next((k for k in kinds if isinstance(cause, k)), RagPipelineError)
            raise kind(failure.description) from cause
        except dg.DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None
    return done


def _instance() -> dg.DagsterInstance:
    """Open the instance of DAGSTER_HOME, whose history the UI shows; else a temporary one.

    Only one process opens it at a time: two that create its SQLite files would damage them.
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
    """Execute a job as a run of the corpus's code location, where the UI's timeline shows it."""
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
    """Return the code location of a job: the daemon's, if it runs the sensors, or this project."""
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
