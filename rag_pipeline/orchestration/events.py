"""The events that Dagster's UI shows of a step: its materialization, and how its checks went."""

import dagster as dg

from rag_pipeline.evaluation.health import Alert
from rag_pipeline.orchestration.metadata import metadata_of
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.orchestration.staleness import version_tags
from rag_pipeline.pipeline.asset import Check
from rag_pipeline.pipeline.metadata import Materialized, examples, rounded_values
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.workspace import Workspace


def materialization(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    step: Step,
    outcome: Materialized,
    run_id: str,
) -> dg.AssetMaterialization:
    """Return the event of a step that another op than its asset's own, or one of many, made."""
    return dg.AssetMaterialization(
        asset_key(workspace.config, step.asset),
        partition=step.partition,
        metadata=metadata_of(outcome.metadata),
        tags=version_tags(workspace, instance, step, outcome.version, run_id),
    )


def alert_result(key: dg.AssetKey, alert: Alert) -> dg.AssetCheckResult:
    """Return what was held to a limit as a check, which holds nothing back: a warning."""
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=alert.name,
        passed=alert.passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=alert.description,
        metadata=metadata_of(rounded_values({"value": alert.value, "threshold": alert.threshold})),
    )


def check_result(key: dg.AssetKey, check: Check, result: CheckResult) -> dg.AssetCheckResult:
    """Return the result of an asset's check; one that does not block is a warning."""
    metadata = {"checked": result.checked, **examples("failures", result.failures)}
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=check.name,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
        description=result.description,
        metadata=metadata_of(metadata),
    )


def evaluation(result: dg.AssetCheckResult, step: Step, blocking: bool) -> dg.AssetCheckEvaluation:
    """Return the event of a check of one partition."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
        description=result.description,
        blocking=blocking,
        partition=step.partition,
    )
