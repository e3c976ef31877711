"""Context metrics of all queries -> the health of a configuration, and alerts with a cure.

Source: Mastra, "Building better RAG with context-aware evaluation" (2025), section "Measuring RAG
system health", which names the five figures and gives three thresholds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rag_pipeline.config import HealthThresholds
from rag_pipeline.evaluation.summary import mean_of_known

Severity = Literal["error", "warning"]
_OPTIMAL = range(3, 6)


HEALTH_CHECKS = {
    "context_relevance": "Average relevance of the contexts, by the threshold `relevance`.",
    "context_usage": "Share of the contexts that answers used, by the threshold `usage`.",
    "missing_context": "Share of queries whose contexts lack something, by `missing`.",
    "ranking_efficiency": "How early relevant contexts stand, by the threshold `ranking`.",
    "optimal_context_count": "Share of queries with three to five relevant contexts, by `optimal`.",
    "no_drop_against_release": "Average relevance against that of the served release, by `drop`.",
}
"""Subjects of the alerts, by name."""


@dataclass(frozen=True, slots=True)
class Health:
    """Means over the queries with judged contexts; None without any."""

    queries: int
    missing: int
    """Count of queries without judged contexts."""
    average_relevance: float | None
    """Mean ContextRelevance relative to the attainable one, 0..1."""
    usage_rate: float | None
    """Mean share of used contexts relative to the attainable one, 0..1."""
    missing_rate: float | None
    """Share of queries with a missing item."""
    ranking_efficiency: float | None
    """Mean of max(0, ContextPrecision - RankingPenalty) over queries with a relevant context."""
    optimal_rate: float | None
    """Share of queries with three to five relevant contexts."""
    raw_relevance: float | None
    """Mean ContextRelevance / scale, as a release keeps it, 0..1."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One value and its threshold; `value` is None if it is unknown."""

    name: str
    passed: bool
    severity: Severity
    value: float | None
    threshold: float
    description: str


class Attainable(NamedTuple):
    """The best possible values of one query under perfect retrieval, 0..1.

    `usage` is the share of contexts of high or medium relevance. With 0 the whole scale counts.
    """

    relevance: float = 1.0
    usage: float = 1.0


def measure_health(
    rows: Sequence[Mapping[str, float | None]],
    scale: float = 1.0,
    attainable: Sequence[Attainable] = (),
) -> Health:
    """Summarize rows of `CONTEXT_METRICS`, one a query, relative to the `attainable` values.

    Without `attainable`, the whole scale counts.
    """
    best = attainable or [Attainable()] * len(rows)
    both = [
        (row, at)
        for row, at in zip(rows, best, strict=True)
        if row.get("ContextRelevance") is not None
    ]
    judged = [row for row, _ in both]
    relevant = [row for row in judged if row["RelevantCount"]]
    return Health(
        queries=len(judged),
        missing=len(rows) - len(judged),
        average_relevance=mean_of_known(
            _reached(_number(row["ContextRelevance"]) / scale, at.relevance) for row, at in both
        ),
        usage_rate=mean_of_known(_reached(_number(row["UsageRate"]), at.usage) for row, at in both),
        missing_rate=mean_of_known(float(_number(row["MissingItems"]) > 0) for row in judged),
        ranking_efficiency=mean_of_known(
            max(0.0, _number(row["ContextPrecision"]) - _number(row["RankingPenalty"]))
            for row in relevant
        ),
        optimal_rate=mean_of_known(float(row["RelevantCount"] in _OPTIMAL) for row in judged),
        raw_relevance=mean_of_known(_number(row["ContextRelevance"]) / scale for row in judged),
    )


def find_alerts(
    health: Health, thresholds: HealthThresholds, released_relevance: float | None = None
) -> list[Alert]:
    """Compare the health with its thresholds; return one alert per threshold that is set.

    `released_relevance` is the raw relevance of the served release, None without a release. A
    value of None passes.
    """
    held: tuple[tuple[str, float | None, float | None, bool, Severity, str], ...] = (
        ("context_relevance", health.average_relevance, thresholds.relevance, True, "error",
         "try another retriever, reranker or chunking, or fewer contexts"),
        ("context_usage", health.usage_rate, thresholds.usage, True, "warning",
         "pass fewer contexts on: lower `contexts`, or set the retriever's `adaptive: true`"),
        ("missing_context", health.missing_rate, thresholds.missing, False, "error",
         "add the documents that are missing, or retrieve more contexts"),
        ("ranking_efficiency", health.ranking_efficiency, thresholds.ranking, True, "warning",
         "rerank: relevant contexts stand too far down"),
        ("optimal_context_count", health.optimal_rate, thresholds.optimal, True, "warning",
         "make chunks smaller or larger until three to five of them are relevant"),
    )  # fmt: skip
    alerts = [
        _alert(name, value, threshold, at_least, severity, cure)
        for name, value, threshold, at_least, severity, cure in held
        if threshold is not None
    ]
    if thresholds.drop is not None:
        alerts.append(_drop(health.raw_relevance, released_relevance, thresholds.drop))
    return alerts


def alert_subjects(thresholds: HealthThresholds) -> dict[str, str]:
    """Return the subjects of the alerts with a threshold, by name."""
    nothing = measure_health([])
    return {alert.name: HEALTH_CHECKS[alert.name] for alert in find_alerts(nothing, thresholds)}


def _alert(
    name: str, value: float | None, threshold: float, at_least: bool, severity: Severity, cure: str
) -> Alert:
    label = name.replace("_", " ")
    if value is None:
        return Alert(name, True, severity, None, threshold, f"{label}: no query was judged")
    passed = value >= threshold if at_least else value <= threshold
    said = f"{label} {value:.2f}, threshold {'at least' if at_least else 'at most'} {threshold:g}"
    return Alert(name, passed, severity, value, threshold, said if passed else f"{said}; {cure}")


def _drop(value: float | None, released: float | None, threshold: float) -> Alert:
    name = "no_drop_against_release"
    if value is None or released is None:
        what = "no query was judged" if value is None else "there is no release to compare with"
        return Alert(name, True, "warning", None, threshold, what)
    drop = released - value
    said = f"average relevance {value:.2f}, {released:.2f} in the release"
    cure = "" if drop <= threshold else "; compare with it before this configuration is released"
    return Alert(name, drop <= threshold, "warning", drop, threshold, said + cure)


def _reached(value: float, attainable: float) -> float:
    return min(1.0, value / attainable) if attainable else value


def _number(value: float | None) -> float:
    return 0.0 if value is None else value
