"""A judge's mean corrected by few gold labels."""

import numpy as np
import pytest

from rag_pipeline.evaluation.prediction_powered import corrected_mean


def by_id(values) -> dict[str, float | None]:
    return {f"q{i}": value for i, value in enumerate(values)}


def test_the_mean_is_that_of_the_paper_by_hand():
    """y = f = 1, 0, 1, 0 with gold; f = 1, 1, 1, 0 without.

    Variance of f 0.26786, covariance 1/3, so the weight is 1/3 / (2 * 0.26786) = 0.6222; the mean
    0.6222 * 0.75 + (1 - 0.6222) * 0.5.
    """
    found = corrected_mean(by_id([1, 0, 1, 0]), by_id([1, 0, 1, 0, 1, 1, 1, 0]))
    assert found is not None
    assert found.weight == pytest.approx(0.6222, abs=1e-4)
    assert found.mean == pytest.approx(0.6556, abs=1e-4)
    assert (found.labelled, found.judged, found.judge_mean) == (4, 8, 0.625)
    assert found.low < found.mean < found.high


def test_a_judge_that_knows_nothing_has_no_weight():
    gold, judged = by_id([1, 1, 0, 0]), by_id([1, 0, 1, 0, 1, 1])
    found = corrected_mean(gold, judged)
    assert found is not None
    assert (found.weight, found.mean) == (0.0, 0.5)
    assert (found.low, found.high) == (found.gold_low, found.gold_high)


def test_a_biased_judge_is_corrected_and_a_good_one_narrows_the_interval():
    """The judge says yes to all that is right and to half of the rest; 60 of 600 have gold."""
    rng = np.random.default_rng(3)
    truth = rng.random(600) < 0.5
    judge = truth | (rng.random(600) < 0.25)
    found = corrected_mean(by_id(truth[:60] * 1.0), by_id(judge * 1.0))
    assert found is not None
    assert found.judge_mean > 0.58
    assert found.low <= truth.mean() <= found.high
    assert found.high - found.low < 0.8 * (found.gold_high - found.gold_low)


def test_the_interval_holds_the_truth_in_95_percent_of_draws():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        truth = rng.random(300) < 0.8
        judge = np.where(rng.random(300) < 0.85, truth, ~truth)
        found = corrected_mean(by_id(truth[:30] * 1.0), by_id(judge * 1.0))
        assert found is not None
        held += found.low <= 0.8 <= found.high
    assert held / 300 >= 0.93


def test_without_gold_or_without_more_questions_there_is_nothing_to_correct():
    judged = by_id([1, 0, 1, 0])
    assert corrected_mean(by_id([None, None, 1, 0]), judged) is None
    assert corrected_mean(by_id([1, 0, 1, 0]), judged) is None
