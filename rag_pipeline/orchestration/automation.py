"""Build the jobs, the re-index schedule, and the sensors that request runs after changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.orchestration import requests
from rag_pipeline.orchestration.internals import instance_of
from rag_pipeline.orchestration.names import asset_key, asset_names, identifier, job_name
from rag_pipeline.orchestration.observing import LastLook, following, sensor
from rag_pipeline.orchestration.one_run import build_update_job
from rag_pipeline.pipeline.planning import DOCUMENTS, Step, stale_steps, steps
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.store.lease import at_work
from rag_pipeline.workspace import Workspace

_NAMED = 5

Jobs = Mapping[str, "dg.JobDefinition | dg.UnresolvedAssetJobDefinition"]
"""Jobs by the names of their assets. The key `""` has the job of the whole corpus."""
Requested: TypeAlias = "list[dg.RunRequest] | str"
"""The runs that a sensor requests, or the reason for none."""


def build_jobs(
    workspace: Workspace, retries: dg.RetryPolicy | None, executor: dg.ExecutorDefinition
) -> Jobs:
    """Return the job of the whole corpus, and a job for each asset with its `made_by` assets.

    Each job has its executor, so that a user's own project need not choose one.
    """
    config = workspace.config
    return {"": build_update_job(workspace, retries)} | {
        name: dg.define_asset_job(
            job_name(config, name),
            selection=dg.AssetSelection.assets(
                *(asset_key(config, n) for n, a in ASSETS.items() if name in (n, a.made_by))
            ),
            executor_def=executor,
            description=f"Bring {name} of {config.corpus} up to date.",
            tags={"corpus": config.corpus, "dagster/priority": str(ASSETS[name].priority)},
        )
        for name in asset_names(config)
    }


def build_schedules(config: CorpusConfig, jobs: Jobs, one_run: bool) -> list[dg.ScheduleDefinition]:
    """Return the re-index schedule, which is on by default, or [] if the corpus file sets none.

    With `one_run`, it starts one run of all stale steps. Otherwise it loads the documents, and the
    sensor then requests the stale partitions. It starts no run before the assets in `deps` have
    made a file.
    """
    if config.schedule is None:
        return []

    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        missing = config.deps and requests.no_documents(config)
        return dg.SkipReason(missing) if missing else dg.RunRequest()

    return [
        dg.ScheduleDefinition(
            name=identifier(config, "reindex"),
            job=jobs["" if one_run else "documents"],
            cron_schedule=config.schedule,
            execution_fn=tick,
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description="Load new and changed documents and update everything built from them. "
            "Failed steps are tried again.",
        )
    ]


def _sensor(
    workspace: Workspace,
    name: str,
    jobs: Iterable[Any],
    look: Callable[[Workspace, dg.SensorEvaluationContext], Requested],
    description: str,
    on: bool = False,
) -> dg.SensorDefinition:
    """Return a sensor that requests the runs from `look`, or shows the reason from `look`.

    The sensor reads the current corpus file. It requests nothing outside `sensor_hours`, while
    another run works on the corpus, or while there is no document to load.
    """
    now = following(workspace)

    @sensor(identifier(workspace.config, name), description, on, jobs=list(jobs))
    def asking(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        workspace = now()
        config = workspace.config
        requests.fail_lost_runs_of(config, context)
        resting = outside_hours(config, datetime.now(UTC)) or at_work(workspace.store)
        resting = resting or requests.no_documents(config)
        found = resting or look(workspace, context)
        if resting:
            context.update_cursor("")  # the result of an earlier look is outdated
        return dg.SkipReason(found) if isinstance(found, str) else dg.SensorResult(found)

    return asking


def build_documents_sensor(workspace: Workspace, jobs: Jobs, one_run: bool) -> dg.SensorDefinition:
    """Return the sensor that requests a load of changed files."""

    def look(workspace: Workspace, context: dg.SensorEvaluationContext) -> Requested:
        config = workspace.config
        if DOCUMENTS in requests.running_steps(instance_of(context), config):
            return "the documents are being loaded"
        if listing_digest(config) == loaded_listing(workspace):
            return "no file has changed since the last load"
        why_not = requests.why_not_loaded(workspace, instance_of(context), one_run)
        if why_not is not None:
            return f"the changed files are not loaded: {why_not}"
        return [requests.run_request(config, None if one_run else DOCUMENTS)]

    return _sensor(
        workspace,
        "changed_documents",
        [jobs["" if one_run else "documents"]],
        look,
        "Load the documents when a file was added, changed or removed since the last successful "
        "load. Compares names, sizes and times only.",
    )


def outside_hours(config: CorpusConfig, now: datetime) -> str | None:
    """Return the reason why sensors request no runs at this time, or None if they may do so."""
    if config.sensor_hours is None:
        return None
    start, end = config.sensor_hours.split("-")
    time = f"{now:%H:%M}"
    inside = start <= time < end if start < end else time >= start or time < end
    return None if inside else f"outside of sensor_hours, {config.sensor_hours} UTC"


def build_stale_sensor(workspace: Workspace, jobs: Jobs, one_run: bool) -> dg.SensorDefinition:
    """Return the sensor of stale partitions. With a `schedule` it is on, to finish its work."""
    loaded = set(steps(workspace.config))

    def look(workspace: Workspace, context: dg.SensorEvaluationContext) -> Requested:
        config = workspace.config
        last = LastLook(context, requests.sources_digest(config))
        if last.is_valid:
            return str(last.said)
        found = requests.survey(workspace, instance_of(context), one_run)
        for cause in found.causes():
            context.log.warning(f"not requested: {cause}")
        if found.requests and one_run:
            return [requests.run_request(config, None, requests.all_inputs(found))]
        asked = {step: inputs for step, inputs in found.requests.items() if step in loaded}
        if new := [step for step in found.requests if step not in loaded]:
            context.log.warning(f"unknown until the code location is reloaded: {_some(new)}")
            if not asked:
                return f"new partitions of the corpus file need a reload: {_some(new)}"
        if asked:
            return [requests.run_request(config, *request) for request in asked.items()]
        if found.waiting:
            return f"in progress: {_some([*found.waiting])}"
        if found.held:
            return f"{requests.summary(stale_steps(workspace))}, and {found.held}"
        if found.stuck:
            said = f"nothing to do before something changes; stuck: {_some(found.causes(), '; ')}"
            last.keep(said)
            return said
        if listing_digest(config) != loaded_listing(workspace):
            loads = identifier(config, "reindex" if config.schedule else "changed_documents")
            return f"{requests.summary(stale_steps(workspace))}; {loads} loads the changed files"
        last.keep(requests.summary(()))
        return requests.summary(())

    return _sensor(
        workspace,
        "stale_partitions",
        jobs.values(),
        look,
        "After a changed setting, query or document, request one run of all stale steps, or the "
        "stale partitions whose inputs are ready.",
        on=workspace.config.schedule is not None,
    )


def _some(told: Sequence[Step | str], between: str = ", ") -> str:
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    return between.join(map(str, told[:_NAMED])) + more
