"""Build Dagster's asset checks from the checks of each asset, and checks of the assets' age."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice, pairwise
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.assets import clear_failures
from rag_pipeline.orchestration.events import evaluation
from rag_pipeline.orchestration.internals import cron_string_iterator, instance_of, unstable
from rag_pipeline.orchestration.names import asset_key, identifier, partitions_of
from rag_pipeline.orchestration.observing import sensor
from rag_pipeline.orchestration.requests import last_event
from rag_pipeline.pipeline.asset import Check
from rag_pipeline.pipeline.driver import check_step
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace

_TICKS = 60
_INTERVALS = 2.0
"""Number of schedule intervals after which an asset that no run looked at is too old."""


def build_freshness(
    config: CorpusConfig,
) -> tuple[list[dg.AssetChecksDefinition], list[dg.SensorDefinition]]:
    """Return checks of the age of watched assets, and their sensor: none without a schedule.

    An asset is as old as its last materialization, or as the last run that found it current.
    Dagster's own sensor evaluates a failed check again only after a materialization, so it would
    miss a run that found everything current. It also evaluates checks before anything is made.
    """
    if config.schedule is None:
        return [], []
    ticks = islice(cron_string_iterator(0.0, config.schedule, "UTC"), _TICKS)
    longest: timedelta = max(after - before for before, after in pairwise(ticks))
    watched = [asset_key(config, name) for name, row in ASSETS.items() if row.watched]
    oldest = longest * _INTERVALS
    with unstable():
        checks = dg.build_last_update_freshness_checks(assets=watched, lower_bound_delta=oldest)

    @sensor(
        identifier(config, "freshness"),
        "Evaluate the checks of freshness whose result would change.",
        factor=10,
        asset_selection=dg.AssetSelection.checks(*checks),
    )
    def freshness(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        keys = [key for check in checks for key in check.check_keys]
        instance = instance_of(context)
        due = [key for key in keys if _is_due(instance, key, oldest.total_seconds())]
        if not due:
            return dg.SkipReason("no check of freshness is due")
        return dg.RunRequest(asset_check_keys=due, tags={"corpus": config.corpus})

    return [*checks], [freshness]


def _is_due(instance: dg.DagsterInstance, key: dg.AssetCheckKey, oldest: float) -> bool:
    """Return whether the last result of a check differs from the freshness of its asset now."""
    updated = last_event(instance, key.asset_key)
    found = instance.event_log_storage.get_asset_check_summary_records([key])[key]
    last, ended = found.last_check_execution_record, found.last_completed_check_execution_record
    run = instance.get_run_by_id(last.run_id) if last else None
    if updated is None or (run and not run.is_finished):
        return False
    evaluation = ended.event.asset_check_evaluation if ended and ended.event else None
    return evaluation is None or evaluation.passed != (time.time() - updated.timestamp < oldest)


def build_check(
    workspace: Workspace, asset: str, check: Check, retries: dg.RetryPolicy | None
) -> dg.AssetChecksDefinition:
    """Return an asset check in Dagster."""
    key = asset_key(workspace.config, asset)
    partitions = partitions_of(workspace.config, asset)

    def execute(context: dg.AssetCheckExecutionContext) -> Iterator[Any]:
        keys: Sequence[str | None] = [None]
        if partitions is not None:
            run = context.op_execution_context
            keys = partitions.get_partition_keys_in_range(run.partition_key_range)
        with clear_failures(f"{asset}: {check.name}"):
            results = {
                step: check_step(workspace, step, check) for step in (Step(asset, k) for k in keys)
            }
        # From an AssetCheckResult, Dagster would report one result for all partitions of a run.
        yield dg.Output(None)
        for step, result in results.items():
            yield evaluation(key, step, check, result)

    # Without its own partitions, the success of one partition would hide the failure of another.
    with unstable():
        return dg.asset_check(
            asset=key,
            name=check.name,
            blocking=check.blocking,
            description=" ".join((check.run.__doc__ or "").partition("\n\n")[0].split()),
            partitions_def=partitions,
            retry_policy=retries,
        )(execute)  # type: ignore[arg-type]
