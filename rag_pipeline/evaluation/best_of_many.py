"""Measure the best of many configurations on queries that did not choose it.

The highest of many means is an overestimate, because the same queries chose the configuration.
Cross-fitting chooses on one half of the groups and measures on the other half, and vice versa. It
repeats this for several divisions (Varma and Simon, BMC Bioinformatics 2006). The bootstrap repeats
choice and measurement on groups drawn with replacement (Efron and Tibshirani, An Introduction to
the Bootstrap, 1993).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_pipeline.evaluation.intervals import Summary, group_names, mean_interval, wilson

_DIVISIONS = 10
_SAMPLES = 200
_FEWEST = 10
_SEED = 0


@dataclass(frozen=True, slots=True)
class BestOfMany:
    """The mean of the best configuration, on queries that did not choose it.

    `best` has the highest mean over all queries, `naive`. `honest` is the mean on the half of the
    groups that did not choose. `again` is the share of choices (0 to 1) that fall on `best`.
    """

    metric: str
    configurations: int
    best: str
    naive: float
    honest: Summary
    again: float

    @property
    def sentence(self) -> str:
        """Return both means, and the interval of `honest`, as an English sentence."""
        honest = self.honest
        held = (
            f" [{100 * honest.low:.1f}, {100 * honest.high:.1f}]"
            if honest.low is not None and honest.high is not None
            else ""
        )
        return (
            f"best of {self.configurations} by {self.metric}: {100 * self.naive:.1f} % on the "
            f"questions that chose it, {100 * (honest.mean or 0.0):.1f} %{held} on questions that "
            f"did not ({100 * self.again:.0f} % of the choices fell on it)"
        )


def best_of_many(
    metric: str, values: Mapping[str, Mapping[str, float | None]], groups: Mapping[str, str]
) -> BestOfMany | None:
    """Return the cross-fitted mean, or None for one configuration or fewer than 10 groups.

    `values` has each configuration's values (0 to 1) by query. A query counts only if every
    configuration has a value. `groups` has the group of each query. A group is never divided.
    Divisions and bootstrap samples are reproducible.
    """
    known = [{q for q, v in own.items() if v is not None} for own in values.values()]
    common = sorted(set.intersection(*known)) if known else []
    names = group_names(common, groups)
    units, code = np.unique(np.array(names, dtype=str), return_inverse=True)
    number = len(units)
    if len(values) < 2 or number < _FEWEST:
        return None
    columns = [[float(own[q] or 0.0) for q in common] for own in values.values()]
    sums = np.array([np.bincount(code, column, number) for column in columns]).T
    sizes = np.bincount(code).astype(float)
    best = int(sums.sum(axis=0).argmax())
    random = np.random.default_rng(_SEED)
    halves = random.permuted(np.tile(np.arange(number) < number // 2, (_DIVISIONS, 1)), axis=1)
    drawn = random.multinomial(number, np.full(number, 1 / number), _SAMPLES).astype(float)
    means, again = _cross_fitted(sums, sizes, np.ones((1, number)), halves, best)
    mean = float(means[0])
    samples, _ = _cross_fitted(sums, sizes, drawn, halves, best)
    variance = float(samples.var()) * number / (number - 1)
    low, high = (
        wilson(mean, variance, number - 1) if variance > 0 else mean_interval(columns[best], names)
    )
    return BestOfMany(
        metric,
        len(values),
        list(values)[best],
        float(sums[:, best].sum()) / len(common),
        Summary(mean, len(common), 0, low, high, number if number < len(common) else None),
        again,
    )


def _cross_fitted(sums: Any, sizes: Any, weights: Any, halves: Any, best: int) -> tuple[Any, float]:
    """Return a mean for each row of group weights, and the share of choices equal to `best`."""
    rows, whole = np.arange(len(weights)), weights @ sums
    found, chosen = np.zeros(len(weights)), 0
    for half in halves:
        one = (weights * half) @ sums
        other = whole - one
        first, second = one.argmax(axis=1), other.argmax(axis=1)
        found += other[rows, first] + one[rows, second]
        chosen += int((first == best).sum() + (second == best).sum())
    share = chosen / (2 * len(halves) * len(weights))
    return found / (weights @ sizes) / len(halves), share
