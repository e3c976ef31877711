"""Tell whether one configuration beats another: paired differences, p values, verdicts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from rag_pipeline.evaluation.intervals import FEWEST_GROUPS, difference_interval, unit_sums

Verdict = Literal["better", "worse", "cannot tell"]
Pair = tuple[float | None, float | None]

ALPHA = 0.05
"""Largest share of pairs of equal configurations that may be called different."""

_SEED = 0
_SIGN_FLIPS = 10_000
_MOST_ENUMERATED = 12
_BLOCK_CELLS = 1 << 22
# Two sums of the same numbers in another order differ in their last bits.
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of (one - other) over the queries that both measured.

    `n` counts these pairs, `missing` those of which a side is None. `low` and `high` bound the
    95 % interval (None below two pairs), `p` is the two-sided p value of the randomisation test
    (None without pairs). `wins` and `losses` count the pairs with a higher and a lower one.
    `groups` counts the groups of questions that both rest on, None where every question stands for
    itself.
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
    """A difference, its p value adjusted for the family it was judged in, and the verdict."""

    p_holm: float | None
    verdict: Verdict


def differences(
    pairs: Mapping[str, Sequence[Pair]], groups: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Difference]:
    """Return the paired difference of each named list of pairs (one, other), one pair a query.

    `groups` names the group of each pair of each list. Where questions share groups, the group is
    the unit of the interval, and of the test if there are at least `FEWEST_GROUPS` of them.

    - Interval: see `difference_interval`.
    - p: sign-flip randomisation test of the mean difference (Fisher, The Design of Experiments,
      1935; for retrieval, Smucker, Allan and Carterette, CIKM 2007), which flips all questions of
      a group together. Exact for up to 12 units that differ, and where all differ by the same
      amount, as single questions do in 0/1 metrics (then it is the sign test, and McNemar's exact
      test); else from 10,000 random flips, the observed one counted in.

    Both are the same on every call and in whatever order the queries come. Raises ValueError,
    naming the list, for a value that is infinite or not a number.
    """
    columns: dict[str, list[float]] = {}
    units: dict[str, tuple[list[float], int | None]] = {}
    intervals: dict[str, tuple[float, float]] = {}
    for name, values in pairs.items():
        columns[name], own = _differences(name, values, groups[name] if groups else None)
        sums, number = unit_sums(columns[name], own)
        units[name] = (sums.tolist(), number)
        if len(columns[name]) >= 2:
            intervals[name] = difference_interval(columns[name], own)
    p_values = _p_values({name: sums for name, (sums, _) in units.items()})
    return {
        name: Difference(
            mean=math.fsum(column) / len(column) if column else None,
            low=intervals[name][0] if name in intervals else None,
            high=intervals[name][1] if name in intervals else None,
            p=p_values.get(name),
            n=len(column),
            missing=len(pairs[name]) - len(column),
            wins=sum(value > 0 for value in column),
            losses=sum(value < 0 for value in column),
            groups=units[name][1],
        )
        for name, column in columns.items()
    }


def compare_family(
    pairs: Mapping[str, Sequence[Pair]],
    alpha: float = ALPHA,
    lower_is_better: frozenset[str] = frozenset(),
    groups: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Comparison]:
    """Return the differences of these pairs, judged together as one family (see `judge`)."""
    return judge(differences(pairs, groups), alpha, lower_is_better)


def judge(
    family: Mapping[str, Difference],
    alpha: float = ALPHA,
    lower_is_better: frozenset[str] = frozenset(),
) -> dict[str, Comparison]:
    """Judge a family of differences together.

    A member is called *better* or *worse* when its p value, adjusted by Holm over the family, is
    at most `alpha` and its interval does not hold 0; otherwise one *cannot tell*. So among equal
    configurations any member at all is called better in at most alpha / 2 of all experiments.
    For the members in `lower_is_better` a negative difference is the better one.
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
    """Return how often equal systems look as bad as this in any of several metrics, by metric.

    `gains` are the differences by metric and query, negative where the one is worse; `groups` name
    the group of each query. One-sided sign-flip test whose flips all metrics share: the statistic
    is the sum over its root of squares, its reference the least of all metrics (Westfall and Young,
    Resampling-Based Multiple Testing, 1993). So metrics that say the same cost nothing, unlike by
    Holm. Exact for up to 12 units. Equally bad patterns count half (mid-p, Lancaster 1961): whole,
    they would make the test far stricter than it says where few questions differ.
    """
    ids = sorted({query_id for own in gains.values() for query_id in own})
    columns = [[own.get(query_id, 0.0) for query_id in ids] for own in gains.values()]
    if not ids:
        return {}
    names = np.array([groups.get(query_id, f"query {query_id}") for query_id in ids])
    distinct, code = np.unique(names, return_inverse=True)
    if not len(distinct) >= FEWEST_GROUPS:
        distinct, code = np.array(ids), np.arange(len(ids))
    sums = np.array([np.bincount(code, column, len(distinct)) for column in columns])
    root = np.sqrt((sums**2).sum(axis=1))
    scaled = np.divide(sums, root[:, None], out=np.zeros_like(sums), where=root[:, None] > 0)
    observed = scaled.sum(axis=1)
    n = len(distinct)
    if n <= _MOST_ENUMERATED:
        patterns = 2.0 * ((np.arange(2**n)[None, :] >> np.arange(n)[:, None]) & 1) - 1.0
        blocks, known = (patterns,), 0
    else:
        blocks = _one_block(n) if n * _SIGN_FLIPS <= _BLOCK_CELLS else tuple(_signs(n))
        known = 1
    least = np.concatenate([(scaled @ signs).min(axis=0) for signs in blocks])
    worse = [int((least < value - _TOLERANCE).sum()) for value in observed]
    as_bad = [int((least <= value + _TOLERANCE).sum()) for value in observed]
    return {
        name: ((below + count) / 2 + known) / (len(least) + known)
        for name, below, count in zip(gains, worse, as_bad, strict=True)
    }


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Adjust p values for their number by Holm's step-down; a None is no member of the family.

    The i-th smallest of m becomes (m - i + 1) p, at least the one before it and at most 1.
    Holm, A simple sequentially rejective multiple test procedure, 1979.
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
    """Return one - other of the complete pairs, and their groups, so that no order matters."""
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
    found: dict[str, float] = {}
    by_n: dict[int, list[str]] = {}
    for name, column in columns.items():
        # Pairs that are equal change no sum, whatever their sign.
        changed = [value for value in column if value != 0]
        if not column:
            continue
        if not changed:
            found[name] = 1.0
        elif max(map(abs, changed)) - min(map(abs, changed)) <= _TOLERANCE * abs(changed[0]):
            found[name] = _sign_test(sum(value > 0 for value in changed), len(changed))
        elif len(changed) <= _MOST_ENUMERATED:
            found[name] = _enumerated(np.array(changed))
        else:
            by_n.setdefault(len(column), []).append(name)
    for names in by_n.values():
        p_values = _sampled(np.array([columns[name] for name in names]))
        found.update(zip(names, p_values, strict=True))
    return found


def _sign_test(positive: int, n: int) -> float:
    """Return how often n fair coins fall at least as unevenly."""
    fewer = min(positive, n - positive)
    tail = sum(math.comb(n, i) for i in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << n))


def _enumerated(values: Any) -> float:
    """Return the share of all sign patterns with a sum at least as far from 0."""
    n = len(values)
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    sums = np.abs((2.0 * bits - 1.0) @ values)
    observed = abs(values.sum())
    return float(np.mean(sums >= observed - _TOLERANCE * np.abs(values).sum()))


def _sampled(columns: Any) -> list[float]:
    """Return the p values of rows x n differences over shared random sign patterns."""
    n = columns.shape[1]
    observed = np.abs(columns.sum(axis=1)) - _TOLERANCE * np.abs(columns).sum(axis=1)
    as_far = np.zeros(len(columns), np.int64)
    blocks = _one_block(n) if n * _SIGN_FLIPS <= _BLOCK_CELLS else _signs(n)
    for signs in blocks:
        as_far += (np.abs(columns @ signs) >= observed[:, None]).sum(axis=1)
    return [float(p) for p in (as_far + 1) / (_SIGN_FLIPS + 1)]


@lru_cache(maxsize=4)
def _one_block(n: int) -> tuple[Any, ...]:
    # Every metric of every pair over the same queries is flipped by the same patterns.
    return tuple(_signs(n))


def _signs(n: int) -> Iterator[Any]:
    """Yield blocks, n x patterns, of random signs."""
    random = np.random.default_rng(_SEED)
    block = max(1, _BLOCK_CELLS // n)
    for done in range(0, _SIGN_FLIPS, block):
        size = min(block, _SIGN_FLIPS - done)
        yield 2.0 * random.integers(0, 2, size=(n, size), dtype=np.int8) - 1.0
