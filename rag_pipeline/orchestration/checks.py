"""The checks of each asset, judged in `rag_pipeline.release.checks`."""

import dagster as dg

from rag_pipeline.orchestration.assets import RETRIES, clear_failures
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

    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        run = context.op_execution_context
        step = Step(asset, run.partition_key if run.has_partition_key else None)
        with clear_failures():
            return judge(workspace, step, held)

    with unstable():  # without its own partitions, one partition's pass would hide another's fail
        return dg.asset_check(
            asset=asset_key(config, asset),
            name=held.name,
            blocking=held.blocking,
            description=" ".join((held.judge.__doc__ or "").split()),
            partitions_def=partitions_of(config, asset),
            retry_policy=retries,
        )(check)


def judge(workspace: Workspace, step: Step, held: Check) -> dg.AssetCheckResult:
    """Judge a step; keep the verdict of a blocking check."""
    result = held.judge(workspace, step.key(workspace.config))
    if held.blocking:
        record(workspace, step, result)
    return dg.AssetCheckResult(
        asset_key=asset_key(workspace.config, step.asset),
        check_name=held.name,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if held.blocking else dg.AssetCheckSeverity.WARN,
        description=result.said or "; ".join(result.failures) or f"{result.checked} checked",
        metadata=metadata_of({"checked": result.checked, **examples("failures", result.failures)}),
    )
