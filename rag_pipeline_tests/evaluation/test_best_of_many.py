"""The mean of the best of many on queries that did not choose it."""

import numpy as np
import pytest

from rag_pipeline.evaluation.best_of_many import best_of_many


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


@pytest.mark.parametrize(("configurations", "shared"), [(2, 0.0), (6, 0.5), (24, 0.5)])
def test_the_interval_holds_the_value_of_equal_ones_in_95_percent_of_draws(configurations, shared):
    """Each is right with 0.8, and gives the common answer to a share of the questions.

    The cross-fitted values of several divisions are not independent.
    """
    rng = np.random.default_rng(configurations)
    held = []
    for _ in range(100):
        common = rng.random(71) < 0.8
        own = rng.random((configurations, 71)) < 0.8
        same = rng.random((configurations, 71)) < shared
        values = {
            f"c{i}": {f"q{q}": float(v) for q, v in enumerate(row)}
            for i, row in enumerate(np.where(same, common, own))
        }
        found = best_of_many("m", values, {})
        assert found is not None
        assert found.honest.low is not None and found.honest.high is not None
        held.append(found.honest.low <= 0.8 <= found.honest.high)
    assert np.mean(held) >= 0.92


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
