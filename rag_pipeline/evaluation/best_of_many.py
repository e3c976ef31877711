"""Estimate the mean of the best of many configurations on other queries.

The highest of many means is an overestimate, because the same queries chose the configuration. The
bootstrap draws groups with replacement, chooses on them, and measures the choice on the groups left
out (Tsamardinos, Greasidou and Borboudakis, Machine Learning 2018). Such a sample knows less than
all groups, so these means are too low. The .632+ rule weighs them with the highest mean (Efron and
Tibshirani, JASA 1997). The interval repeats all of this on groups drawn with replacement (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_pipeline.evaluation.intervals import Summary, group_names, mean_interval, wilson

_BAGS = 50
_SAMPLES = 200
_LEFT_OUT = 0.368
"""Share of the groups that a bootstrap sample leaves out on average: 1/e."""
_FEWEST = 10
_SEED = 0


@dataclass(frozen=True, slots=True)
class BestOfMany:
    """The mean of the best configuration, as expected on other queries.

    `best` has the highest mean over all queries, `naive`. `honest` is the .632+ estimate. `again`
    is the share of bootstrap samples (0 to 1) that choose `best`.
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
            f"questions that chose it, {100 * (honest.mean or 0.0):.1f} %{held} expected on other "
            f"questions (chosen again in {100 * self.again:.0f} % of the bootstrap samples)"
        )


def best_of_many(
    metric: str, values: Mapping[str, Mapping[str, float | None]], groups: Mapping[str, str]
) -> BestOfMany | None:
    """Return the .632+ estimate, or None for one configuration or fewer than 10 groups.

    `values` has each configuration's values (0 to 1) by query. A query counts only if every
    configuration has a value. `groups` has the group of each query. A group is never divided.
    The samples are reproducible.
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
    drawn = np.full(number, 1 / number)
    bags = random.multinomial(number, drawn, _BAGS)
    weights = np.vstack([np.ones(number), random.multinomial(number, drawn, _SAMPLES)])
    estimates, again = _estimates(sums, sizes, weights, bags)
    mean, samples = float(estimates[0]), estimates[1:]
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


def _estimates(sums: Any, sizes: Any, weights: Any, bags: Any) -> tuple[Any, float]:
    """Return the .632+ estimate for each row of group weights, and the first row's `again`.

    `sums` has shape (groups, configurations). A bag has the number of draws of each group. Each
    group counts once, with its mean over the bags that leave it out. The weight of this mean grows
    from 0.632 to 1 with the relative overfitting: the part of the lead of the best mean over the
    mean configuration that is lost on the groups left out.
    """
    means = weights @ sums / (weights @ sizes)[:, None]
    rows, best = np.arange(len(weights)), means.argmax(axis=1)
    sums_out, times_out, again = np.zeros((len(weights), len(sums))), (bags == 0).sum(axis=0), 0
    for bag in bags:
        chosen = (weights @ (sums * bag[:, None])).argmax(axis=1)
        sums_out += sums.T[chosen] * (bag == 0)
        again += int(chosen[0] == best[0])
    counted = weights * (times_out > 0)
    found = (counted * sums_out / np.maximum(times_out, 1)).sum(axis=1) / (counted @ sizes)
    highest = means[rows, best]
    lost, lead = highest - found, highest - means.mean(axis=1)
    overfitting = np.clip(lost / np.maximum(lead, 1e-12), 0.0, 1.0)
    weight = (1 - _LEFT_OUT) / (1 - _LEFT_OUT * overfitting)
    return highest - weight * lost, again / len(bags)
