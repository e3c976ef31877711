"""Materialize what is stale, in this process, through the same jobs that the Dagster UI shows."""

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.progress import listening
from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import BudgetError, CheckFailedError, ConfigError, RagPipelineError
from rag_pipeline.indexing import Plan, open_stage
from rag_pipeline.memory import release_memory
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.names import identifier, job_name
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.recovery import process_tag
from rag_pipeline.orchestration.staleness import observe_for_the_first_time
from rag_pipeline.orchestration.verdicts import passed
from rag_pipeline.pipeline.planning import Step, plan_step, steps, why
from rag_pipeline.workspace import Workspace

ORIGIN_TAG = "rag_pipeline/origin"
"""What launched a run, where no sensor, schedule or backfill did."""
_LOCATION, _MODULE = "rag_pipeline", "rag_pipeline.definitions"


@dataclass(slots=True)
class StepResult:
    """What one step did: nothing when it was current."""

    step: Step
    ran: bool
    seconds: float = 0.0
    calls: CallCounts = field(default_factory=CallCounts)
    metadata: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    """Why it was made anew, "" for what is new or changed itself."""


Announce = Callable[[Step, int | None], Callable[[str, int], None]]
"""Called when a step begins, with its total in the asset's unit; returns what takes progress."""


def run(
    config: CorpusConfig,
    configuration: str | None = None,
    announce: Announce = lambda step, total: lambda what, count: None,
    workspace: Workspace | None = None,
) -> Iterator[StepResult]:
    """Materialize every stale step of the corpus, or of one configuration, in order.

    A `workspace` of the same settings lends what it has read of the store. Yields each step's
    result when it is done. Raises CheckFailedError when a blocking check
    fails, RagPipelineError with the step's own message when it fails otherwise; what was
    finished before stays finished.
    """
    workspace = known = workspace or Workspace(config)
    definitions = None
    made: dict[Step, dict[str, Any]] = {}
    reasons: dict[Step, str] = {}
    with _instance() as instance:
        if not instance.is_ephemeral:
            observe_for_the_first_time(workspace, instance)
        for step in steps(config, configuration):
            started = time.perf_counter()
            if step in made:
                before = step.row.made_with
                reason = f"{before} changed" if reasons.get(Step(before, step.partition)) else ""
                yield StepResult(step, True, metadata=made[step], why=reason)
                continue
            todo = plan_step(workspace, step)
            if not todo.must_run and passed(workspace, step):
                saved = CallCounts(saved=_texts(workspace, step))
                yield StepResult(step, ran=False, calls=saved)
                continue
            # Whoever waits at the terminal is better served by the reason at once.
            definitions = definitions or build_definitions(
                config, retries=None, workspace_type=lambda _: known
            )
            if todo.must_run:
                reasons[step] = todo.why or why(workspace, step, made)
            with listening(announce(step, _total(workspace, step, todo.documents))):
                made |= _materialize(definitions, instance, config, step)
            release_memory()  # the next step would take more beside what this one has freed
            metadata = made.get(step, {})
            calls = CallCounts(metadata.get("calls_made", 0), metadata.get("calls_saved", 0))
            seconds = time.perf_counter() - started
            yield StepResult(step, True, seconds, calls, metadata, reasons.get(step, ""))
        if not instance.is_ephemeral:
            Observer(workspace).observe_after(instance, dg.get_dagster_logger().warning)


def _instance() -> dg.DagsterInstance:
    """Open the instance of DAGSTER_HOME, whose history the UI shows; else a passing one.

    One process at a time: two that make its SQLite files at once fail, and can leave them unusable
    for good.
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


def _materialize(
    definitions: dg.Definitions, instance: dg.DagsterInstance, config: CorpusConfig, step: Step
) -> dict[Step, dict[str, Any]]:
    """Run the step's job; return the metadata of it, and of what else the job makes."""
    job = definitions.resolve_job_def(job_name(config, step.asset))
    tags = {"corpus": config.corpus, ORIGIN_TAG: "rag run", "dagster/max_retries": "0"}
    with _belonging(instance, config, job.name):
        result = job.execute_in_process(
            instance=instance,
            partition_key=step.partition,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
            tags={**tags, **process_tag()},
        )
    if not result.success:
        raise _failure(step, result)
    made: dict[Step, dict[str, Any]] = {}
    for event in result.get_asset_materialization_events():
        asset = event.materialization.asset_key.path[-1]
        metadata = {k: v.value for k, v in event.materialization.metadata.items()}
        made.setdefault(Step(asset, step.partition), {}).update(metadata)
    return made


def _failure(step: Step, result: dg.ExecuteInProcessResult) -> RagPipelineError:
    for evaluation in result.get_asset_check_evaluations():
        if not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR:
            return CheckFailedError(
                f"{step}: check {evaluation.check_name} failed: {evaluation.description}"
            )
    for event in result.get_step_failure_events():
        data = event.step_failure_data
        if data.user_failure_data is not None and data.user_failure_data.description:
            cause = data.error.cause if data.error else None
            kinds: dict[str, type[RagPipelineError]] = {
                kind.__name__: kind for kind in (BudgetError, CheckFailedError)
            }
            kind = kinds.get((cause.cls_name if cause else None) or "", RagPipelineError)
            return kind(f"{step}: {data.user_failure_data.description}")
        error = data.error
        if error is not None:
            cause = error.cause or error
            own = f"{RagPipelineError.__module__}.{cause.cls_name}: "
            said = cause.message.strip()
            place = "" if said.startswith(own) or not cause.stack else cause.stack[-1].strip()
            at = f" ({place.splitlines()[0]})" if place else ""
            return RagPipelineError(f"{step}: {said.removeprefix(own)}{at}")
    return RagPipelineError(f"{step}: the run failed; see it in the Dagster UI")


def _total(workspace: Workspace, step: Step, todo: Plan | None) -> int | None:
    """Return how much there is to do, in the asset's unit; None where nobody knows."""
    row, key = step.row, step.key(workspace.config)
    if row.total is not None:
        return row.total(workspace, key)
    if todo is None:
        return None
    if row.unit == "documents":
        return len(todo.stale)
    before = open_stage(workspace, step.asset, key).upstream.state()
    return sum(before[document_id].rows for document_id in todo.stale)


def _texts(workspace: Workspace, step: Step) -> int:
    """Return how many texts a current step spares its model."""
    row = step.row
    if row.unit != "texts" or row.table is None:
        return 0
    return row.table(workspace, step.key(workspace.config)).count()


@contextmanager
def _belonging(instance: dg.DagsterInstance, config: CorpusConfig, job: str) -> Iterator[None]:
    """Let runs that are created in the block belong to the code location of the corpus.

    The UI's timeline leaves out a run without a location, as one has that a process executes by
    itself.
    """
    if instance.is_ephemeral:  # nobody will see it
        yield
        return
    create = instance.create_run_for_job
    origin = RemoteJobOrigin(_repository(instance, config), job)
    instance.create_run_for_job = partial(create, remote_job_origin=origin)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del instance.create_run_for_job


def _repository(instance: dg.DagsterInstance, config: CorpusConfig) -> RemoteRepositoryOrigin:
    """Return the repository whose sensors the daemon runs; before it ever did, this project's."""
    mine = identifier(config, "")
    for state in instance.all_instigator_state():
        if state.instigator_name.startswith(mine):
            return state.origin.repository_origin
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=_MODULE)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, _LOCATION)
    return RemoteRepositoryOrigin(location, "__repository__")
