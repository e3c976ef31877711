"""Decide one gate metric: allow or refuse a candidate, and state the certainty in a sentence.

The decision has three tests in this order. Is a loss statistically significant? Is such a loss
rare among equally good candidates (the guard, for small samples)? Is a loss beyond the margin
excluded?
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rag_pipeline.config import Gate
from rag_pipeline.errors import counted
from rag_pipeline.evaluation.intervals import difference_interval, few_groups, smallest_loss
from rag_pipeline.evaluation.significance import ALPHA, Comparison, Pair, loss_p_values

Outcome = Literal[
    "worse", "looks worse", "as good", "undecided", "too few", "too many missing", "not measured"
]
REFUSED: tuple[Outcome, ...] = ("worse", "looks worse", "too few", "too many missing")
GUARD = 0.10
"""Share of equally good candidates that the guard refuses, over all gate metrics together."""
_MAX_MORE_QUESTIONS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """The comparison of a candidate with the served release in one metric, over common queries."""

    comparison: Comparison
    pairs: Sequence[Pair]
    """Values of the candidate and of the release, by query."""
    groups: Sequence[str]
    """The group of each pair's query."""
    lower_is_better: bool
    loss: float | None
    """The probability that an equally good candidate has such a loss in any gate metric."""
    metrics: int = 1
    """Number of metrics in the comparison."""
    synthetic: int = 0
    """Number of synthetic queries among the common queries."""
    missing: int = 0
    """Number of pairs in which the worst value replaces a missing value of the candidate."""
    released: int = 0
    """Number of queries for which the release has a value, also of removed queries."""


def spent(comparison_number: int, decay: float = 1.0) -> float:
    """Return the allowed error of the n-th comparison with a release, counted from n = 1.

    The error is 0.05 (1 / n^decay - 1 / (n + 1)^decay). The sum over all comparisons is at most
    0.05, so repeated comparisons on the same questions can't force a verdict. A lower decay keeps
    more error for later comparisons. Source: alpha spending (Lan and DeMets, 1983).
    """
    n = comparison_number
    return float(ALPHA * (n**-decay - (n + 1) ** -decay))


def decide_metric(found: MetricComparison, gate: Gate, alpha: float) -> tuple[Outcome, str]:
    """Return the outcome for one metric, and a sentence that does not name the metric."""
    known = sum(other is not None for _, other in found.pairs)
    lost = found.missing
    if lost > gate.maximum_missing * known:
        return "too many missing", (
            f"refused: the candidate lacks {lost} of the release's {known} values, and "
            f"gate.maximum_missing is {gate.maximum_missing:g}; evaluate again"
        )
    sign = -1 if found.lower_is_better else 1
    measured = [
        (sign * (one - other), group)
        for (one, other), group in zip(found.pairs, found.groups, strict=True)
        if one is not None and other is not None
    ]
    if _too_few(found.released, [group for _, group in measured]):
        return "too few", (
            f"refused: compared on only {len(measured)} of the release's {found.released} "
            f"questions; restore their texts, change questions and documents in separate runs, or "
            f"set gate.metrics to [] for one release"
        )
    if not measured:
        return "not measured", "not compared, because the candidate or the release has no value"
    gains, groups = [gain for gain, _ in measured], [group for _, group in measured]
    n, gain = len(gains), math.fsum(gains) / len(gains)
    where = _sample_size(found, n, groups)
    if n - lost < gate.minimum_queries:
        minimum = gate.minimum_queries
        return "too few", f"refused: compared {where}, and gate.minimum_queries is {minimum}"
    sure = f"{100 * (1 - alpha):.3g} % sure {where}"
    if found.comparison.verdict == "worse":
        return "worse", f"refused: WORSE, {sure}"
    power = _power(gains, groups, gate.margin, found.metrics)
    if found.loss is not None and found.loss <= GUARD and gain < -gate.margin:
        return "looks worse", (
            f"refused: looks worse by {-gain:.4f} {where} (so would {100 * found.loss:.2g} % of "
            f"equally good candidates); {power}"
        )
    if n > 1 and difference_interval(gains, groups, 1 - 2 * alpha)[0] >= -gate.margin:
        return "as good", f"allowed: not worse by more than {gate.margin:g}, {sure}; {power}"
    return "undecided", (
        f"allowed: no clear loss {where}, but a loss of more than {gate.margin:g} is possible; "
        f"{power}"
    )


def _too_few(released: int, groups: Sequence[str]) -> bool:
    """Return whether half of the release's queries are gone, or a loss of all would not show.

    `groups` has the groups of the compared queries. With fewer than three, no loss ever shows.
    """
    if released < 3 or len(groups) == released:
        return False
    of_query = {str(i): group for i, group in enumerate(groups)}
    shown = loss_p_values({"": dict.fromkeys(of_query, -1.0)}, of_query).get("", 1.0)
    return 2 * len(groups) < released or shown > GUARD


def _sample_size(found: MetricComparison, n: int, groups: Sequence[str]) -> str:
    text = f"on {counted(n, 'question')}"
    if found.missing:
        text += f" ({found.missing} missing, counted as lost)"
    if found.synthetic:
        text += f" ({found.synthetic} of {len(found.pairs)} synthetic)"
    if found.comparison.groups:
        text += f" in {found.comparison.groups} groups"
    if few := few_groups(groups):
        text += f" about only {counted(few, 'document')}, too few to predict other documents"
    return text


def _power(gains: Sequence[float], groups: Sequence[str], margin: float, metrics: int) -> str:
    """Return a sentence about the losses that these and more questions would show."""
    if len(gains) < 2:
        return "one question is not enough to show a loss"
    # With many groups, one test judges all metrics. With few groups, the metrics share the error.
    error = GUARD / metrics if few_groups(groups) else GUARD
    least, needed = smallest_loss(gains, groups, error, 2 * margin)
    least = max(least, margin + least / 2)  # the guard also needs a loss beyond the margin
    if least > (max(map(abs, gains)) or 1.0):
        text = "these questions are too few to show a loss in 9 of 10 cases"
    else:
        text = f"these questions show a loss of {least:.2g} in 9 of 10 cases"
    more = math.ceil(needed) - len(gains)
    if least <= 2 * margin or more <= 0:
        return text
    if more > _MAX_MORE_QUESTIONS:
        needed_more = f"more than {_MAX_MORE_QUESTIONS:,} more questions"
        return f"{text}; only {needed_more} would show a loss of {2 * margin:g}"
    digits = max(0, len(str(more)) - 2)
    rounded = math.ceil(more / 10**digits) * 10**digits
    return f"{text}; about {rounded} more questions would show a loss of {2 * margin:g}"
