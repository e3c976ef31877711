"""Estimate a mean and its 95 % interval from few gold labels and a judge's labels of all queries.

The judge's errors on the queries with gold correct its mean over all queries. Sources:

- prediction-powered inference: Angelopoulos et al., Science 2023.
- the weight of the judge: PPI++, Angelopoulos, Duchi and Zrnic, 2023.
- a weight for each fold of gold labels from the other folds, which keeps the corrected mean
  unbiased for any judge: Zrnic and Candès, PNAS 2024.
- the degrees of freedom of the variance over groups: Satterthwaite, 1946.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_pipeline.evaluation.intervals import group_names, mean_interval, variance_of_mean, wilson

_UNSEEN = 0.5
"""Number of further errors that a YES-or-NO judge is assumed to make."""
_FOLDS = 10


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A judge's mean corrected by gold, with the uncorrected means.

    `labelled` counts queries with gold and a judge's label. `judged` counts queries with a judge's
    label. `weight` is 0 for a useless judge, and about 1 for a judge as good as gold. `low` and
    `high` bound the 95 % interval of `mean`. `gold_low` and `gold_high` bound the interval of
    `gold_mean`.
    """

    mean: float
    low: float
    high: float
    labelled: int
    judged: int
    weight: float
    judge_mean: float
    gold_mean: float
    gold_low: float
    gold_high: float

    @property
    def sentence(self) -> str:
        """Return the mean with its interval and the other means as an English sentence."""
        if not self.weight:
            return (
                f"{100 * self.mean:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}] by "
                f"{self.labelled} gold labels alone, which say nothing about the judge"
            )
        return (
            f"{100 * self.mean:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}], corrected by "
            f"{self.labelled} gold labels; the judge says {100 * self.judge_mean:.1f} % on "
            f"{self.judged} questions, gold alone {100 * self.gold_mean:.1f} % "
            f"[{100 * self.gold_low:.1f}, {100 * self.gold_high:.1f}]"
        )


def corrected_mean(
    gold: Mapping[str, float | None],
    judged: Mapping[str, float | None],
    groups: Mapping[str, str] | None = None,
) -> CorrectedMean | None:
    """Return the mean of a metric (0 to 1) over all judged queries, corrected by gold.

    `gold` and `judged` have values by query id. The queries with gold must be a random sample of
    all queries. `groups` has the group of each query (see `mean_interval`). Return None if fewer
    than three queries have both labels, or if every judged query has gold.
    """
    known = {q: v for q, v in judged.items() if v is not None}
    both = sorted(q for q, v in gold.items() if v is not None and q in known)
    rest = sorted(set(known) - set(both))
    n, more = len(both), len(rest)
    if n < 3 or not more:
        return None
    scores = np.array([float(gold[q] or 0.0) for q in both])
    labels, others = np.array([known[q] for q in both]), np.array([known[q] for q in rest])
    of_both, of_rest = (
        group_names(ids, groups) if groups is not None else None for ids in (both, rest)
    )
    every = np.concatenate([labels, others])
    most = float(every.var(ddof=1)) * (1 + n / more)
    folds = np.arange(n) % min(n, _FOLDS)
    by_fold = [_weight(scores[kept], labels[kept], most) for kept in folds != folds[:, None]]
    weights = np.array(by_fold)
    weight, other_mean = float(weights.mean()), float(others.mean())
    corrected = scores + weights * (other_mean - labels)
    mean, gold_mean = float(corrected.mean()), float(scores.mean())
    low, high = gold_low, gold_high = mean_interval(scores.tolist(), of_both)
    if weight and 0 < mean < 1:
        own, _, own_freedom = variance_of_mean(corrected.tolist(), mean, of_both)
        own += (_UNSEEN if set(every) <= {0.0, 1.0} else 0.0) * weight**2 / n**2
        judge, _, judge_freedom = variance_of_mean(others.tolist(), other_mean, of_rest)
        judge *= weight**2
        shared = 0.0
        if of_both and of_rest:
            sums = _sums(others - other_mean, of_rest)
            shared = sum(s * sums[g] for g, s in _sums(corrected - mean, of_both).items())
        variance = max(own + judge + 2 * weight * shared / (n * more), own, judge)
        freedom = (own + judge) ** 2 / (own**2 / own_freedom + judge**2 / judge_freedom)
        low, high = wilson(mean, variance, freedom)
    else:
        # Equal gold labels say nothing about the judge.
        mean, weight = gold_mean, 0.0
    every_mean = float(every.mean())
    return CorrectedMean(
        mean, low, high, n, len(known), weight, every_mean, gold_mean, gold_low, gold_high
    )  # fmt: skip


def _weight(scores: Any, labels: Any, most: float) -> float:
    """Return the weight from 0 to 1 that minimizes the variance of the corrected mean."""
    return min(1.0, max(0.0, float(np.cov(scores, labels)[0, 1]) / most)) if most > 0 else 0.0


def _sums(values: Any, groups: Sequence[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for value, group in zip(values.tolist(), groups, strict=True):
        found[group] += value
    return found
