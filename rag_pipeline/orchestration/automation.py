"""Jobs, the re-index schedule, and the sensors that see changes and request what is stale."""

from collections.abc import Mapping, Sequence

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.orchestration.names import asset_key, identifier, job_name
from rag_pipeline.orchestration.partitions import asset_names
from rag_pipeline.orchestration.recovery import fail_lost_runs
from rag_pipeline.orchestration.requests import (
    LISTING_TAG,
    is_run_of,
    refusal,
    run_request,
    running_steps,
    survey,
)
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace

SENSOR_SECONDS = 15
"""The least time between two looks of a sensor."""

_NAMED = 5

Jobs = Mapping[str, "dg.UnresolvedAssetJobDefinition"]


def build_jobs(config: CorpusConfig) -> dict[str, "dg.UnresolvedAssetJobDefinition"]:
    """Return one job per asset and what is made with it; other assets can't share a run."""
    return {
        name: dg.define_asset_job(
            job_name(config, name),
            selection=dg.AssetSelection.assets(
                *(asset_key(config, n) for n, a in ASSETS.items() if name in (n, a.made_with))
            ),
            description=f"Bring {name} of {config.corpus} up to date.",
            tags={"corpus": config.corpus},
        )
        for name in asset_names(config)
    }


def build_schedules(config: CorpusConfig, jobs: Jobs) -> list[dg.ScheduleDefinition]:
    """Return the re-index schedule, if the corpus file sets one; it is on by default.

    It loads the documents; the stale partitions that follow are requested by the sensor.
    """
    if config.schedule is None:
        return []
    return [
        dg.ScheduleDefinition(
            name=identifier(config, "reindex"),
            job=jobs["documents"],
            cron_schedule=config.schedule,
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=f"Load new and changed documents; what follows is requested by "
            f"{identifier(config, 'stale_partitions')}. Steps that failed are tried again.",
        )
    ]


def build_sensors(config: CorpusConfig, jobs: Jobs) -> list[dg.SensorDefinition]:
    """Return the two sensors of a corpus.

    A corpus file with a `schedule` asks to be kept up to date, so the sensor that finishes what
    the schedule begins is on by default; nothing else starts work that nobody asked for.
    """
    return [_documents_sensor(config, jobs), _stale_sensor(config, jobs)]


def _documents_sensor(config: CorpusConfig, jobs: Jobs) -> dg.SensorDefinition:
    documents = Step("documents")
    workspace = Workspace(config)

    @dg.sensor(
        name=identifier(config, "changed_documents"),
        job=jobs["documents"],
        minimum_interval_seconds=SENSOR_SECONDS,
        description="Load the documents when a file is added, changed or removed. Looks at names, "
        "sizes and times only.",
    )
    def changed_documents(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        _recover(context, config)
        if documents in running_steps(context.instance, config):
            return dg.SensorResult(skip_reason="the documents are being loaded")
        listing = listing_digest(config)
        if listing == loaded_listing(workspace):
            return dg.SensorResult(skip_reason="no file has changed since the last load")
        why_not = refusal(context.instance, config, documents, LISTING_TAG, listing)
        if why_not is not None:
            return dg.SensorResult(skip_reason=f"the changed files are not loaded: {why_not}")
        return dg.SensorResult([run_request(config, documents, listing, LISTING_TAG)])

    return changed_documents


def _recover(context: dg.SensorEvaluationContext, config: CorpusConfig) -> None:
    for run_id in fail_lost_runs(context.instance, lambda run: is_run_of(config, run)):
        context.log.warning(f"run {run_id} is failed: its process is gone")


def _stale_sensor(config: CorpusConfig, jobs: Jobs) -> dg.SensorDefinition:
    workspace = Workspace(config)
    running = dg.DefaultSensorStatus.RUNNING
    stopped = dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        name=identifier(config, "stale_partitions"),
        jobs=list(jobs.values()),
        minimum_interval_seconds=SENSOR_SECONDS,
        default_status=running if config.schedule else stopped,
        description="Request exactly the partitions that are stale and whose inputs are ready, "
        "after a setting, a query or a document changed.",
    )
    def stale_partitions(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        _recover(context, config)
        found = survey(workspace, context.instance)
        for step, reason in found.stuck.items():
            context.log.warning(f"{step} is not asked for: {reason}")
        if found.requests:
            return dg.SensorResult([run_request(config, *r) for r in found.requests.items()])
        if found.waiting:
            return dg.SensorResult(skip_reason=f"at work: {_some(found.waiting)}")
        if found.stuck:
            return dg.SensorResult(
                skip_reason=f"nothing to do before something changes; stuck: "
                f"{_some(list(found.stuck))}"
            )
        return dg.SensorResult(skip_reason="everything is current")

    return stale_partitions


def _some(steps: Sequence[Step]) -> str:
    more = f" and {len(steps) - _NAMED} more" if len(steps) > _NAMED else ""
    return ", ".join(str(step) for step in steps[:_NAMED]) + more
