"""Decide one gate metric: allow or refuse a candidate, with its certainty in a sentence.

Three questions are asked in this order. Is a loss statistically significant? Do equal candidates
seldom show such a loss (the guard, for small samples)? Is a loss beyond the margin ruled out?
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from rag_pipeline.config import Gate
from rag_pipeline.evaluation.intervals import difference_interval, few_groups, standard_error
from rag_pipeline.evaluation.significance import ALPHA, Comparison, Pair

Outcome = Literal[
    "worse", "looks worse", "as good", "undecided", "too few", "too many missing", "not measured"
]
REFUSED: tuple[Outcome, ...] = ("worse", "looks worse", "too few", "too many missing")
GUARD = 0.10
"""Share of equal candidates that the guard refuses, over all gate metrics together."""
_MAX_MORE_QUESTIONS = 10_000
_POWER_QUANTILE = 0.84  # the normal quantile of 80 % power
_UNREALISTIC = "no realistic number of more questions would decide it"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """A candidate and the served release compared in one metric, over the common queries."""

    comparison: Comparison
    pairs: Sequence[Pair]
    """Values of the candidate and of the release, by query."""
    groups: Sequence[str]
    """The group of each pair's query."""
    lower_is_better: bool
    loss: float | None
    """How often an equal candidate looks as bad in any gate metric."""
    synthetic: int = 0
    """Number of the common queries that are synthetic."""


def spent(comparison_number: int) -> float:
    """Return the error that the n-th comparison with a release may spend, n from 1.

    It is 0.05 / n(n+1), so the sum over all comparisons is at most 0.05 (alpha spending; Lan and
    DeMets, 1983). Nightly comparisons on the same questions can't drift to a verdict.
    """
    return ALPHA / (comparison_number * (comparison_number + 1))


def decide_metric(found: MetricComparison, gate: Gate, alpha: float) -> tuple[Outcome, str]:
    """Return the outcome for one metric and a sentence about it, without the metric's name."""
    known = sum(other is not None for _, other in found.pairs)
    lost = sum(one is None and other is not None for one, other in found.pairs)
    if lost > gate.maximum_missing * known:
        return "too many missing", (
            f"refused: it is missing on {lost} of the {known} queries on which the release has it, "
            f"and gate.maximum_missing is {gate.maximum_missing:g}; evaluate again"
        )
    sign = -1 if found.lower_is_better else 1
    measured = [
        (sign * (one - other), group)
        for (one, other), group in zip(found.pairs, found.groups, strict=True)
        if one is not None and other is not None
    ]
    if not measured:
        return "not measured", "not measured on both, so not compared"
    gains, groups = [gain for gain, _ in measured], [group for _, group in measured]
    n, gain = len(gains), math.fsum(gains) / len(gains)
    where = _sample_size(found, n, groups)
    if n < gate.minimum_queries:
        minimum = gate.minimum_queries
        return "too few", f"refused: compared {where}, and gate.minimum_queries is {minimum}"
    sure = f"{100 * (1 - alpha):.3g} % sure {where}"
    if found.comparison.verdict == "worse":
        return "worse", f"refused: WORSE, {sure}"
    more = _more_questions(gains, groups, gain, gate.margin, alpha)
    if found.loss is not None and found.loss <= GUARD and gain < -gate.margin:
        return "looks worse", (
            f"refused: looks worse by {-gain:.4f} {where}; an equal candidate looks as bad in "
            f"{100 * found.loss:.2g} % of cases; {more}"
        )
    if n > 1 and difference_interval(gains, groups, 1 - 2 * alpha)[0] >= -gate.margin:
        return "as good", f"allowed: not worse by more than {gate.margin:g}, {sure}"
    return "undecided", (
        f"allowed: no clear loss {where}, but one of more than {gate.margin:g} is not ruled out; "
        f"{more}"
    )


def _sample_size(found: MetricComparison, n: int, groups: Sequence[str]) -> str:
    text = f"on {n} questions"
    if found.synthetic:
        text += f" ({found.synthetic} of {len(found.pairs)} synthetic)"
    if found.comparison.groups:
        text += f" in {found.comparison.groups} groups"
    if few := few_groups(groups):
        text += f" about {few} document{'s' if few > 1 else ''} alone, too few for others"
    return text


def _more_questions(
    gains: Sequence[float], groups: Sequence[str], gain: float, margin: float, alpha: float
) -> str:
    """Say how many more questions would decide the metric with 80 % power."""
    n = len(gains)
    if n < 2:
        return "no number of more questions can be told from one"
    target = gain + margin if gain >= -margin else -gain
    if target <= 0:
        return _UNREALISTIC
    quantile = NormalDist().inv_cdf(1 - alpha) + _POWER_QUANTILE
    spread = standard_error(gains, groups) * math.sqrt(n)
    largest = max(map(abs, gains)) or 1.0
    # Solve for N: the standard error at N questions, plus one more pair that differs, is `target`.
    half = quantile * spread / target
    total = half**2 / 2 + math.sqrt(half**4 / 4 + (quantile * largest / target) ** 2)
    if total - n > _MAX_MORE_QUESTIONS:
        return _UNREALISTIC
    number = max(1, math.ceil(total - n))
    digits = max(0, len(str(number)) - 2)
    rounded = math.ceil(number / 10**digits) * 10**digits
    return f"about {rounded} more would decide it"
