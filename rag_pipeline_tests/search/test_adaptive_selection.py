import pytest

from rag_pipeline.config import AdaptiveSelection
from rag_pipeline.search.adaptive_selection import query_complexity, select

SETTINGS = AdaptiveSelection()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", 0.0),
        ("notice period", 0.13),
        ("How long?", 0.09 + 0.2),
        ("How long? Why?", 0.14 + 0.4 + 0.3),
        ("is OpenAI or LanceDB used", 0.25 + 0.2),
        ("x" * 250, 1.0),
        ("what " * 30, 1.0),
    ],
)
def test_complexity_by_hand(query, expected):
    assert query_complexity(query) == pytest.approx(expected)


@pytest.mark.parametrize(("query", "count"), [("pay", 3), ("x" * 50, 5), ("x" * 70, 7)])
def test_more_contexts_for_a_more_complex_query(query, count):
    ranking = [(n, 1.0 - n / 100) for n in range(50)]
    assert select(query, ranking, SETTINGS) == ranking[:count]


def test_only_chunks_above_the_floor_of_the_scaled_scores():
    # scaled between 10 and 30: 1.0, 0.75, 0.5, 0
    ranking = [(4, 30.0), (2, 25.0), (9, 20.0), (1, 10.0)]
    assert select("pay", ranking, SETTINGS) == ranking[:2]
    assert select("pay", ranking, AdaptiveSelection(floor=0.4)) == ranking[:3]


def test_equal_scores_count_as_relevant_and_nothing_stays_nothing():
    assert select("pay", [(1, 0.2), (2, 0.2)], SETTINGS) == [(1, 0.2), (2, 0.2)]
    assert select("pay", [(1, -5.0)], SETTINGS) == [(1, -5.0)]
    assert select("pay", [], SETTINGS) == []


def test_counts_must_not_fall():
    with pytest.raises(ValueError, match="must be at least 1 and not fall"):
        AdaptiveSelection(contexts=(5, 3, 7))
