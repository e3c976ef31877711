"""Values of a metric, one a query -> a mean with its n, missing count and interval."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_pipeline.evaluation.intervals import interval_groups, mean_interval


@dataclass(frozen=True, slots=True)
class Summary:
    """The mean of a metric over queries, with its counts and interval.

    `n` counts the values, `missing` the values of None. `low` and `high` bound the 95 % confidence
    interval. `mean` is None if n is 0; `low` and `high` are None if n is below 2. `groups` counts
    the groups behind the interval; None if the query is the unit.
    """

    mean: float | None
    n: int
    missing: int
    low: float | None
    high: float | None
    groups: int | None = None


UNMEASURED = Summary(None, 0, 0, None, None)


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def summarize(values: Sequence[float | None], groups: Sequence[str] | None = None) -> Summary:
    """Summarize the values of one metric, one a query (see `summarize_all`)."""
    return summarize_all([{"values": v} for v in values], groups).get("values", UNMEASURED)


def summarize_all(
    rows: Sequence[Mapping[str, float | None]], groups: Sequence[str] | None = None
) -> dict[str, Summary]:
    """Summarize every metric of the rows, one row a query; absent metrics count as missing.

    `groups` names the group of each row (see `mean_interval`). The order of the rows does not
    matter. Raises ValueError, naming the metric, for a value that is infinite or not a number.
    """
    of_row = groups if groups is not None else [str(row) for row in range(len(rows))]
    return {
        name: _summary(name, [row.get(name) for row in rows], of_row)
        for name in dict.fromkeys(name for row in rows for name in row)
    }


def _summary(name: str, column: Sequence[float | None], groups: Sequence[str]) -> Summary:
    known = sorted((v, g) for v, g in zip(column, groups, strict=True) if v is not None)
    values, own = [v for v, _ in known], [g for _, g in known]
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"metric {name!r}: {value!r} is not a finite number")
    missing = len(column) - len(values)
    if len(values) < 2:
        return Summary(values[0] if values else None, len(values), missing, None, None)
    mean = math.fsum(values) / len(values)
    low, high = mean_interval(values, own)
    return Summary(mean, len(values), missing, low, high, interval_groups(own))
