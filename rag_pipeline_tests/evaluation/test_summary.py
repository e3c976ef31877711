import math
import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from rag_pipeline.evaluation import Summary, summarize, summarize_all

values = st.lists(st.none() | st.floats(0, 1), max_size=40)


def test_mean_n_and_missing_by_hand():
    summary = summarize([1.0, None, 0.0, 0.5, None])
    assert (summary.mean, summary.n, summary.missing) == (0.5, 3, 2)
    assert list(asdict(summary)) == ["mean", "n", "missing", "low", "high"]


def test_nothing_is_null_not_zero():
    assert summarize([]) == Summary(None, 0, 0, None, None)
    assert summarize([None, None]) == Summary(None, 0, 2, None, None)
    assert summarize_all([]) == {}


def test_one_value_has_no_interval():
    assert summarize([0.25, None]) == Summary(0.25, 1, 1, None, None)


def test_equal_values_have_an_interval_of_no_width():
    assert summarize([1.0] * 7) == Summary(1.0, 7, 0, 1.0, 1.0)


def test_interval_of_two_values_spans_both():
    """A resample of 0 and 1 has mean 0 or 1 in a quarter of the cases each."""
    summary = summarize([0.0, 1.0])
    assert (summary.low, summary.high) == (0.0, 1.0)


def test_interval_is_near_the_normal_one_for_many_values():
    data = [1.0] * 300 + [0.0] * 700
    summary = summarize(data)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 1000)
    assert summary.low == pytest.approx(0.3 - half, abs=0.003)
    assert summary.high == pytest.approx(0.3 + half, abs=0.003)


def test_interval_agrees_with_scipy():
    data = np.random.default_rng(7).beta(0.4, 1.2, size=80)
    theirs = bootstrap(
        (data,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(8)
    ).confidence_interval
    ours = summarize(data.tolist())
    assert ours.low == pytest.approx(theirs.low, abs=0.005)
    assert ours.high == pytest.approx(theirs.high, abs=0.005)


def test_large_n_is_drawn_in_blocks():
    data = np.random.default_rng(3).random(30_000).tolist()
    summary = summarize(data)
    half = 1.96 * np.std(data) / math.sqrt(len(data))
    assert summary.high - summary.low == pytest.approx(2 * half, rel=0.1)
    assert summary.low < summary.mean < summary.high


def test_every_metric_is_summarized_over_its_own_values():
    rows = [
        {"AP": 1.0, "R@5": None},
        {"AP": 0.0, "R@5": 0.5},
        {"AP": 0.5},
    ]
    summaries = summarize_all(rows)
    assert list(summaries) == ["AP", "R@5"]
    assert (summaries["AP"].mean, summaries["AP"].n, summaries["AP"].missing) == (0.5, 3, 0)
    assert summaries["R@5"] == Summary(0.5, 1, 2, None, None)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match=r"metric 'AP': (nan|-?inf) is not a finite number"):
        summarize_all([{"AP": 1.0}, {"AP": value}])


@given(values, values)
def test_all_at_once_equals_one_by_one(one, other):
    size = min(len(one), len(other))
    rows = [{"a": a, "b": b} for a, b in zip(one[:size], other[:size], strict=True)]
    together = summarize_all(rows)
    for name, column in (("a", one[:size]), ("b", other[:size])):
        if size:
            assert asdict(together[name]) == pytest.approx(asdict(summarize(column)))


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
    present = [v for v in some if v is not None]
    assert summary.n + summary.missing == len(some)
    assert (summary.mean is None) == (summary.n == 0)
    assert (summary.low is None) == (summary.high is None) == (summary.n < 2)
    if summary.n >= 2:
        assert min(present) - 1e-12 <= summary.low <= summary.high <= max(present) + 1e-12
