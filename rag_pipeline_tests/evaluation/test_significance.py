import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test

from rag_pipeline.evaluation.significance import (
    compare_family,
    decide,
    differences,
    holm,
    loss_p_values,
)

sides = st.none() | st.floats(0, 1)
pairs = st.lists(st.tuples(sides, sides), max_size=30)


def of(values):
    """Return pairs with these differences."""
    return [(value, 0.0) for value in values]


def test_mean_counts_and_missing_by_hand():
    found = differences({"AP@5": [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0), (1.0, 0.5), (None, 1.0)]})
    difference = found["AP@5"]
    assert difference.mean == pytest.approx((1 + 0 - 1 + 0.5) / 4)
    assert (difference.n, difference.missing) == (4, 1)
    assert (difference.wins, difference.losses) == (2, 1)


def test_nothing_is_null():
    difference = differences({"AP": [(None, 1.0), (1.0, None)]})["AP"]
    assert (difference.mean, difference.p, difference.low, difference.high) == (None,) * 4
    assert (difference.n, difference.missing) == (0, 2)
    assert compare_family({"AP": []})["AP"].verdict == "cannot tell"


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([0, 0, 0], 1.0),
        # Heads or tails: 5 of 5 alike is 2 / 2**5, 6 of 6 is 2 / 2**6.
        ([1] * 5, 2 / 32),
        ([1] * 6, 2 / 64),
        ([1] * 6 + [0] * 90, 2 / 64),
        # 7 of 8: one pattern of 8 alike, eight of 7 alike, and their mirror images.
        ([1] * 7 + [-1], 2 * (1 + 8) / 256),
        # 1, 2, 3: of the sums 6 4 2 0 0 -2 -4 -6, two are as far from 0 as 6, four as far as 4.
        ([1, 2, 3], 2 / 8),
        ([-1, 2, 3], 4 / 8),
        ([1, 2, -3], 1.0),
    ],
)
def test_p_values_by_hand(values, p):
    assert differences({"m": of(values)})["m"].p == pytest.approx(p)


@pytest.mark.parametrize("size", [9, 12, 40])
def test_p_values_agree_with_scipy(size):
    values = np.random.default_rng(size).normal(0.25, 1, size)
    theirs = permutation_test(
        (values, np.zeros(size)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).pvalue
    ours = differences({"m": of(values)})["m"].p
    # Up to 12 both count all patterns; beyond, each draws its own.
    assert ours == pytest.approx(theirs, abs=1e-9 if size <= 12 else 0.02)


def test_documents_are_flipped_whole_by_hand():
    """12 questions of 6 documents, all won: 6 coins alike, not 12."""
    groups = {"m": [f"d{n // 2}" for n in range(12)]}
    found = differences({"m": of([1] * 12)}, groups)["m"]
    assert (found.p, found.groups, found.n) == (2 / 64, 6, 12)
    few = differences({"m": of([1] * 12)}, {"m": [f"d{n // 4}" for n in range(12)]})["m"]
    assert (few.p, few.groups) == (2 / 4096, None)


def test_identical_answers_to_few_questions_are_no_proof_of_equality():
    """One more pair, of 1: standard error 1 / 10, t = 2.2622 with 9 degrees of freedom."""
    found = differences({"m": of([0] * 10)})["m"]
    assert (found.low, found.high) == pytest.approx((-0.22622, 0.22622), abs=1e-4)


def test_equal_systems_are_not_called_different_where_documents_matter():
    """20 documents of 10 questions; each document suits one of the two: sd 0.3 of its own."""
    rng = np.random.default_rng(11)
    groups = [str(n // 10) for n in range(200)]
    called = alone = 0
    for _ in range(400):
        bias = np.repeat(rng.normal(0, 0.15, 20), 10)
        one, other = (
            (rng.random(200) < np.clip(0.6 + sign * bias, 0, 1)).astype(float) for sign in (1, -1)
        )
        some = _pairs(one, other)
        called += compare_family({"m": some}, groups={"m": groups})["m"].verdict != "cannot tell"
        alone += compare_family({"m": some})["m"].verdict != "cannot tell"
    assert called <= 30  # 5 % of 400 are 20, and two standard errors more
    assert alone > 50, "the simulation has no effect of the documents"


def test_losses_are_judged_jointly_by_hand():
    """3 of 3 lost: half of 1 of 2**3 patterns, since the observed one ties with itself.

    The same metric twice changes nothing. Another metric has its least in another pattern.
    """
    one = {"q0": -1.0, "q1": -1.0, "q2": -1.0}
    assert loss_p_values({"a": one}, {}) == {"a": 1 / 16}
    assert loss_p_values({"a": one, "b": one}, {}) == {"a": 1 / 16, "b": 1 / 16}
    other = {"q0": -1.0, "q1": 1.0, "q2": 1.0}
    found = loss_p_values({"a": one, "b": other}, {})
    # a is at its least (-3) in one pattern, and b is in another: half of 2 of 8.
    assert found["a"] == 1 / 8
    assert loss_p_values({"equal": {"q0": 0.0}}, {}) == {"equal": 0.5}
    assert loss_p_values({}, {}) == {}


def test_holm_by_hand():
    """Sorted: 0.01 x 4, 0.02 x 3, 0.025 x 2 = 0.05 raised to the 0.06 before it, 0.8 x 1."""
    adjusted = holm({"a": 0.8, "b": 0.01, "c": 0.025, "d": 0.02, "e": None})
    assert adjusted == pytest.approx({"a": 0.8, "b": 0.04, "c": 0.06, "d": 0.06, "e": None})
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def test_a_family_asks_for_more_than_one_comparison():
    """6 of 6 alike is p = 1 / 32: enough alone, not among two, where it counts double."""
    one = {"a": of([1] * 6)}
    assert compare_family(one)["a"].verdict == "better"
    assert compare_family({**one, "b": of([0] * 6)})["a"].verdict == "cannot tell"
    assert compare_family({**one, "b": of([0] * 6)})["a"].p_holm == pytest.approx(2 / 32)
    assert compare_family({**one, "b": []})["a"].verdict == "better"


def test_the_direction_of_a_metric_turns_the_verdict():
    values = {"RankingPenalty": of([1] * 8), "AP": of([-1] * 8)}
    found = compare_family(values, lower_is_better=frozenset({"RankingPenalty"}))
    assert [c.verdict for c in found.values()] == ["worse", "worse"]


def test_a_value_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="'AP': a difference of nan is not a finite number"):
        differences({"AP": of([math.nan])})


def answered(rng, draws, n, chances):
    """Return draws x n 0/1 outcomes of systems that find the same questions hard."""
    hard = rng.beta(2, 1, size=(draws, n))
    return [(rng.random((draws, n)) < np.clip(hard + gain, 0, 1)).astype(float) for gain in chances]


@pytest.mark.parametrize("n", [30, 200])
def test_of_two_equal_configurations_one_is_called_better_in_at_most_5_percent(n):
    rng = np.random.default_rng(n)
    one, other = answered(rng, 1_000, n, (0.0, 0.0))
    graded = rng.beta(0.5, 0.5, (2, 1_000, n))
    better = {"presence": 0, "graded": 0}
    cases: dict[str, Any] = {"presence": (one, other), "graded": graded}
    for name, (left, right) in cases.items():
        found = differences({str(i): _pairs(left[i], right[i]) for i in range(1_000)})
        better[name] = count_better(found)
    assert max(better.values()) <= 50
    assert better["graded"] > 0, "a rule that never says better would pass, too"


def test_among_many_equal_configurations_none_is_called_better_in_95_percent():
    rng = np.random.default_rng(7)
    base, *others = answered(rng, 200, 100, (0.0,) * 11)
    found = differences(
        {f"{i} {j}": _pairs(o[i], base[i]) for j, o in enumerate(others) for i in range(200)}
    )
    called = 0
    for i in range(200):
        family = decide({str(j): found[f"{i} {j}"] for j in range(10)})
        called += any(comparison.verdict == "better" for comparison in family.values())
    assert called <= 10


def test_a_great_gain_is_seen():
    """20 points more at n = 200, almost always: without it, the rule would be of no use."""
    one, other = answered(np.random.default_rng(3), 200, 200, (0.2, 0.0))
    family = differences({str(i): _pairs(one[i], other[i]) for i in range(200)})
    assert count_better(family) >= 190


def count_better(found):
    """Count the verdicts over experiments of their own: each is a family of one."""
    return sum(decide({"m": d})["m"].verdict == "better" for d in found.values())


def _pairs(one, other):
    return list(zip(one.tolist(), other.tolist(), strict=True))


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_queries_does_not_matter(some, shuffle: random.Random):
    shuffled = list(some)
    shuffle.shuffle(shuffled)
    assert differences({"m": shuffled}) == differences({"m": some})


@given(pairs)
def test_laws(some):
    found = differences({"m": some, "turned": [(b, a) for a, b in some]})
    one, turned = found["m"], found["turned"]
    assert one.n + one.missing == len(some)
    assert (one.wins, one.losses) == (turned.losses, turned.wins)
    assert (one.p is None) == (one.n == 0)
    if one.n:
        assert 0 < one.p <= 1
        assert one.mean == pytest.approx(-turned.mean)
        assert one.p == pytest.approx(turned.p)
    if one.n >= 2:
        assert one.low <= one.high


@pytest.mark.parametrize("documents", [2, 3, 4, 5])
def test_equal_systems_seldom_lose_on_few_documents(documents):
    """Each of three metrics suits a document better or worse by 0.15; equal systems on average."""
    rng = np.random.default_rng(documents)
    groups = {f"q{i}": f"d{i % documents}" for i in range(60)}
    refused = 0
    for _ in range(200):
        gains = {}
        for metric in "abc":
            chance = np.clip(rng.normal(0.6, 0.15, (2, documents)), 0, 1)[
                :, np.arange(60) % documents
            ]
            own, other = rng.random((2, 60)) < chance
            gains[metric] = {f"q{i}": float(v) for i, v in enumerate(own * 1.0 - other)}
        refused += min(loss_p_values(gains, groups).values()) <= 0.1
    assert refused <= 0.15 * 200


@pytest.mark.parametrize("documents", [2, 3, 4, 5])
def test_a_loss_of_every_question_is_seen_on_few_documents(documents):
    gains = {"a": {f"q{i}": -1.0 for i in range(60)}}
    groups = {f"q{i}": f"d{i % documents}" for i in range(60)}
    assert loss_p_values(gains, groups)["a"] <= 0.1
