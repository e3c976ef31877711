import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.search.ranking import reciprocal_rank_fusion, weighted_gains

Ranked = list[tuple[str, float]]

rankings = st.lists(
    st.dictionaries(st.sampled_from("abcdefghij"), st.floats(-1e6, 1e6), max_size=8).map(
        lambda found: sorted(found.items(), key=lambda item: -item[1])
    ),
    min_size=1,
    max_size=4,
)


@st.composite
def weighted_rankings(draw: st.DrawFn) -> list[tuple[Ranked, float]]:
    lists = draw(rankings)
    weights = draw(st.lists(st.floats(0, 10), min_size=len(lists), max_size=len(lists)))
    return list(zip(lists, weights, strict=True))


def test_reciprocal_rank_worked_by_hand() -> None:
    fused = reciprocal_rank_fusion([[("a", 9.0), ("b", 8.0)], [("b", 0.2), ("c", 0.1)]])
    assert fused == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("a", pytest.approx(1 / 61)),
        ("c", pytest.approx(1 / 62)),
    ]
    weighted = reciprocal_rank_fusion([[("a", 1.0)], [("b", 1.0)]], k=1, weights=[1.0, 3.0])
    assert weighted == [("b", 1.5), ("a", 0.5)]
    assert reciprocal_rank_fusion([]) == reciprocal_rank_fusion([[], []]) == []
    with pytest.raises(ValueError, match="shorter"):
        reciprocal_rank_fusion([[("a", 1.0)]], weights=[])


def test_scores_are_scaled_to_the_weight() -> None:
    gains = weighted_gains([("a", 12.0), ("b", 6.0), ("c", 4.0)], 0.4)
    assert gains == [("a", 0.4), ("b", pytest.approx(0.1)), ("c", 0.0)]
    assert weighted_gains([("a", 3.0), ("b", 3.0)], 0.6) == [("a", 0.6), ("b", 0.6)]
    assert weighted_gains([("a", -2.0)], 0.4) == [("a", 0.4)]
    assert weighted_gains([], 0.4) == []


@given(weighted_rankings(), st.randoms())
def test_order_of_the_lists_does_not_matter(
    weighted: list[tuple[Ranked, float]], rng: random.Random
) -> None:
    shuffled = rng.sample(weighted, len(weighted))
    lists, weights = zip(*weighted, strict=True)
    others, other_weights = zip(*shuffled, strict=True)
    fused = reciprocal_rank_fusion(lists, weights=weights)
    assert fused == reciprocal_rank_fusion(others, weights=other_weights)


@given(weighted_rankings())
def test_each_chunk_once_within_bounds_in_order(weighted: list[tuple[Ranked, float]]) -> None:
    lists, weights = zip(*weighted, strict=True)
    chunks = {chunk for ranking in lists for chunk, _ in ranking}
    fused = reciprocal_rank_fusion(lists, weights=weights)
    bound = math.fsum(weight / 61 for weight in weights)
    assert sorted(chunk for chunk, _ in fused) == sorted(chunks)
    assert all(0 <= score <= bound * (1 + 1e-12) for _, score in fused)
    assert all((-a[1], a[0]) < (-b[1], b[0]) for a, b in pairwise(fused))


@given(rankings)
def test_a_chunk_that_no_list_puts_lower_is_fused_no_lower(lists: list[Ranked]) -> None:
    fused = dict(reciprocal_rank_fusion(lists))
    found = [dict(ranking) for ranking in lists]
    for better in fused:
        for worse in fused:
            ahead = all(
                worse not in scored or (better in scored and scored[better] > scored[worse])
                for scored in found
            )
            assert not ahead or fused[better] >= fused[worse]
