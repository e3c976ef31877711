"""One gate metric on the common queries -> what is decided, how sure that is, and what would tell.

Three questions in this order: is a loss sure; does it look like one that equal candidates seldom
show (the guard, where questions are too few to be sure); is a loss beyond the margin ruled out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from rag_pipeline.config import Gate
from rag_pipeline.evaluation.intervals import difference_interval, few_groups, standard_error
from rag_pipeline.evaluation.significance import ALPHA, Comparison, Pair

MarginOutcome = Literal[
    "worse", "looks worse", "as good", "undecided", "too few", "too many missing", "not measured"
]
REFUSED: tuple[MarginOutcome, ...] = ("worse", "looks worse", "too few", "too many missing")
GUARD = 0.10
"""Share of equal candidates that the guard refuses, over all gate metrics together."""
_MOST_MORE = 10_000
_POWER = 0.84  # the normal quantile of 80 %: with so many more questions, 4 of 5 times


@dataclass(frozen=True, slots=True)
class Look:
    """What a candidate is judged by in one metric; gains are positive where it is better.

    `pairs` and `groups` are those of the common queries, one - other with one the candidate; `loss`
    is how often an equal candidate looks as bad in any gate metric.
    """

    comparison: Comparison
    pairs: Sequence[Pair]
    groups: Sequence[str]
    lower_is_better: bool
    loss: float | None
    synthetic: int = 0
    """Count of the common queries that are synthetic."""


def spent(look: int) -> float:
    """Return the error that the n-th comparison with a release may spend, n from 1.

    0.05 / n(n+1): the sum over however many comparisons is at most 0.05 (alpha spending, as Lan and
    DeMets, 1983), so that nightly looks at the same questions can't drift to a verdict.
    """
    return ALPHA / (look * (look + 1))


def judge_metric(look: Look, gate: Gate, alpha: float) -> tuple[MarginOutcome, str]:
    """Return the outcome for one metric and one sentence that says it, without its name."""
    found, pairs = look.comparison, look.pairs
    known = sum(other is not None for _, other in pairs)
    lost = sum(one is None and other is not None for one, other in pairs)
    if lost > gate.maximum_missing * known:
        return "too many missing", (
            f"refused: it is missing on {lost} of the {known} queries on which the release has it, "
            f"and gate.maximum_missing is {gate.maximum_missing:g}; evaluate again"
        )
    kept = [
        (one - other, group)
        for (one, other), group in zip(pairs, look.groups, strict=True)
        if one is not None and other is not None
    ]
    if not kept:
        return "not measured", "not measured on both, so not judged"
    sign = -1 if look.lower_is_better else 1
    gains, groups = [sign * gain for gain, _ in kept], [group for _, group in kept]
    n, gain = len(gains), math.fsum(gains) / len(gains)
    made = f" ({look.synthetic} of {len(pairs)} synthetic)" if look.synthetic else ""
    few = few_groups(groups)
    where = f"on {n} questions{made}" + (f" in {found.groups} groups" if found.groups else "")
    where += (
        f" about {few} document{'s' if few > 1 else ''} alone, too few for others" if few else ""
    )
    if n < gate.minimum_queries:
        return "too few", f"refused: compared {where}, and gate.minimum_queries is " + str(
            gate.minimum_queries
        )
    sure = f"{100 * (1 - alpha):.3g} % sure {where}"
    if found.verdict == "worse":
        return "worse", f"refused: WORSE, {sure}"
    more = _more(gains, groups, gain, gate.margin, alpha)
    if look.loss is not None and look.loss <= GUARD and gain < -gate.margin:
        return "looks worse", (
            f"refused: looks worse by {-gain:.4f} {where}; an equal candidate looks as bad in "
            f"{100 * look.loss:.2g} % of cases; {more}"
        )
    if n > 1 and difference_interval(gains, groups, 1 - 2 * alpha)[0] >= -gate.margin:
        return "as good", f"allowed: not worse by more than {gate.margin:g}, {sure}"
    return "undecided", (
        f"allowed: no clear loss {where}, but one of more than {gate.margin:g} is not ruled out; "
        f"{more}"
    )


def _more(
    gains: Sequence[float], groups: Sequence[str], gain: float, margin: float, alpha: float
) -> str:
    """Say how many more questions like these would decide, four times of five."""
    n = len(gains)
    if n < 2:
        return "no number of more questions can be told from one"
    target = gain + margin if gain >= -margin else -gain
    quantile = NormalDist().inv_cdf(1 - alpha) + _POWER
    spread = standard_error(gains, groups) * math.sqrt(n)
    most = max(map(abs, gains)) or 1.0
    # The interval's error at N questions: its spread, and one more pair that differs. Solved for N.
    if target <= 0:
        return "no realistic number of more questions would decide it"
    half = quantile * spread / target
    total = half**2 / 2 + math.sqrt(half**4 / 4 + (quantile * most / target) ** 2)
    if total - n > _MOST_MORE:
        return "no realistic number of more questions would decide it"
    number = max(1, math.ceil(total - n))
    digits = max(0, len(str(number)) - 2)
    rounded = math.ceil(number / 10**digits) * 10**digits
    return f"about {rounded} more would decide it"
