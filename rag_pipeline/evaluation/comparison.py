"""Compare the scores of configurations with the scores of the baseline and of the release."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_pipeline.config import CorpusConfig
from rag_pipeline.evaluation.intervals import group_names, mean_of_known
from rag_pipeline.evaluation.retrieval_metrics import DOCUMENT_METRIC
from rag_pipeline.evaluation.scores import Scores, direction, headline_metrics, read_scores
from rag_pipeline.evaluation.significance import ALPHA, Comparison, Pair, compare_family
from rag_pipeline.workspace import Workspace

Groups = Mapping[str, str]
"""The group of each query, by query id (see `runs.load_groups`)."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A configuration to compare with: a label for people, its name and its scores."""

    label: str
    configuration: str
    scores: Scores


def baseline(workspace: Workspace) -> Reference:
    """Return the baseline of the corpus file, or else its first configuration."""
    name = workspace.config.baseline_name
    return Reference("baseline", name, read_scores(workspace, name))


def pairs(one: Scores, other: Scores, metric: str) -> list[Pair]:
    """Return the pairs (one, other) of a metric's values for the queries in both scores."""
    mine, theirs = one.get(metric, {}), other.get(metric, {})
    return [(value, theirs[query_id]) for query_id, value in mine.items() if query_id in theirs]


def gains_of(one: Scores, other: Scores, metric: str) -> dict[str, float]:
    """Return the gain of `one` over `other` by query id, where both have a value.

    A loss is negative.
    """
    sign, theirs = -1 if direction(metric) == "lower" else 1, other.get(metric, {})
    return {
        q: sign * (mine - known)
        for q, mine in one.get(metric, {}).items()
        if mine is not None and (known := theirs.get(q)) is not None
    }


def groups_of(one: Scores, other: Scores, metric: str, groups: Groups) -> list[str]:
    """Return the groups of the queries of `pairs`, in the same order."""
    theirs = other.get(metric, {})
    return group_names((q for q in one.get(metric, {}) if q in theirs), groups)


def compare(
    one: Scores,
    other: Scores,
    metrics: Iterable[str],
    alpha: float = ALPHA,
    groups: Groups | None = None,
) -> dict[str, Comparison]:
    """Compare two configurations by several metrics, and return the comparisons by metric.

    The metrics are one family (see `significance.decide`). Metrics without a better direction are
    left out.
    """
    wanted = {m: (one, other, m) for m in metrics if direction(m) != "neither"}
    return _compared(wanted, groups or {}, alpha)


def compare_all(
    scores: Mapping[str, Scores],
    reference: Reference,
    metrics: Iterable[str],
    groups: Groups | None = None,
) -> dict[str, dict[str, Comparison]]:
    """Compare every configuration with a reference, and return comparisons by metric and name.

    For each metric, all configurations are one family (see `significance.decide`).
    """
    others = {name: own for name, own in scores.items() if name != reference.configuration}
    return {
        m: _compared({n: (own, reference.scores, m) for n, own in others.items()}, groups or {})
        for m in metrics
        if direction(m) != "neither"
    }


def _compared(
    family: Mapping[str, tuple[Scores, Scores, str]], groups: Groups, alpha: float = ALPHA
) -> dict[str, Comparison]:
    lower = frozenset(n for n, (_, _, metric) in family.items() if direction(metric) == "lower")
    own = {name: groups_of(*member, groups) for name, member in family.items()}
    return compare_family({n: pairs(*member) for n, member in family.items()}, alpha, lower, own)


def best_of(
    scores: Mapping[str, Scores], metrics: Sequence[str], groups: Groups | None = None
) -> tuple[str, list[str]]:
    """Return the best configuration, and the metrics that decided.

    The first metric keeps the configuration with the highest mean, and all configurations that are
    not significantly worse. Each further metric does the same with the kept configurations. Of the
    kept ones, the best is the first of `scores`, and then no metric decided. If the first is not
    kept, the best has the highest sum of means. Higher values of each metric must be better.
    """

    def mean(name: str, metric: str) -> float:
        return mean_of_known(scores[name].get(metric, {}).values()) or 0.0

    left, used = list(scores), list[str]()
    for metric in metrics:
        if len(left) == 1:
            break
        first = max(left, key=lambda name: mean(name, metric))
        reference = Reference(first, first, scores[first])
        found = compare_all({name: scores[name] for name in left}, reference, [metric], groups)
        worse = {n for n, one in found.get(metric, {}).items() if one.verdict == "worse"}
        used.append(metric)
        left = [name for name in left if name not in worse]
    if len(left) > 1 and left[0] == next(iter(scores)):
        return left[0], []
    return max(left, key=lambda name: math.fsum(mean(name, m) for m in metrics)), used


def shown_metrics(config: CorpusConfig, also: Sequence[str] = ()) -> list[str]:
    """Return the metrics to compare: `serve_metric`, gate metrics, `also` and default metrics."""
    wanted = (config.serve_metric, *config.gate.metrics, *also, *headline_metrics())
    return list(dict.fromkeys(wanted))


def measured_metrics(metrics: Sequence[str], scores: Iterable[Scores]) -> list[str]:
    """Return `metrics`, or only `DOCUMENT_METRIC` if all gold is whole documents."""
    every = list(scores)

    def is_measured(metric: str) -> bool:
        return any(v is not None for own in every for v in own.get(metric, {}).values())

    if any(map(is_measured, metrics)) or not is_measured(DOCUMENT_METRIC):
        return list(metrics)
    return [DOCUMENT_METRIC]


def evaluated_scores(workspace: Workspace) -> dict[str, Scores]:
    """Return the scores of every evaluated configuration, in the corpus file's order."""
    every = {name: read_scores(workspace, name) for name in workspace.config.all_configurations}
    return {name: scores for name, scores in every.items() if scores}
