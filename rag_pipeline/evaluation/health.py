"""Measure the health of a configuration by its context metrics, and make alerts with a cure.

Source: Mastra, "Building better RAG with context-aware evaluation" (2025), section "Measuring RAG
system health", which names the five measures and gives three thresholds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rag_pipeline.config import HealthThresholds
from rag_pipeline.evaluation.summary import mean_of_known

Severity = Literal["error", "warning"]
_OPTIMAL = range(3, 6)
_DROP = "no_drop_against_release"


class _Check(NamedTuple):
    name: str
    subject: str
    figure: str
    threshold: str
    at_least: bool
    severity: Severity
    cure: str


_CHECKS = (
    _Check("context_relevance", "Average relevance of the contexts.",
           "average_relevance", "relevance", True, "error",
           "try another retriever, reranker or chunking, or fewer contexts"),
    _Check("context_usage", "Share of the contexts that answers used.",
           "usage_rate", "usage", True, "warning",
           "pass fewer contexts on: lower `contexts`, or set the retriever's `adaptive: true`"),
    _Check("missing_context", "Share of queries with a missing item.",
           "missing_rate", "missing", False, "error",
           "add the documents that are missing, or retrieve more contexts"),
    _Check("ranking_efficiency", "How early relevant contexts stand.",
           "ranking_efficiency", "ranking", True, "warning",
           "rerank: relevant contexts stand too far down"),
    _Check("optimal_context_count", "Share of queries with three to five relevant contexts.",
           "optimal_rate", "optimal", True, "warning",
           "make chunks smaller or larger until three to five of them are relevant"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Health:
    """Means over the queries with judged contexts. They are None without such queries."""

    queries: int
    missing: int
    """Count of queries without judged contexts."""
    average_relevance: float | None
    """Mean ContextRelevance divided by its attainable value, from 0 to 1."""
    usage_rate: float | None
    """Mean share of used contexts divided by its attainable value, from 0 to 1."""
    missing_rate: float | None
    ranking_efficiency: float | None
    """Mean of max(0, ContextPrecision - RankingPenalty) over queries with a relevant context."""
    optimal_rate: float | None
    raw_relevance: float | None
    """Mean ContextRelevance / scale, from 0 to 1, which a release stores."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One value and its threshold. `value` is None if it is unknown."""

    name: str
    passed: bool
    severity: Severity
    value: float | None
    threshold: float
    description: str


class Attainable(NamedTuple):
    """The best possible values (0 to 1) of one query under perfect retrieval.

    `usage` is the share of contexts with high or medium relevance. An attainable value of 0 is
    ignored.
    """

    relevance: float = 1.0
    usage: float = 1.0


def measure_health(
    rows: Sequence[Mapping[str, float | None]],
    scale: float = 1.0,
    attainable: Sequence[Attainable] = (),
) -> Health:
    """Summarize `CONTEXT_METRICS`, with one row per query, relative to the `attainable` values."""
    best = attainable or [Attainable()] * len(rows)
    judged = [
        ({name: value or 0.0 for name, value in row.items()}, at)
        for row, at in zip(rows, best, strict=True)
        if row.get("ContextRelevance") is not None
    ]
    own = [row for row, _ in judged]
    return Health(
        queries=len(own),
        missing=len(rows) - len(own),
        average_relevance=mean_of_known(
            _relative(row["ContextRelevance"] / scale, at.relevance) for row, at in judged
        ),
        usage_rate=mean_of_known(_relative(row["UsageRate"], at.usage) for row, at in judged),
        missing_rate=mean_of_known(float(row["MissingItems"] > 0) for row in own),
        ranking_efficiency=mean_of_known(
            max(0.0, row["ContextPrecision"] - row["RankingPenalty"])
            for row in own
            if row["RelevantCount"]
        ),
        optimal_rate=mean_of_known(float(row["RelevantCount"] in _OPTIMAL) for row in own),
        raw_relevance=mean_of_known(row["ContextRelevance"] / scale for row in own),
    )


def find_alerts(
    health: Health, thresholds: HealthThresholds, released_relevance: float | None = None
) -> list[Alert]:
    """Compare the health with its thresholds, and return one alert per configured threshold.

    `released_relevance` is the raw relevance of the served release, or None without a release.
    """
    set_ones = ((check, getattr(thresholds, check.threshold)) for check in _CHECKS)
    alerts = [
        _alert(check, getattr(health, check.figure), threshold)
        for check, threshold in set_ones
        if threshold is not None
    ]
    if thresholds.drop is not None:
        alerts.append(_drop(health.raw_relevance, released_relevance, thresholds.drop))
    return alerts


def alert_subjects(thresholds: HealthThresholds) -> dict[str, str]:
    """Return the subject of each alert that has a threshold, by the alert's name."""
    subjects = {check.name: check.subject for check in _CHECKS}
    subjects[_DROP] = "Average relevance compared with that of the served release."
    return {a.name: subjects[a.name] for a in find_alerts(measure_health([]), thresholds)}


def _alert(check: _Check, value: float | None, threshold: float) -> Alert:
    label = check.name.replace("_", " ")
    if value is None:
        said = f"{label}: no query was judged"
        return Alert(check.name, True, check.severity, None, threshold, said)
    passed = value >= threshold if check.at_least else value <= threshold
    bound = "at least" if check.at_least else "at most"
    said = f"{label} {value:.2f}, threshold {bound} {threshold:g}"
    description = said if passed else f"{said}; {check.cure}"
    return Alert(check.name, passed, check.severity, value, threshold, description)


def _drop(value: float | None, released: float | None, threshold: float) -> Alert:
    if value is None or released is None:
        reason = "no query was judged" if value is None else "there is no release to compare with"
        return Alert(_DROP, True, "warning", None, threshold, reason)
    drop = released - value
    said = f"average relevance {value:.2f}, {released:.2f} in the release"
    cure = "" if drop <= threshold else "; compare with it before this configuration is released"
    return Alert(_DROP, drop <= threshold, "warning", drop, threshold, said + cure)


def _relative(value: float, attainable: float) -> float:
    return min(1.0, value / attainable) if attainable else value
