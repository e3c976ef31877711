"""The checks of each asset, judged in `rag_pipeline.release.checks`."""

from collections.abc import Callable

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.assets import RETRIES, clear_failures, unstable
from rag_pipeline.orchestration.metadata import examples
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.orchestration.partitions import PARTITIONED, asset_names, partitions_of
from rag_pipeline.orchestration.verdicts import record
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.release import checks
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.workspace import Workspace

Judge = Callable[[Workspace, str], CheckResult]


def build_checks(
    config: CorpusConfig, retries: dg.RetryPolicy | None = RETRIES
) -> list[dg.AssetChecksDefinition]:
    """Return all asset checks of a corpus."""
    blocking: list[tuple[str, str, Judge]] = [
        ("documents", "documents_are_sound", checks.check_documents),
        ("queries", "gold_spans_lie_in_documents", checks.check_queries),
        *((asset, f"{asset}_is_sound", check) for asset, check in checks.CHECKS.items()),
    ]
    warning: list[tuple[str, str, Judge]] = [
        ("queries", "no_query_left_out", checks.check_queries_complete)
    ]
    names = asset_names(config)
    return [
        *(_check(config, *check, True, retries) for check in blocking if check[0] in names),
        *(_check(config, *check, False, retries) for check in warning),
    ]


def _check(
    config: CorpusConfig,
    asset: str,
    name: str,
    judge: Judge,
    blocking: bool,
    retries: dg.RetryPolicy | None,
) -> dg.AssetChecksDefinition:
    workspace = Workspace(config)
    partitions = partitions_of(config, asset) if asset in PARTITIONED else None

    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        run = context.op_execution_context
        step = Step(asset, run.partition_key if run.has_partition_key else None)
        with clear_failures():
            result = judge(workspace, step.partition or "")
            if blocking:
                record(workspace, step, result)
        return dg.AssetCheckResult(
            passed=result.passed,
            severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
            description="; ".join(result.failures) or f"{result.checked} checked",
            metadata={"checked": result.checked, **examples("failures", result.failures)},
        )

    with unstable():  # without its own partitions, one partition's pass would hide another's fail
        return dg.asset_check(
            asset=asset_key(config, asset),
            name=name,
            blocking=blocking,
            description=" ".join((judge.__doc__ or "").split()),
            partitions_def=partitions,
            retry_policy=retries,
        )(check)
