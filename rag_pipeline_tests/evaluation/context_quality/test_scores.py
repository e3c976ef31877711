from typing import Any

import pytest

from rag_pipeline.datamodels import ContextJudgement, Judged
from rag_pipeline.evaluation.context_quality.llm import ChatContext
from rag_pipeline.evaluation.context_quality.rules import RuleContext
from rag_pipeline.evaluation.context_quality.scores import (
    CONTEXT_METRICS,
    context_metrics,
    context_precision,
    context_relevance,
    ranking_penalty,
)

RATES = RuleContext()


def contexts(levels: str, used: str = "") -> tuple[Judged, ...]:
    """Return contexts from letters: h, m, l, n; used are the places in `used`, from 1."""
    names: dict[str, Any] = {"h": "high", "m": "medium", "l": "low", "n": "none"}
    return tuple(
        Judged(names[letter], str(place) in used) for place, letter in enumerate(levels, 1)
    )


@pytest.mark.parametrize(
    ("levels", "used", "missing", "expected"),
    [
        ("hhh", "123", 0, 1.0),
        ("hmln", "1", 0, 2.0 / 4),  # 1 + 0.7 + 0.3 + 0
        ("hmln", "", 0, 2.0 / 4 - 0.1),
        ("hh", "", 0, 1.0 - 0.2),
        ("mm", "", 0, 0.7),  # only high ones are held to be used
        ("hh", "12", 2, 1.0 - 0.3),
        ("hh", "12", 3, 1.0 - 0.45),
        ("hh", "12", 4, 1.0 - 0.5),  # 0.6 is capped
        ("hh", "12", 99, 0.5),
        ("ln", "", 1, 0.0),  # 0.15 - 0.15
        ("nn", "", 1, 0.0),  # never below
    ],
)
def test_context_relevance(levels, used, missing, expected):
    judgement = ContextJudgement(contexts(levels, used), ("item",) * missing)
    assert context_relevance(judgement, RATES) == pytest.approx(expected)


def test_the_rates_and_the_scale_are_settings():
    rates = RuleContext(medium=0.5, low=0.1, unused_penalty=0.2, missing_penalty=0.05, scale=10.0)
    judgement = ContextJudgement(contexts("hml"), ("a", "b"))
    # (1 + 0.5 + 0.1) / 3 - 0.2 - 0.1
    assert context_relevance(judgement, rates) == pytest.approx(10 * (1.6 / 3 - 0.3))


def test_no_context_is_null_and_not_one():
    metrics = context_metrics(ContextJudgement((), ("an answer",)), RATES)
    assert metrics == {metric.name: None for metric in CONTEXT_METRICS}


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("hmm", 1.0),
        ("nh", 1 / 2),
        ("hnm", (1 + 2 / 3) / 2),
        ("nnhlm", (1 / 3 + 2 / 5) / 2),
        ("lln", 0.0),
    ],
)
def test_context_precision_is_average_precision_over_high_and_medium(levels, expected):
    assert context_precision(contexts(levels)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("hhh", 0.0),
        ("nnnh", 0.05),
        ("nnnhh", 0.05 + 0.10),
        ("nnnmm", 0.0),  # medium ones may have any place
        ("nnnhhhh", 0.3),  # 0.05 + 0.10 + 0.15 + 0.20 is capped
    ],
)
def test_ranking_penalty(levels, expected):
    assert ranking_penalty(contexts(levels), RATES) == pytest.approx(expected)


def test_the_counts():
    metrics = context_metrics(ContextJudgement(contexts("hmln", "14"), ("a", "b")), RATES)
    assert (metrics["UsageRate"], metrics["MissingItems"], metrics["RelevantCount"]) == (0.5, 2, 2)


def test_levels_that_do_not_descend_are_refused():
    with pytest.raises(ValueError, match="each level must be at most the level before it"):
        ChatContext(judge="llm", chat="x", medium=0.2, low=0.3)
