"""Context metrics of all queries -> the health of a configuration, and alerts with a cure.

After Mastra, "Building better RAG with context-aware evaluation" (2025), section "Measuring RAG
system health", which names the five figures and gives three limits; what it leaves open is said
below.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rag_pipeline.config import HealthLimits
from rag_pipeline.evaluation.summary import mean_of_known

Severity = Literal["error", "warning"]
_OPTIMAL = range(3, 6)


HEALTH_CHECKS = {
    "context_relevance": "Average relevance of the contexts, by the health limit `relevance`.",
    "context_usage": "Share of the contexts that answers used, by the health limit `usage`.",
    "missing_context": "Share of queries whose contexts lack something, by `missing`.",
    "ranking_efficiency": "How early relevant contexts stand, by the health limit `ranking`.",
    "optimal_context_count": "Share of queries with three to five relevant contexts, by `optimal`.",
    "no_drop_against_release": "Average relevance against that of the served release, by `drop`.",
}
"""What each alert is about, by its name."""


@dataclass(frozen=True, slots=True)
class Health:
    """Means over the queries that have contexts and were judged; None where there are none."""

    queries: int
    missing: int
    """Queries that were not judged, or had nothing to judge."""
    average_relevance: float | None
    """Mean ContextRelevance, over the best that is attainable for the query: 0..1."""
    usage_rate: float | None
    """Mean share of a query's contexts that were used, over the best that is attainable: 0..1."""
    missing_rate: float | None
    """Share of queries that lack anything."""
    ranking_efficiency: float | None
    """Mean of max(0, ContextPrecision - RankingPenalty) over queries with a relevant context."""
    optimal_rate: float | None
    """Share of queries with three to five relevant contexts."""
    raw_relevance: float | None = None
    """Mean ContextRelevance, over the scale's end, as a release keeps it: 0..1."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that is held to a limit; `value` is None where it can't be told."""

    name: str
    passed: bool
    severity: Severity
    value: float | None
    limit: float
    description: str


class Attainable(NamedTuple):
    """What perfect retrieval reaches for one query, which may have one chunk to find: 0..1.

    `relevance` is that of the best contexts there are, `usage` the share of them that is of high
    or medium relevance. 0 where nothing relevant is there to be found: the whole scale counts then.
    """

    relevance: float = 1.0
    usage: float = 1.0


def measure_health(
    rows: Sequence[Mapping[str, float | None]],
    scale: float = 1.0,
    attainable: Sequence[Attainable] = (),
) -> Health:
    """Summarize rows of `CONTEXT_METRICS`, one a query, relative to what is `attainable` for each.

    Without `attainable`, relevance and usage count on the whole scale.
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
    health: Health, limits: HealthLimits, released_relevance: float | None = None
) -> list[Alert]:
    """Hold the health to its limits; one alert per limit that is set, passed or not.

    `released_relevance` is the average relevance of the release that is served, None where there
    is none: then nothing can have dropped. A figure that is None passes, and says so.
    """
    held: tuple[tuple[str, float | None, float | None, bool, Severity, str], ...] = (
        ("context_relevance", health.average_relevance, limits.relevance, True, "error",
         "try another retriever, reranker or chunking, or fewer contexts"),
        ("context_usage", health.usage_rate, limits.usage, True, "warning",
         "pass fewer contexts on: lower `contexts`, or set the retriever's `adaptive: true`"),
        ("missing_context", health.missing_rate, limits.missing, False, "error",
         "add the documents that are missing, or retrieve more contexts"),
        ("ranking_efficiency", health.ranking_efficiency, limits.ranking, True, "warning",
         "rerank: relevant contexts stand too far down"),
        ("optimal_context_count", health.optimal_rate, limits.optimal, True, "warning",
         "make chunks smaller or larger until three to five of them are relevant"),
    )  # fmt: skip
    alerts = [
        _alert(name, value, limit, at_least, severity, cure)
        for name, value, limit, at_least, severity, cure in held
        if limit is not None
    ]
    if limits.drop is not None:
        own = health.average_relevance if health.raw_relevance is None else health.raw_relevance
        alerts.append(_drop(own, released_relevance, limits.drop))
    return alerts


def checked(limits: HealthLimits) -> dict[str, str]:
    """Return the names of the alerts whose limit is set, with what each is about."""
    nothing = measure_health([])
    return {alert.name: HEALTH_CHECKS[alert.name] for alert in find_alerts(nothing, limits)}


def _alert(
    name: str, value: float | None, limit: float, at_least: bool, severity: Severity, cure: str
) -> Alert:
    label = name.replace("_", " ")
    if value is None:
        return Alert(name, True, severity, None, limit, f"{label}: no query was judged")
    passed = value >= limit if at_least else value <= limit
    said = f"{label} {value:.2f}, limit {'at least' if at_least else 'at most'} {limit:g}"
    return Alert(name, passed, severity, value, limit, said if passed else f"{said}; {cure}")


def _drop(value: float | None, released: float | None, limit: float) -> Alert:
    name = "no_drop_against_release"
    if value is None or released is None:
        what = "no query was judged" if value is None else "there is no release to compare with"
        return Alert(name, True, "warning", None, limit, what)
    drop = released - value
    said = f"average relevance {value:.2f}, {released:.2f} in the release"
    cure = "" if drop <= limit else "; compare with it before this configuration is released"
    return Alert(name, drop <= limit, "warning", drop, limit, said + cure)


def _reached(value: float, attainable: float) -> float:
    return min(1.0, value / attainable) if attainable else value


def _number(value: float | None) -> float:
    return 0.0 if value is None else value
