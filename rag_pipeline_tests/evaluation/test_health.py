import pytest

from rag_pipeline.config import HealthThresholds
from rag_pipeline.datamodels import GoldSpan, Query
from rag_pipeline.evaluation.context_quality.rules import best_levels
from rag_pipeline.evaluation.health import (
    Attainable,
    Health,
    find_alerts,
    measure_health,
)


def row(relevance, precision=1.0, penalty=0.0, usage=1.0, missing=0.0, relevant=3.0):
    return {
        "ContextRelevance": relevance,
        "ContextPrecision": precision,
        "RankingPenalty": penalty,
        "UsageRate": usage,
        "MissingItems": missing,
        "RelevantCount": relevant,
    }


NOTHING = dict.fromkeys(row(0.0))


def test_the_five_figures_by_hand():
    rows = [
        row(0.8, precision=1.0, penalty=0.05, usage=0.5, missing=0, relevant=3),
        row(0.4, precision=0.5, penalty=0.0, usage=0.25, missing=2, relevant=1),
        row(0.0, precision=0.0, penalty=0.0, usage=0.0, missing=1, relevant=0),
        row(0.6, precision=0.1, penalty=0.3, usage=0.25, missing=0, relevant=6),
        NOTHING,
    ]
    health = measure_health(rows)
    assert (health.queries, health.missing) == (4, 1)
    assert health.average_relevance == pytest.approx(1.8 / 4)
    assert health.usage_rate == pytest.approx(0.25)
    assert health.missing_rate == 2 / 4
    # the third has nothing relevant to rank; the fourth is not below 0
    assert health.ranking_efficiency == pytest.approx((0.95 + 0.5 + 0.0) / 3)
    assert health.optimal_rate == 1 / 4


def test_relevance_is_brought_back_from_its_scale():
    assert measure_health([row(8.0), row(6.0)], scale=10.0).average_relevance == 0.7


def test_perfect_retrieval_of_one_gold_span_alarms_nobody():
    """One gold chunk and four others of its document: (1 + 4 x 0.3) / 5, one used of five."""
    gold = Query("q", "?", (GoldSpan("a", 0, 100),))
    chunks = [GoldSpan("a", 100 * n, 100 * n + 100) for n in range(20)]
    levels = best_levels(gold, chunks, 5)
    assert levels == ["high", "low", "low", "low", "low"]
    at = [Attainable(relevance=2.2 / 5, usage=1 / 5)]
    health = measure_health([row(0.44, usage=0.2, relevant=1)], attainable=at)
    assert (health.average_relevance, health.usage_rate) == pytest.approx((1.0, 1.0))
    assert all(alert.passed for alert in find_alerts(health, HealthThresholds(), 0.44))
    poor = measure_health([row(0.22, usage=0.0, relevant=0)], attainable=at)
    assert poor.average_relevance == pytest.approx(0.5)
    failed = [a.description for a in find_alerts(poor, HealthThresholds(), 0.44) if not a.passed]
    subjects = [said.split(" 0.")[0] for said in failed]
    assert subjects == ["context relevance", "context usage", "average relevance"]


def test_nothing_judged_is_null_and_alarms_nobody():
    health = measure_health([NOTHING])
    assert health == Health(0, 1, None, None, None, None, None, None)
    alerts = find_alerts(health, HealthThresholds(), 0.9)
    assert alerts and all(alert.passed for alert in alerts)
    assert all("no query was judged" in alert.description for alert in alerts)


def failures(health, thresholds=None, released=None):
    alerts = find_alerts(health, thresholds or HealthThresholds(), released)
    return [alert.description for alert in alerts if not alert.passed]


def test_each_threshold_alerts_beyond_it_and_not_at_it():
    assert failures(Health(9, 0, 0.6, 0.4, 0.3, 0.5, 0.5, 0.6)) == []
    beyond = failures(Health(9, 0, 0.596, 0.39, 0.31, 0.5, 0.5, 0.6))
    assert beyond[0] == (
        "context relevance 0.596, threshold at least 0.6; try another retriever, reranker or "
        "chunking, or fewer contexts"
    )
    assert beyond[1].startswith("context usage 0.390, threshold at least 0.4; ")
    assert beyond[2].startswith("missing context 0.310, threshold at most 0.3; ")
    assert len(beyond) == 3


def test_thresholds_are_settings_and_null_is_none():
    thresholds = HealthThresholds(relevance=0.2, usage=None, missing=None, ranking=0.9, drop=None)
    health = Health(9, 0, 0.3, 0.0, 1.0, 0.8, 0.0, 0.3)
    assert len(find_alerts(health, thresholds)) == 2
    (failed,) = failures(health, thresholds)
    assert failed.startswith("ranking efficiency 0.800, threshold at least 0.9")


def test_a_drop_against_the_release_is_an_alert():
    health = Health(9, 0, 0.7, 1.0, 0.0, 1.0, 1.0, 0.7)
    assert failures(health, released=None) == failures(health, released=0.74) == []
    assert failures(health, released=0.8) == [
        "average relevance 0.70, 0.80 in the release; compare the two before a release"
    ]
