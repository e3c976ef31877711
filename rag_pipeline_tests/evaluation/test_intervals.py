import math
import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, t

from rag_pipeline.evaluation.intervals import Summary, mean_interval, summarize, variance_of_mean

values = st.lists(st.none() | st.floats(0, 1), max_size=40)


def test_mean_n_and_missing_by_hand():
    summary = summarize([1.0, None, 0.0, 0.5, None])
    assert (summary.mean, summary.n, summary.missing) == (0.5, 3, 2)
    assert list(asdict(summary)) == ["mean", "n", "missing", "low", "high", "groups"]


def test_nothing_is_null_not_zero():
    assert summarize([]) == Summary(None, 0, 0, None, None)
    assert summarize([None, None]) == Summary(None, 0, 2, None, None)
    assert summarize([0.25, None]) == Summary(0.25, 1, 1, None, None)


def test_equal_values_have_an_interval_with_a_width():
    """7 of 7: the lower end of Wilson's interval is n / (n + t^2), t = 2.4469 with 6 degrees."""
    summary = summarize([1.0] * 7)
    assert summary.low == pytest.approx(7 / (7 + 2.4469**2), abs=1e-4)
    assert summary.high == 1.0


@pytest.mark.parametrize("right", [300, 970, 1000])
def test_the_interval_of_a_proportion_is_near_wilsons(right):
    theirs = binomtest(right, 1000).proportion_ci(method="wilson")
    summary = summarize([1.0] * right + [0.0] * (1000 - right))
    assert (summary.low, summary.high) == pytest.approx((theirs.low, theirs.high), abs=3e-4)


def test_the_interval_of_counts_is_students():
    data = [0.0, 2.0, 3.0, 7.0]
    theirs = t.interval(0.95, 3, loc=3.0, scale=np.std(data, ddof=1) / 2)
    summary = summarize(data)
    assert (summary.low, summary.high) == pytest.approx(theirs, abs=0.04)


def test_questions_of_one_document_count_as_one_by_hand():
    """6 documents, each right or wrong in all of its 10 questions, say what 6 questions say."""
    found = summarize([1.0] * 30 + [0.0] * 30, [f"d{n // 10}" for n in range(60)])
    six = summarize([1.0] * 3 + [0.0] * 3)
    assert (found.n, found.groups, six.groups) == (60, 6, None)
    assert (found.low, found.high) == pytest.approx((six.low, six.high))
    # So do 5, which are too few for tests: the interval is wide.
    five = summarize([1.0] * 25 + [0.0] * 25, [f"d{n // 10}" for n in range(50)])
    alone = summarize([1.0, 1.0, 0.5, 0.0, 0.0])
    assert five.groups == 5
    assert (five.low, five.high) == pytest.approx((alone.low, alone.high))
    assert summarize([1.0, 0.0, 1.0], ["d", "d", "d"]).groups is None, "of one nothing can be told"


def test_unequal_documents_have_fewer_degrees_of_freedom():
    """Of sizes 4, 1, 1, by hand: u = n_g^2 / (1 - n_g / 6) = 48, 1.2, 1.2.

    Twice the sum of their products is 233.28, and 6^2 / (18 + 233.28 / 6^2) = 36 / 24.48.
    """
    values, groups = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0], ["a"] * 4 + ["b", "c"]
    mean = 5 / 6
    variance, units, freedom = variance_of_mean(values, mean, groups)
    assert (units, freedom) == (3, pytest.approx(36 / 24.48))
    sums = (4 / 6) ** 2 / (1 / 3) + (1 / 6) ** 2 / (5 / 6) + (5 / 6) ** 2 / (5 / 6)
    assert variance == pytest.approx(sums / 36)


def test_30_questions_in_3_documents_are_held_in_at_least_93_percent():
    """By the question as unit 77 to 92 % of such intervals held the truth."""
    groups = np.repeat(["a", "b", "c"], 10).tolist()
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        right = rng.random(30) < np.repeat(rng.beta(3.2, 0.8, 3), 10)
        low, high = mean_interval(right.astype(float).tolist(), groups)
        held += low <= 0.8 <= high
    assert held >= 0.93 * 300


@pytest.mark.parametrize("p", [0.5, 0.9, 0.97])
@pytest.mark.parametrize(("documents", "each"), [(30, 1), (200, 1), (20, 10)])
def test_95_percent_intervals_hold_the_truth_in_about_95_percent(p, documents, each):
    """Questions of a document are right with the document's own probability: correlation 0.15."""
    rng = np.random.default_rng(documents)
    groups = np.repeat(np.arange(documents), each).astype(str).tolist()
    held = 0
    for _ in range(400):
        chance = rng.beta(p * 5.67, (1 - p) * 5.67, documents) if each > 1 else p
        right = rng.random((each, documents)) < chance
        summary = summarize(right.T.ravel().astype(float).tolist(), groups)
        held += summary.low <= p <= summary.high
    assert 0.92 <= held / 400 <= 0.99


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match=r"metric 'AP': (nan|-?inf) is not a finite number"):
        summarize([1.0, value], metric="AP")


@given(values, st.randoms(use_true_random=False))
def test_neither_order_nor_missing_values_move_the_interval(some, shuffle: random.Random):
    summary = summarize(some)
    shuffled = list(some)
    shuffle.shuffle(shuffled)
    assert summarize(shuffled) == summary
    present = summarize([v for v in some if v is not None])
    assert (present.mean, present.low, present.high) == (summary.mean, summary.low, summary.high)


@given(values)
def test_laws(some):
    summary = summarize(some)
    assert summary.n + summary.missing == len(some)
    assert (summary.mean is None) == (summary.n == 0)
    assert (summary.low is None) == (summary.high is None) == (summary.n < 2)
    if summary.n >= 2:
        assert 0 <= summary.low <= summary.mean + 1e-12
        assert summary.mean - 1e-12 <= summary.high <= 1
