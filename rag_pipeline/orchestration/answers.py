"""Answers, their entity scores and context scores: three assets that one step makes."""

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg

from rag_pipeline import release
from rag_pipeline.config import Configuration, CorpusConfig
from rag_pipeline.errors import NotReleasedError
from rag_pipeline.evaluation import quality
from rag_pipeline.evaluation.health import Health, checked, find_alerts
from rag_pipeline.orchestration.assets import RETRIES, clear_failures, unstable
from rag_pipeline.orchestration.descriptions import shared_settings
from rag_pipeline.orchestration.metadata import cost_metadata, examples, rounded_values, rows
from rag_pipeline.orchestration.names import asset_key, identifier
from rag_pipeline.orchestration.partitions import mapping_between, partitions_of, upstream_assets
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace

Note = dict[str, Any]
Update = Callable[[Workspace, Configuration], Note]

_TOGETHER = [name for name, row in ASSETS.items() if "answers" in (name, row.made_with)]
_UPDATES: dict[str, Update] = {
    "answers": quality.update_answers,
    "entity_scores": quality.update_entity_scores,
    "context_scores": quality.update_context_scores,
}


def build_answer_assets(
    config: CorpusConfig, retries: dg.RetryPolicy | None = RETRIES
) -> dg.AssetsDefinition:
    """Return the three assets, with the health checks of the context scores."""
    workspace = Workspace(config)

    def materialize(context: dg.AssetExecutionContext) -> Iterator[Any]:
        selected = context.selected_asset_keys
        for name in _TOGETHER:
            key = ASSETS[name].key(config, context.partition_key)
            if asset_key(config, name) in selected:
                with clear_failures(), workspace.charging(name, key) as costs:
                    note = _UPDATES[name](workspace, config.configuration(key))
                yield dg.MaterializeResult(
                    asset_key=asset_key(config, name),
                    metadata={**_METADATA[name](note), **cost_metadata(costs)},
                    data_version=dg.DataVersion(note["digest"]),
                )
                if name == "context_scores":
                    yield from _health_checks(workspace, note, context.selected_asset_check_keys)

    with unstable():
        built: dg.AssetsDefinition = dg.multi_asset(
            name=identifier(config, "answers"),
            specs=[_spec(config, name) for name in _TOGETHER],
            check_specs=[
                dg.AssetCheckSpec(
                    name,
                    asset=asset_key(config, "context_scores"),
                    description=description,
                    partitions_def=partitions_of(config, "context_scores"),
                )
                for name, description in checked(config.evaluation.health).items()
            ],
            can_subset=True,
            retry_policy=retries,
        )(materialize)
    return built


def _spec(config: CorpusConfig, name: str) -> dg.AssetSpec:
    deps = [
        dg.AssetDep(asset_key(config, up), partition_mapping=mapping_between(config, up, name))
        for up in upstream_assets(config, name)
    ]
    return dg.AssetSpec(**shared_settings(config, name), deps=deps, skippable=True)


def _health_checks(
    workspace: Workspace, note: Note, selected: Any
) -> Iterator[dg.AssetCheckResult]:
    limits = workspace.config.evaluation.health
    for alert in find_alerts(Health(**note["health"]), limits, _released_relevance(workspace)):
        key = dg.AssetCheckKey(asset_key(workspace.config, "context_scores"), alert.name)
        if key in selected:
            severe = alert.severity == "error"
            yield dg.AssetCheckResult(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=alert.passed,
                severity=dg.AssetCheckSeverity.ERROR if severe else dg.AssetCheckSeverity.WARN,
                description=alert.description,
                metadata=rounded_values({"value": alert.value, "limit": alert.limit}),
            )


def _released_relevance(workspace: Workspace) -> float | None:
    """Return the average relevance that the served release had, 0..1."""
    try:
        metric = release.current(workspace).metrics.get("ContextRelevance", {})
    except NotReleasedError:
        return None
    mean: float | None = metric.get("mean")
    return None if mean is None else mean / workspace.config.evaluation.context.scale


def _answers_metadata(note: Note) -> dict[str, Any]:
    return {
        "queries": note["queries"],
        "unanswered": note["unanswered"],
        "flagged": note["flagged"],
        **_judgements(note),
    }


def _entity_metadata(note: Note) -> dict[str, Any]:
    summary = note["summary"]
    macro = {
        "mean_precision": summary["mean_precision"],
        "mean_recall": summary["mean_recall"],
        "mean_f1": summary["mean_f1"],
        "f1_of_mean_precision_and_recall": summary["f1_of_means"],
        "mean_critical_recall": summary["mean_critical_recall"],
        "micro_f1": summary["micro"]["f1"],
    }
    by_type = [
        {"type": kind, **counts}
        for kind, counts in [*summary["by_type"].items(), ("all", summary["micro"])]
    ]
    return {
        "annotated_queries": note["annotated"],
        **rounded_values(macro),
        **rows("by_type", (_rounded_row(row) for row in by_type)),
        **_judgements(note),
    }


def _context_metadata(note: Note) -> dict[str, Any]:
    return {**rounded_values(note["health"]), **_judgements(note)}


def _judgements(note: Note) -> dict[str, Any]:
    return {
        "missing_judgements": note["missing"],
        "inputs_sent": note["calls"]["made"],
        "inputs_cached": note["calls"]["saved"],
        **examples("errors", note["errors"]),
    }


def _rounded_row(row: dict[str, Any]) -> dict[str, Any]:
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}


_METADATA: dict[str, Callable[[Note], dict[str, Any]]] = {
    "answers": _answers_metadata,
    "entity_scores": _entity_metadata,
    "context_scores": _context_metadata,
}
