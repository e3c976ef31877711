"""Turn per-query values of a metric into a mean with its n, missing count and interval."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

RESAMPLES = 2_000
_SEED = 0
_BLOCK_CELLS = 1 << 21


@dataclass(frozen=True, slots=True)
class Summary:
    """The mean of a metric over queries, and what it rests on.

    `n` counts the values behind the mean, `missing` those that were None. `low` and `high` bound
    the 95 % confidence interval. `mean` is None when n is 0; `low` and `high` are None when n is
    below 2, where a resample can't vary.
    """

    mean: float | None
    n: int
    missing: int
    low: float | None
    high: float | None


UNMEASURED = Summary(None, 0, 0, None, None)


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None where there is none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def summarize(values: Sequence[float | None]) -> Summary:
    """Summarize the values of one metric, one a query (see `summarize_all`)."""
    return summarize_all([{"values": value} for value in values]).get("values", UNMEASURED)


def summarize_all(rows: Sequence[Mapping[str, float | None]]) -> dict[str, Summary]:
    """Summarize every metric of the rows, one row a query; a metric that a row lacks is missing.

    The interval is the percentile bootstrap over queries (Efron and Tibshirani, An Introduction to
    the Bootstrap, 1993, chapter 13), from the 2.5th to the 97.5th percentile of the means of 2,000
    resamples. It is the same on every call and in whatever order the queries come. It knows only
    the queries seen: where all values are equal, its width is zero, however few they are.

    Raises ValueError, naming the metric, for a value that is infinite or not a number.
    """
    columns = {name: _present(name, rows) for name in dict.fromkeys(n for row in rows for n in row)}
    by_n: dict[int, list[str]] = {}
    for name, column in columns.items():
        by_n.setdefault(len(column), []).append(name)
    intervals: dict[str, tuple[float, float]] = {}
    for n, names in by_n.items():
        if n >= 2:
            means = resampled_means(np.array([columns[name] for name in names]))
            low, high = np.quantile(means, (0.025, 0.975), axis=1).tolist()
            intervals.update(zip(names, zip(low, high, strict=True), strict=True))
    return {
        name: Summary(
            math.fsum(column) / len(column) if column else None,
            len(column),
            len(rows) - len(column),
            *intervals.get(name, (None, None)),
        )
        for name, column in columns.items()
    }


def _present(name: str, rows: Sequence[Mapping[str, float | None]]) -> list[float]:
    """Return the values of one metric, sorted, so that the order of queries can't matter."""
    column = [value for row in rows if (value := row.get(name)) is not None]
    for value in column:
        if not math.isfinite(value):
            raise ValueError(f"metric {name!r}: {value!r} is not a finite number")
    return sorted(column)


def resampled_means(columns: Any) -> Any:
    """Return the means, metrics x resamples, of metrics x n values over shared resamples."""
    n = columns.shape[1]
    blocks = _one_block(n) if n * RESAMPLES <= _BLOCK_CELLS else _resamples(n)
    return np.concatenate([columns @ counts.T for counts in blocks], axis=1) / n


@lru_cache(maxsize=4)
def _one_block(n: int) -> tuple[Any, ...]:
    # Every metric of every configuration over the same queries is resampled by the same draws.
    return tuple(_resamples(n))


def _resamples(n: int) -> Iterator[Any]:
    """Yield blocks, resamples x n, of how often each query was drawn."""
    random = np.random.default_rng(_SEED)
    block = max(1, _BLOCK_CELLS // n)
    for done in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - done)
        drawn = random.integers(0, n, size=(size, n)) + np.arange(size)[:, None] * n
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)
