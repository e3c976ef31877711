"""The blocking checks of each asset, judged in `rag_pipeline.checks`."""

from collections.abc import Callable

import dagster as dg

from rag_pipeline import checks
from rag_pipeline.checks import CheckResult
from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.assets import asset_key, clear_failures
from rag_pipeline.orchestration.partitions import asset_names
from rag_pipeline.workspace import Workspace


def build_checks(config: CorpusConfig) -> list[dg.AssetChecksDefinition]:
    """Return all asset checks of a corpus."""
    workspace = Workspace(config)
    return [
        _check(workspace, "documents", "documents_are_sound", checks.check_documents),
        _check(workspace, "queries", "gold_spans_lie_in_documents", checks.check_queries),
        _check(
            workspace, "queries", "no_query_left_out", checks.check_queries_complete, blocking=False
        ),
        *(
            _check(workspace, asset, f"{asset}_is_sound", check)
            for asset, check in checks.CHECKS.items()
            if asset in asset_names(config)
        ),
    ]


def _check(
    workspace: Workspace,
    asset: str,
    name: str,
    judge: Callable[[Workspace, str], CheckResult],
    blocking: bool = True,
) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=asset_key(workspace.config, asset),
        name=name,
        blocking=blocking,
        description=" ".join((judge.__doc__ or "").split()),
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        run = context.op_execution_context
        partition = run.partition_key if run.has_partition_key else ""
        with clear_failures():
            result = judge(workspace, partition)
        return dg.AssetCheckResult(
            passed=result.passed,
            severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
            description="; ".join(result.failures) or f"{result.checked} checked",
            metadata={
                "checked": result.checked,
                "failures": dg.MetadataValue.json(list(result.failures)),
                **({"partition": partition} if partition else {}),
            },
        )

    return check
