"""Compare configurations by paired differences, p values and verdicts.

This module has its own sign-flip tests. `scipy.stats.permutation_test` takes 40 times as long on
776 queries, because it shuffles every pair and shares no flips between metrics.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from rag_pipeline.evaluation.intervals import (
    FEWEST_GROUPS,
    difference_interval,
    group_names,
    lower_tail,
    unit_sums,
)

Verdict = Literal["better", "worse", "cannot tell"]
Pair = tuple[float | None, float | None]

ALPHA = 0.05
"""Significance level: the maximum probability of calling two equal configurations different."""

_SEED = 0
_SIGN_FLIPS = 10_000
_MOST_ENUMERATED = 12
_BLOCK_CELLS = 1 << 22
_TOLERANCE = 1e-9
"""Relative tolerance of sums, whose last bits depend on the order of the numbers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of (one - other) over the queries for which both have a value.

    - `n`: the number of these queries. `missing` counts the pairs with a None.
    - `low`, `high`: the bounds of the 95 % interval, or None for fewer than two pairs.
    - `p`: the two-sided p value, or None if there are no pairs.
    - `wins`, `losses`: the numbers of positive and of negative differences.
    - `groups`: the number of groups in the test, or None for single queries.
    """

    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    missing: int
    wins: int
    losses: int
    groups: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Comparison(Difference):
    """A difference with its p value adjusted for its family, and the verdict."""

    p_holm: float | None
    verdict: Verdict


def differences(
    pairs: Mapping[str, Sequence[Pair]], groups: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Difference]:
    """Return the mean paired difference of each list of `pairs`, by the list's name.

    A list has a pair (one, other) per query. `groups` has the group of each pair. If queries share
    groups, the group is the unit of the interval (see `difference_interval`). With at least
    `FEWEST_GROUPS` groups, the group is also the unit of the test.

    p comes from the sign-flip randomisation test of the mean difference (Fisher, The Design of
    Experiments, 1935; Smucker, Allan and Carterette, CIKM 2007). The test is exact for up to 12
    units that differ. If all units differ by the same amount, the test is the exact sign test.
    Otherwise, it uses 10,000 random sign patterns and the observed pattern.

    The result does not depend on the order of the queries. Raise ValueError, with the name of the
    list, for a value that is infinite or not a number.
    """
    units: dict[str, list[float]] = {}
    found: dict[str, Difference] = {}
    for name, values in pairs.items():
        column, own = _differences(name, values, groups[name] if groups else None)
        sums, number = unit_sums(column, own)
        units[name] = sums.tolist()
        low, high = difference_interval(column, own) if len(column) >= 2 else (None, None)
        found[name] = Difference(
            mean=math.fsum(column) / len(column) if column else None,
            low=low,
            high=high,
            p=None,
            n=len(column),
            missing=len(values) - len(column),
            wins=sum(value > 0 for value in column),
            losses=sum(value < 0 for value in column),
            groups=number,
        )
    p_values = _p_values(units)
    return {name: replace(one, p=p_values.get(name)) for name, one in found.items()}


def compare_family(
    pairs: Mapping[str, Sequence[Pair]],
    alpha: float = ALPHA,
    lower_is_better: frozenset[str] = frozenset(),
    groups: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Comparison]:
    """Return the differences of these pairs with their verdicts as one family (see `decide`)."""
    return decide(differences(pairs, groups), alpha, lower_is_better)


def decide(
    family: Mapping[str, Difference],
    alpha: float = ALPHA,
    lower_is_better: frozenset[str] = frozenset(),
) -> dict[str, Comparison]:
    """Return the verdicts on a family of differences.

    A member is *better* or *worse* if its p value, adjusted by Holm's method, is at most `alpha`
    and its interval does not contain 0. Otherwise, the verdict is *cannot tell*. If all
    configurations are equal, the probability of any verdict *better* is at most alpha / 2. For the
    members in `lower_is_better`, a negative difference is better.
    """
    adjusted = holm({name: difference.p for name, difference in family.items()})
    return {
        name: Comparison(
            **asdict(difference),
            p_holm=adjusted[name],
            verdict=_verdict(difference, adjusted[name], alpha, name in lower_is_better),
        )
        for name, difference in family.items()
    }


def loss_p_values(
    gains: Mapping[str, Mapping[str, float]], groups: Mapping[str, str]
) -> dict[str, float]:
    """Return by metric the probability that equal systems have as bad a loss in any metric.

    `gains` has the differences by metric and query id. A loss is negative. `groups` has the group
    of each query.

    The test is a one-sided sign-flip test, and all metrics share the flips. The statistic of a
    metric is its sum divided by the root of its sum of squares. Each statistic is compared with the
    least statistic of all metrics in each sign pattern (Westfall and Young, Resampling-Based
    Multiple Testing, 1993). Unlike with Holm's method, metrics that agree do not raise p. Equally
    bad patterns count half (mid-p, Lancaster 1961). The test is exact for up to 12 units.

    Two to five groups have too few sign patterns. Student's test over groups (CR2) with
    Bonferroni's adjustment then replaces the test. With one group, the query is the unit, and the
    result holds only for the group.
    """
    ids = sorted({query_id for own in gains.values() for query_id in own})
    if not ids:
        return {}
    columns = [[own.get(query_id, 0.0) for query_id in ids] for own in gains.values()]
    distinct, code = np.unique(group_names(ids, groups), return_inverse=True)
    if len(distinct) == 1:
        distinct, code = np.array(ids), np.arange(len(ids))
    n = len(distinct)
    if n < min(FEWEST_GROUPS, len(ids)):
        tails = (
            lower_tail(list(own.values()), group_names(own, groups)) if len(own) > 1 else 1.0
            for own in gains.values()
        )
        return {name: min(1.0, len(gains) * p) for name, p in zip(gains, tails, strict=True)}
    sums = np.array([np.bincount(code, column, n) for column in columns])
    root = np.sqrt((sums**2).sum(axis=1))
    scaled = np.divide(sums, root[:, None], out=np.zeros_like(sums), where=root[:, None] > 0)
    observed = scaled.sum(axis=1)
    known = int(n > _MOST_ENUMERATED)
    least = np.concatenate([(scaled @ signs).min(axis=0) for signs in _signs(n)])
    worse = [int((least < value - _TOLERANCE).sum()) for value in observed]
    as_bad = [int((least <= value + _TOLERANCE).sum()) for value in observed]
    return {
        name: ((below + count) / 2 + known) / (len(least) + known)
        for name, below, count in zip(gains, worse, as_bad, strict=True)
    }


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Adjust p values for the number of tests by Holm's step-down method.

    The i-th smallest of m values, p, becomes `(m - i + 1) * p`, but at most 1. It is never lower
    than the adjusted value of rank i - 1. None stays None and does not count. Source: Holm, A
    simple sequentially rejective multiple test procedure, 1979.
    """
    ranked = sorted((p, name) for name, p in p_values.items() if p is not None)
    adjusted: dict[str, float | None] = dict.fromkeys(p_values)
    highest = 0.0
    for done, (p, name) in enumerate(ranked):
        highest = max(highest, min(1.0, (len(ranked) - done) * p))
        adjusted[name] = highest
    return adjusted


def _verdict(difference: Difference, p: float | None, alpha: float, lower: bool) -> Verdict:
    if p is None or p > alpha or difference.low is None or difference.high is None:
        return "cannot tell"
    if difference.low <= 0 <= difference.high:
        return "cannot tell"
    return "better" if (difference.low > 0) != lower else "worse"


def _differences(
    name: str, pairs: Sequence[Pair], groups: Sequence[str] | None
) -> tuple[list[float], list[str] | None]:
    of_pair = groups if groups is not None else [""] * len(pairs)
    found = sorted(
        (one - other, group)
        for (one, other), group in zip(pairs, of_pair, strict=True)
        if one is not None and other is not None
    )
    for value, _ in found:
        if not math.isfinite(value):
            raise ValueError(f"{name!r}: a difference of {value!r} is not a finite number")
    return [value for value, _ in found], None if groups is None else [g for _, g in found]


def _p_values(columns: Mapping[str, list[float]]) -> dict[str, float]:
    from scipy.special import bdtr

    found: dict[str, float] = {}
    by_n: dict[int, list[str]] = {}
    for name, column in columns.items():
        if not column:
            continue
        changed = [value for value in column if value != 0]  # a 0 changes no sum
        n = len(changed)
        if not changed:
            found[name] = 1.0
        elif max(map(abs, changed)) - min(map(abs, changed)) <= _TOLERANCE * abs(changed[0]):
            positive = sum(value > 0 for value in changed)
            found[name] = min(1.0, 2 * float(bdtr(min(positive, n - positive), n, 0.5)))
        elif n <= _MOST_ENUMERATED:
            as_far = _as_far(np.array([changed]))
            found[name] = int(as_far[0]) / 2**n
        else:
            by_n.setdefault(len(column), []).append(name)
    for names in by_n.values():
        as_far = _as_far(np.array([columns[name] for name in names])) + 1
        found.update(zip(names, (as_far / (_SIGN_FLIPS + 1)).tolist(), strict=True))
    return found


def _as_far(columns: Any) -> Any:
    """Return for each row the number of sign patterns whose sum is at least as far from 0."""
    observed = np.abs(columns.sum(axis=1)) - _TOLERANCE * np.abs(columns).sum(axis=1)
    return sum(
        (np.abs(columns @ signs) >= observed[:, None]).sum(axis=1)
        for signs in _signs(columns.shape[1])
    )


def _signs(n: int) -> Iterable[Any]:
    """Yield sign patterns, shape (n, patterns): all up to 12 units, random ones for more units."""
    return _one_block(n) if n * _SIGN_FLIPS <= _BLOCK_CELLS else _random_signs(n)


@lru_cache(maxsize=4)
def _one_block(n: int) -> tuple[Any, ...]:
    """Return the arrays of `_signs`. All metrics of a comparison share the cached arrays."""
    if n <= _MOST_ENUMERATED:
        return (2.0 * ((np.arange(2**n)[None, :] >> np.arange(n)[:, None]) & 1) - 1.0,)
    return tuple(_random_signs(n))


def _random_signs(n: int) -> Iterable[Any]:
    random = np.random.default_rng(_SEED)
    block = max(1, _BLOCK_CELLS // n)
    for done in range(0, _SIGN_FLIPS, block):
        size = min(block, _SIGN_FLIPS - done)
        yield 2.0 * random.integers(0, 2, size=(n, size), dtype=np.int8) - 1.0
