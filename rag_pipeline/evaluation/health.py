"""Measure the health of a configuration by its context metrics, and suggest cures.

Source: Mastra, "Building better RAG with context-aware evaluation" (2025), section "Measuring RAG
system health", which names the five measures and gives three thresholds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rag_pipeline.config import HealthThresholds
from rag_pipeline.evaluation.intervals import mean_of_known

_OPTIMAL = range(3, 6)


class _Check(NamedTuple):
    name: str
    figure: str
    threshold: str
    at_least: bool
    cure: str


_CHECKS = (
    _Check("context relevance", "average_relevance", "relevance", True,
           "try another retriever, reranker or chunking, or fewer contexts"),
    _Check("context usage", "usage_rate", "usage", True,
           "pass fewer contexts on: lower `contexts`, or set the retriever's `adaptive: true`"),
    _Check("missing context", "missing_rate", "missing", False,
           "add the missing documents, or retrieve more contexts"),
    _Check("ranking efficiency", "ranking_efficiency", "ranking", True,
           "rerank: relevant contexts rank too low"),
    _Check("optimal context count", "optimal_rate", "optimal", True,
           "make chunks smaller or larger until three to five of them are relevant"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Health:
    """Means of context metrics over the queries with judged contexts, or None without queries."""

    queries: int
    missing: int
    """Number of queries without judged contexts."""
    average_relevance: float | None
    """Mean ContextRelevance divided by its attainable value, from 0 to 1."""
    usage_rate: float | None
    """Mean share of used contexts divided by its attainable value, from 0 to 1."""
    missing_rate: float | None
    ranking_efficiency: float | None
    """Mean of max(0, ContextPrecision - RankingPenalty) over queries with a relevant context."""
    optimal_rate: float | None
    raw_relevance: float | None
    """Mean ContextRelevance / scale, from 0 to 1. A release stores this value."""


class Alert(NamedTuple):
    """The comparison of the health with one threshold. An unknown value passes."""

    passed: bool
    description: str


class Attainable(NamedTuple):
    """The best possible values (0 to 1) of one query under perfect retrieval.

    `usage` is the share of contexts with high or medium relevance. `measure_health` ignores a
    value of 0.
    """

    relevance: float = 1.0
    usage: float = 1.0


def measure_health(
    rows: Sequence[Mapping[str, float | None]],
    scale: float = 1.0,
    attainable: Sequence[Attainable] = (),
) -> Health:
    """Return the health of a configuration.

    `rows` has the values of `CONTEXT_METRICS` for each query. `scale` is the highest possible
    ContextRelevance. `attainable` has the best possible values of each row, by which relevance and
    usage are divided.
    """
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

    `released_relevance` is the `raw_relevance` of the served release, or None without a release.
    """
    alerts = [
        _alert(check, getattr(health, check.figure), threshold)
        for check in _CHECKS
        if (threshold := getattr(thresholds, check.threshold)) is not None
    ]
    if thresholds.drop is not None:
        alerts.append(_drop(health.raw_relevance, released_relevance, thresholds.drop))
    return alerts


def _alert(check: _Check, value: float | None, threshold: float) -> Alert:
    if value is None:
        return Alert(True, f"{check.name}: no query was judged")
    passed = value >= threshold if check.at_least else value <= threshold
    bound = "at least" if check.at_least else "at most"
    said = f"{check.name} {value:.3f}, threshold {bound} {threshold:g}"
    return Alert(passed, said if passed else f"{said}; {check.cure}")


def _drop(value: float | None, released: float | None, threshold: float) -> Alert:
    if value is None or released is None:
        reason = "no query was judged" if value is None else "there is no release to compare with"
        return Alert(True, reason)
    passed = released - value <= threshold
    said = f"average relevance {value:.2f}, {released:.2f} in the release"
    return Alert(passed, said if passed else f"{said}; compare the two before a release")


def _relative(value: float, attainable: float) -> float:
    return min(1.0, value / attainable) if attainable else value
