"""Values of a metric, some from questions that share a document -> 95 % confidence intervals.

The unit is the question, or the group where questions share one: questions about one document are
not independent. The normal quantile is Student's, with one degree of freedom fewer than units.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

FEWEST_GROUPS = 6
"""With fewer groups no sign-flip test reaches 0.05: the questions are the unit, and an interval
says what other questions about the same documents would give."""


def few_groups(groups: Sequence[str]) -> int | None:
    """Return how many groups values are of, where these are too few to speak of other groups."""
    number = len(set(groups))
    return number if number < min(FEWEST_GROUPS, len(groups)) else None


def unit_sums(values: Sequence[float], groups: Sequence[str] | None) -> tuple[Any, int | None]:
    """Return the sum of the values of each unit, sorted, and the number of groups.

    The number is None where the question is the unit: no two share a group, or groups are too few.
    """
    if groups is not None:
        names, code = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        if FEWEST_GROUPS <= len(names) < len(values):
            order = np.lexsort(
                (np.asarray(values), code)
            )  # so that the order of questions can't matter
            sums = np.bincount(code[order], np.asarray(values)[order], len(names))
            return np.sort(sums), len(names)
    return np.sort(np.asarray(values, float)), None


def mean_interval(
    values: Sequence[float], groups: Sequence[str] | None = None
) -> tuple[float, float]:
    """Return the interval of a mean of at least two values.

    Of values within 0..1: Wilson's score interval (1927) for as many independent questions as would
    give the mean the variance that it has among the units (Korn and Graubard, 1998, take the same
    effective number). It has a width where all values are equal, and stays within 0..1. Of other
    values: mean +- t standard errors among the units.
    """
    n, mean = len(values), math.fsum(values) / len(values)
    variance, units = _variance_of_mean(values, mean, groups)
    t = _quantile(units - 1)
    if min(values) < 0 or max(values) > 1:
        return mean - t * math.sqrt(variance), mean + t * math.sqrt(variance)
    if variance <= 1e-15:
        # All alike: nothing tells how much groups matter, so half-way between both numbers.
        return _wilson(mean, math.sqrt(n * units), t)
    effective = mean * (1 - mean) / variance
    return _wilson(mean, min(effective, n) if units < n else effective, t)


def wilson(mean: float, variance: float, units: int) -> tuple[float, float]:
    """Return Wilson's interval of a mean within 0..1 of this variance, estimated from `units`."""
    spread = max(mean * (1 - mean), 1e-12)
    return _wilson(mean, spread / max(variance, 1e-15), _quantile(units - 1))


def _wilson(mean: float, effective: float, t: float) -> tuple[float, float]:
    spread = mean * (1 - mean)
    centre = (mean + t * t / (2 * effective)) / (1 + t * t / effective)
    half = t * math.sqrt(spread / effective + t * t / (4 * effective**2)) / (1 + t * t / effective)
    # At an end the formula gives it, but for the last bits.
    return 0.0 if mean == 0 else max(0.0, centre - half), 1.0 if mean == 1 else min(
        1.0, centre + half
    )


def difference_interval(
    values: Sequence[float], groups: Sequence[str] | None = None, level: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a mean of at least two paired differences.

    Mean +- t standard errors among the units, where the sum of squares counts one more pair of the
    greatest difference seen (of 1 where none differs), as Agresti and Min (2005) do for 0/1
    metrics: so few pairs that differ do not pass for certainty.
    """
    mean = math.fsum(values) / len(values)
    variance, units = _variance_of_mean(values, mean, groups)
    most = max(map(abs, values)) or 1.0
    share = 1.0 if units == len(values) else len(values) / units
    error = math.sqrt(variance + most * most * share / len(values) ** 2)
    t = _quantile(units - 1, level)
    bound = 1.0 if most <= 1 else math.inf  # of shares
    return max(-bound, mean - t * error), min(bound, mean + t * error)


def standard_error(values: Sequence[float], groups: Sequence[str] | None = None) -> float:
    """Return the standard error of a mean of at least two values, among the units."""
    return math.sqrt(_variance_of_mean(values, math.fsum(values) / len(values), groups)[0])


def _variance_of_mean(
    values: Sequence[float], mean: float, groups: Sequence[str] | None
) -> tuple[float, int]:
    """Return the variance of the mean, and the number of units (Liang and Zeger, 1986)."""
    sums, number = unit_sums([value - mean for value in values], groups)
    units = number or len(values)
    return float((sums**2).sum()) * units / (units - 1) / len(values) ** 2, units


@lru_cache(maxsize=4096)
def _quantile(freedom: int, level: float = 0.95) -> float:
    """Return the two-sided quantile of Student's t (Abramowitz and Stegun 26.7.5; 1, 2: exact)."""
    share = (1 + level) / 2
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    if freedom == 2:
        return (2 * share - 1) / math.sqrt(2 * share * (1 - share))
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + math.fsum(term / freedom**n for n, term in enumerate(terms, 1))
