"""The mean of the best of many that other queries would give."""

import numpy as np
import pytest

from rag_pipeline.evaluation.best_of_many import _estimates, best_of_many


def test_the_best_of_equal_ones_is_no_better_than_they_are():
    """24 equal systems, 71 questions each right with 0.8: the best looks like 0.88."""
    rng = np.random.default_rng(0)
    naive, honest = [], []
    for _ in range(20):
        values = {
            f"c{i}": {f"q{q}": float(v) for q, v in enumerate(rng.random(71) < 0.8)}
            for i in range(24)
        }
        found = best_of_many("AnswerPresence@5", values, {})
        assert found is not None and found.honest.mean is not None
        naive.append(found.naive)
        honest.append(found.honest.mean)
    assert np.mean(naive) > 0.87
    assert np.mean(honest) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    ("configurations", "shared", "spread"),
    [(2, 0.0, 0.0), (6, 0.5, 0.0), (24, 0.5, 0.0), (6, 0.5, 0.15), (24, 0.5, 0.15)],
)
def test_the_interval_holds_the_value_of_the_best_in_95_percent_of_draws(
    configurations, shared, spread
):
    """Each is right with 0.7 to 0.85, or all with 0.8, and shares half of its chance events.

    The best is chosen by all questions, so its value is not that of a choice by half of them.
    """
    rng = np.random.default_rng(configurations)
    right = np.linspace(0.8 - spread * 2 / 3, 0.8 + spread / 3, configurations)
    held, error = [], []
    for _ in range(100):
        same = rng.random((configurations, 40)) < shared
        chance = np.where(same, rng.random(40), rng.random((configurations, 40)))
        values = {
            f"c{i}": {f"q{q}": float(v) for q, v in enumerate(row)}
            for i, row in enumerate(chance < right[:, None])
        }
        found = best_of_many("m", values, {})
        assert found is not None and found.honest.mean is not None
        assert found.honest.low is not None and found.honest.high is not None
        truth = right[int(found.best[1:])]
        held.append(found.honest.low <= truth <= found.honest.high)
        error.append(found.honest.mean - truth)
    assert np.mean(held) >= 0.92
    assert abs(np.mean(error)) < 0.015


def test_the_estimate_weighs_the_groups_left_out_by_the_relative_overfitting():
    """One configuration is right on three of four groups, the other on none.

    Left out are group 3, group 1, and groups 0 and 3: two right of these three groups, so
    0.75 - 0.6667 is lost of a lead of 0.75 - 0.375. The weight is 0.632 / (1 - 0.368 * 0.2222).
    With group 0 twice and without group 3, nothing is lost.
    """
    sums = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    bags = np.array([[2, 1, 1, 0], [1, 0, 1, 2], [0, 2, 2, 0]])
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0, 0.0]])
    found, again = _estimates(sums, np.ones(4), weights, bags)
    assert found == pytest.approx([0.6926, 1.0], abs=1e-4)
    assert again == 1.0


def test_a_clear_winner_keeps_its_figure():
    values = {
        "good": {f"q{i}": float(i % 10 != 0) for i in range(60)},
        "bad": {f"q{i}": 0.0 for i in range(60)},
    }
    found = best_of_many("m", values, {})
    assert found is not None
    assert (found.best, found.naive, found.again) == ("good", 0.9, 1.0)
    assert found.honest.mean == pytest.approx(0.9)
    assert "best of 2 by m: 90.0 %" in found.sentence
    same = best_of_many("m", {"a": values["good"], "b": values["good"]}, {})
    assert same is not None and same.honest.mean == pytest.approx(0.9)


def test_a_group_stands_on_one_side_and_missing_values_leave_a_question_out():
    """12 groups of two questions; each is right under one of two configurations by group."""
    queries = [f"q{i}" for i in range(24)]
    values = {
        "even": {q: float(i // 2 % 2 == 0) for i, q in enumerate(queries)},
        "odd": {q: float(i // 2 % 2 == 1) for i, q in enumerate(queries)},
    }
    values["odd"]["q23"] = None
    groups = {q: f"d{i // 2}" for i, q in enumerate(queries)}
    found = best_of_many("m", values, groups)
    assert found is not None
    assert found.honest.n == 23
    assert found.honest.groups == 12


def test_one_configuration_or_few_questions_choose_nothing():
    own = {f"q{i}": 1.0 for i in range(30)}
    few = {f"q{i}": 1.0 for i in range(5)}
    assert best_of_many("m", {"a": own}, {}) is None
    assert best_of_many("m", {"a": few, "b": few}, {}) is None
