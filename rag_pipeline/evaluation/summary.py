"""Summarize the values of a metric, one per query, by a mean with its count and interval."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag_pipeline.evaluation.intervals import interval_groups, mean_interval


@dataclass(frozen=True, slots=True)
class Summary:
    """The mean of a metric over queries, with its counts and interval.

    `n` counts the values, and `missing` counts the queries with None. `low` and `high` bound the
    95 % confidence interval. `mean` is None if n is 0. `low` and `high` are None if n is below 2.
    `groups` is the number of groups that the interval uses, or None if it uses single queries.
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
    """Summarize the values of one metric, with one value per query. None counts as missing.

    `groups` names the group of each value (see `mean_interval`). The order of the values does not
    matter. Raise ValueError with the metric's name for a value that is infinite or not a number.
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
