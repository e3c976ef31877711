"""Jobs, the re-index schedule, and the sensors that see changes and request what is stale."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.orchestration.assets import asset_key, identifier
from rag_pipeline.orchestration.partitions import asset_names
from rag_pipeline.planning import Step, ready
from rag_pipeline.workspace import Workspace

_SENSOR_SECONDS = 30


def job_name(config: CorpusConfig, asset: str) -> str:
    """Return the name of the job that materializes one asset of a corpus."""
    return identifier(config, f"update_{asset}")


def build_jobs(config: CorpusConfig) -> dict[str, "dg.UnresolvedAssetJobDefinition"]:
    """Return one job per asset: partitions of different kinds can't share a run."""
    return {
        name: dg.define_asset_job(
            job_name(config, name),
            selection=dg.AssetSelection.assets(asset_key(config, name)),
            description=f"Bring {name} of {config.corpus} up to date.",
            tags={"corpus": config.corpus},
        )
        for name in asset_names(config)
    }


def build_schedules(
    config: CorpusConfig, jobs: dict[str, "dg.UnresolvedAssetJobDefinition"]
) -> list[dg.ScheduleDefinition]:
    """Return the re-index schedule, if the corpus file sets one.

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
            description="Load new and changed documents; stale partitions follow by sensor.",
        )
    ]


def build_sensors(
    config: CorpusConfig, jobs: dict[str, "dg.UnresolvedAssetJobDefinition"]
) -> list[dg.SensorDefinition]:
    """Return the two sensors of a corpus."""
    return [_documents_sensor(config, jobs), _stale_sensor(config, jobs)]


def _documents_sensor(
    config: CorpusConfig, jobs: dict[str, "dg.UnresolvedAssetJobDefinition"]
) -> dg.SensorDefinition:
    @dg.sensor(
        name=identifier(config, "documents_sensor"),
        job=jobs["documents"],
        minimum_interval_seconds=_SENSOR_SECONDS,
        description="Load the documents when a file is added, changed or removed.",
    )
    def documents_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        listing = listing_digest(config)
        if listing == context.cursor:
            return dg.SkipReason("no file has changed")
        request = dg.RunRequest(run_key=f"documents-{listing}")
        return dg.SensorResult(run_requests=[request], cursor=listing)

    return documents_sensor


def _stale_sensor(
    config: CorpusConfig, jobs: dict[str, "dg.UnresolvedAssetJobDefinition"]
) -> dg.SensorDefinition:
    workspace = Workspace(config)

    @dg.sensor(
        name=identifier(config, "stale_sensor"),
        jobs=list(jobs.values()),
        minimum_interval_seconds=_SENSOR_SECONDS,
        description="Request exactly the partitions that are stale and whose inputs are current.",
    )
    def stale_sensor(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest]:
        try:
            todo = list(ready(workspace))
        except RagPipelineError as error:
            raise dg.Failure(description=str(error)) from error
        for step in todo:
            if not _is_running(context.instance, config, step):
                yield _request(context.instance, config, step)

    return stale_sensor


def _request(instance: dg.DagsterInstance, config: CorpusConfig, step: Step) -> dg.RunRequest:
    # What follows the last finished attempt is asked for once; a failed attempt is not repeated
    # before something changes, and a partition that goes stale again is asked for again.
    last = instance.get_latest_materialization_event(asset_key(config, step.asset))
    done = last.run_id if last else "never"
    target = hashlib.sha256(repr((step, _settings(config), listing_digest(config), done)).encode())
    return dg.RunRequest(
        run_key=f"{step.asset}-{step.partition}-{target.hexdigest()[:16]}",
        job_name=job_name(config, step.asset),
        partition_key=step.partition,
        tags={"corpus": config.corpus},
    )


def _is_running(instance: dg.DagsterInstance, config: CorpusConfig, step: Step) -> bool:
    tags = {"dagster/partition": step.partition} if step.partition else {}
    unfinished = dg.RunsFilter(
        job_name=job_name(config, step.asset),
        tags=tags,
        statuses=[
            dg.DagsterRunStatus.QUEUED,
            dg.DagsterRunStatus.NOT_STARTED,
            dg.DagsterRunStatus.STARTING,
            dg.DagsterRunStatus.STARTED,
            dg.DagsterRunStatus.CANCELING,
        ],
    )
    return bool(instance.get_runs(unfinished, limit=1))


def _settings(config: CorpusConfig) -> str:
    return config.model_dump_json()


def listing_digest(config: CorpusConfig) -> str:
    """Hash the names, sizes and times of all files below the documents folder; reads none."""
    digest = hashlib.sha256()
    root = config.documents_path
    files = [root] if root.is_file() else sorted(p for p in Path(root).rglob("*") if p.is_file())
    for path in files:
        try:
            status = path.stat()
        except OSError:
            continue
        digest.update(repr((str(path), status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]
