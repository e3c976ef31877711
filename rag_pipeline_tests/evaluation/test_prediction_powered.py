"""A judge's mean corrected by few gold labels."""

import numpy as np
import pytest

from rag_pipeline.evaluation.prediction_powered import corrected_mean


def by_id(values) -> dict[str, float | None]:
    return {f"q{i}": value for i, value in enumerate(values)}


def test_the_mean_is_that_of_the_paper_by_hand():
    """y = f = 1, 0, 1, 0 with gold; f = 1, 1, 1, 0 without.

    The variance of f is 0.26786. Any three labels have the covariance 1/3, so each weight is
    1/3 / (2 * 0.26786) = 0.6222; the mean is 0.6222 * 0.75 + (1 - 0.6222) * 0.5.
    """
    found = corrected_mean(by_id([1, 0, 1, 0]), by_id([1, 0, 1, 0, 1, 1, 1, 0]))
    assert found is not None
    assert found.weight == pytest.approx(0.6222, abs=1e-4)
    assert found.mean == pytest.approx(0.6556, abs=1e-4)
    assert (found.labelled, found.judged, found.judge_mean) == (4, 8, 0.625)
    assert found.low < found.mean < found.high


def test_a_judge_that_says_the_opposite_has_no_weight():
    gold, judged = by_id([1, 1, 0, 0]), by_id([0, 0, 1, 1, 1, 1])
    found = corrected_mean(gold, judged)
    assert found is not None
    assert (found.weight, found.mean) == (0.0, 0.5)
    assert (found.low, found.high) == (found.gold_low, found.gold_high)
    assert "by 4 gold labels alone, which say nothing about the judge" in found.sentence


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


def drawn(draws, right, of=300, labels=30, documents=None):
    """Yield means of questions that 80 % of answers get right, by a judge and a few gold labels.

    Documents are easy (all right) or hard (half right), six of ten easy.
    """
    rng = np.random.default_rng(5)
    document = np.arange(of) // (of // documents) if documents else np.arange(of)
    for _ in range(draws):
        easy = rng.random(document.max() + 1) < 0.6
        truth = rng.random(of) < (np.where(easy[document], 1.0, 0.5) if documents else 0.8)
        judge = np.where(rng.random(of) < right, truth, ~truth)
        known = rng.permutation(of)[:labels]
        gold = {f"q{i}": float(truth[i]) for i in known}
        groups = {f"q{i}": f"d{d}" for i, d in enumerate(document)}
        found = corrected_mean(gold, by_id(judge * 1.0), groups if documents else None)
        assert found is not None
        yield found


@pytest.mark.parametrize(("right", "documents"), [(0.85, None), (0.99, None), (1, 15), (0.85, 15)])
def test_the_interval_holds_the_truth_in_95_percent_of_draws(right, documents):
    """Also if the questions without gold are about documents of different difficulty."""
    held = [f.low <= 0.8 <= f.high for f in drawn(300, right, documents=documents)]
    assert np.mean(held) >= 0.93


def test_labels_that_set_the_weight_do_not_bias_the_mean():
    """One weight from all labels makes the mean of this judge 1.4 points too high."""
    found = [f.mean for f in drawn(1000, 0.95)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.006)


def test_without_gold_or_without_more_questions_there_is_nothing_to_correct():
    judged = by_id([1, 0, 1, 0])
    assert corrected_mean(by_id([None, None, 1, 0]), judged) is None
    assert corrected_mean(by_id([1, 0, 1, 0]), judged) is None
