"""Compute means and 95 % confidence intervals of a metric from one value per query.

The independent unit is the query. If queries share groups, the unit is the group, because queries
about one document are not independent. The intervals use Student's t distribution. Few groups and
groups of unequal size have fewer degrees of freedom. `scipy.stats` has no interval for clustered
shares, so this module has Wilson's formula.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FEWEST_GROUPS = 6
"""With fewer groups, no sign-flip test reaches p = 0.05, so tests use single queries."""


def group_names(query_ids: Iterable[str], groups: Mapping[str, str]) -> list[str]:
    """Return the group of each query. A query that has no group becomes a group of its own."""
    return [groups.get(query_id, f"query {query_id}") for query_id in query_ids]


def few_groups(groups: Sequence[str]) -> int | None:
    """Return the number of groups if it is too small for conclusions about other groups.

    Return None if there are enough groups, or if no two queries share a group.
    """
    number = len(set(groups))
    return number if number < min(FEWEST_GROUPS, len(groups)) else None


def unit_sums(values: Sequence[float], groups: Sequence[str] | None) -> tuple[Any, int | None]:
    """Return the sum of each unit's values in ascending order, and the number of groups.

    The units of a test are groups. If all groups have one query, or if there are few groups, the
    units are single queries, and the number is None.
    """
    if groups is not None:
        sums, _ = _group_sums(values, groups)
        if FEWEST_GROUPS <= len(sums) < len(values):
            return np.sort(sums), len(sums)
    return np.sort(np.asarray(values, float)), None


def mean_interval(
    values: Sequence[float], groups: Sequence[str] | None = None
) -> tuple[float, float]:
    """Return the 95 % interval of a mean of at least two values.

    For values from 0 to 1, this is Wilson's score interval (1927). Its n is the number of
    independent queries with the same variance of the mean (Korn and Graubard, 1998). For other
    values, the interval is the mean +- t standard errors (`variance_of_mean`).
    """
    n, mean = len(values), math.fsum(values) / len(values)
    variance, units, freedom = variance_of_mean(values, mean, groups)
    t = _quantile(freedom)
    if min(values) < 0 or max(values) > 1:
        return mean - t * math.sqrt(variance), mean + t * math.sqrt(variance)
    if variance <= 1e-15:
        # Equal values have no variance, so n is the geometric mean of the two possible numbers.
        return _wilson(mean, math.sqrt(n * units), t)
    effective = mean * (1 - mean) / variance
    return _wilson(mean, min(effective, n) if units < n else effective, t)


def wilson(mean: float, variance: float, freedom: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a mean (0 to 1) from its variance and degrees of freedom."""
    spread = max(mean * (1 - mean), 1e-12)
    return _wilson(mean, spread / max(variance, 1e-15), _quantile(freedom))


def _wilson(mean: float, effective: float, t: float) -> tuple[float, float]:
    spread = mean * (1 - mean)
    centre = (mean + t * t / (2 * effective)) / (1 + t * t / effective)
    half = t * math.sqrt(spread / effective + t * t / (4 * effective**2)) / (1 + t * t / effective)
    # A mean of 0 or 1 is also a bound, but rounding may move the bound.
    low = 0.0 if mean == 0 else max(0.0, centre - half)
    return low, 1.0 if mean == 1 else min(1.0, centre + half)


def difference_interval(
    values: Sequence[float], groups: Sequence[str] | None = None, level: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a mean of at least two paired differences.

    The interval is the mean +- t standard errors (`variance_of_mean`). `level` is the confidence (0
    to 1). The sum of squares has one more pair (Agresti and Min, 2005), with the greatest
    difference, or 1 if no pair differs. Without this pair, few differing pairs would look certain.
    """
    mean = math.fsum(values) / len(values)
    variance, units, freedom = variance_of_mean(values, mean, groups)
    most = max(map(abs, values)) or 1.0
    share = 1.0 if units == len(values) else len(values) / units
    error = math.sqrt(variance + most * most * share / len(values) ** 2)
    t = _quantile(freedom, level)
    bound = 1.0 if most <= 1 else math.inf  # differences of shares
    return max(-bound, mean - t * error), min(bound, mean + t * error)


def lower_tail(values: Sequence[float], groups: Sequence[str] | None = None) -> float:
    """Return the probability that a mean is at most this low if the true mean is 0.

    The probability is from Student's t test with CR2 errors (`variance_of_mean`). If all units are
    equal, one differing pair is added (see `difference_interval`).
    """
    from scipy.special import stdtr

    mean = math.fsum(values) / len(values)
    variance, units, freedom = variance_of_mean(values, mean, groups)
    most = max(map(abs, values)) or 1.0
    error = math.sqrt(variance) if variance > 1e-15 else most / math.sqrt(len(values) * units)
    return float(stdtr(freedom, mean / error))


def smallest_loss(
    values: Sequence[float], groups: Sequence[str], error: float, loss: float
) -> tuple[float, float]:
    """Return the least loss that a test finds, and the number of queries that it needs for `loss`.

    The test has a power of 0.9 and the one-sided error `error`. `values` are paired differences. A
    loss of x adds x (m - x) to the variance of the values, where m is the largest difference.
    """
    n, mean = len(values), math.fsum(values) / len(values)
    variance, _, freedom = variance_of_mean(values, mean, groups)
    most = max(map(abs, values)) or 1.0
    z = _quantile(freedom, 1 - 2 * error) + _quantile(freedom, 0.8)
    a, b = 1 + z * z / n, z * z * most / n
    least = (b + math.sqrt(b * b + 4 * a * z * z * variance)) / (2 * a)
    z = _quantile(math.inf, 1 - 2 * error) + _quantile(math.inf, 0.8)
    return least, z * z * (n * variance + max(0.0, loss * (most - loss))) / max(loss, 1e-9) ** 2


def interval_groups(groups: Sequence[str]) -> int | None:
    """Return the number of groups that an interval uses, or None if it uses single queries."""
    number = len(set(groups))
    return number if 2 <= number < len(groups) else None


def variance_of_mean(
    values: Sequence[float], mean: float, groups: Sequence[str] | None
) -> tuple[float, int, float]:
    """Return the variance of the mean, the number of units, and the degrees of freedom.

    The variance is the cluster-robust CR2, which suits few groups of unequal size (Bell and
    McCaffrey, Survey Methodology 2002). Without groups, queries are independent.
    """
    n = len(values)
    if groups is None or interval_groups(groups) is None:
        apart = np.sort(np.asarray(values, float)) - mean
        return float((apart**2).sum()) / (n - 1) / n, n, n - 1
    sums, sizes = _group_sums(np.asarray(values) - mean, groups)
    others = 1 - sizes / n
    weights = sizes**2 / others
    cross = weights.sum() ** 2 - (weights**2).sum()
    freedom = n**2 / ((sizes**2).sum() + cross / n**2)
    return float((sums**2 / others).sum()) / n**2, len(sums), max(1.0, float(freedom))


def _quantile(freedom: float, level: float = 0.95) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def _group_sums(values: Any, groups: Sequence[str]) -> tuple[Any, Any]:
    column = np.asarray(values, float)
    names, code = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    order = np.lexsort((column, code))  # the sums must not depend on the order of the queries
    return np.bincount(code[order], column[order], len(names)), np.bincount(code)


@dataclass(frozen=True, slots=True)
class Summary:
    """The mean of a metric over queries, with its counts and interval.

    `n` counts the values, and `missing` counts the queries with None. `low` and `high` bound the
    95 % confidence interval. `mean` is None if n is 0. `low` and `high` are None if n is below 2.
    `groups` is the number of groups in the interval, or None for single queries.
    """

    mean: float | None
    n: int
    missing: int
    low: float | None
    high: float | None
    groups: int | None = None


UNMEASURED = Summary(None, 0, 0, None, None)


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None if there are no such values."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def summarize(
    values: Sequence[float | None], groups: Sequence[str] | None = None, metric: str = "values"
) -> Summary:
    """Summarize the values of one metric, one per query. None counts as missing.

    `groups` has the group of each value (see `mean_interval`). The result does not depend on the
    order. Raise ValueError with the metric's name for a value that is infinite or not a number.
    """
    of_value = groups if groups is not None else [str(n) for n in range(len(values))]
    pairs = sorted((v, g) for v, g in zip(values, of_value, strict=True) if v is not None)
    known, own = [v for v, _ in pairs], [g for _, g in pairs]
    for value in known:
        if not math.isfinite(value):
            raise ValueError(f"metric {metric!r}: {value!r} is not a finite number")
    missing = len(values) - len(known)
    if len(known) < 2:
        return Summary(known[0] if known else None, len(known), missing, None, None)
    mean = math.fsum(known) / len(known)
    low, high = mean_interval(known, own)
    return Summary(mean, len(known), missing, low, high, interval_groups(own))
