"""The checks of each asset, judged in `rag_pipeline.release.checks`."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import dagster as dg

from rag_pipeline.errors import StoreError
from rag_pipeline.orchestration.assets import RETRIES, clear_failures
from rag_pipeline.orchestration.events import evaluation
from rag_pipeline.orchestration.metadata import metadata_of
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.orchestration.partitions import asset_names, partitions_of
from rag_pipeline.orchestration.unstable import unstable
from rag_pipeline.orchestration.verdicts import record
from rag_pipeline.pipeline.asset import Check
from rag_pipeline.pipeline.facts import examples
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace

_GAP_SECONDS = 0.25
_LOOKS = 20
"""Maximum number of times that what fails is judged again, as long as others write."""


def build_checks(
    workspace: Workspace, retries: dg.RetryPolicy | None = RETRIES
) -> list[dg.AssetChecksDefinition]:
    """Return all asset checks of a corpus."""
    return [
        _check(workspace, name, check, retries)
        for name in asset_names(workspace.config)
        for check in ASSETS[name].checks
    ]


def _check(
    workspace: Workspace, asset: str, held: Check, retries: dg.RetryPolicy | None
) -> dg.AssetChecksDefinition:
    config = workspace.config

    partitions = partitions_of(config, asset)

    def check(context: dg.AssetCheckExecutionContext) -> Iterator[Any]:
        keys: Sequence[str | None] = [None]
        if partitions is not None:
            run = context.op_execution_context
            keys = partitions.get_partition_keys_in_range(run.partition_key_range)
        with clear_failures():
            results = {
                step: judge(workspace, step, held) for step in (Step(asset, k) for k in keys)
            }
        if len(results) == 1:
            yield from results.values()
            return
        # Dagster would report one result of all partitions that a run is for.
        yield dg.Output(None)
        for step, result in results.items():
            yield evaluation(result, step, held.blocking)

    with unstable():  # without its own partitions, one partition's pass would hide another's fail
        return dg.asset_check(
            asset=asset_key(config, asset),
            name=held.name,
            blocking=held.blocking,
            description=" ".join((held.judge.__doc__ or "").split()),
            partitions_def=partitions,
            retry_policy=retries,
        )(check)  # type: ignore[arg-type]


def judge(workspace: Workspace, step: Step, held: Check) -> dg.AssetCheckResult:
    """Judge a step; keep the verdict of a blocking check."""
    key = step.key(workspace.config)
    result = held.judge(workspace, key)
    if held.blocking:
        written: dict[str, int | None] = {}
        # Another process that replaces the same rows has none of them for a moment.
        for _ in range(_LOOKS):
            if result.passed or written == (now := _versions(workspace)):
                break
            written = now
            time.sleep(_GAP_SECONDS)
            result = held.judge(workspace, key)
        record(workspace, step, result)
    return dg.AssetCheckResult(
        asset_key=asset_key(workspace.config, step.asset),
        check_name=held.name,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if held.blocking else dg.AssetCheckSeverity.WARN,
        description=result.summary or "; ".join(result.failures) or f"{result.checked} checked",
        metadata=metadata_of({"checked": result.checked, **examples("failures", result.failures)}),
    )


def _versions(workspace: Workspace) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name in workspace.store.tables():
        found[name] = None
        with suppress(StoreError):
            found[name] = workspace.store.table(name, None).version
    return found
