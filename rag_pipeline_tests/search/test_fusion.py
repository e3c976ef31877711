import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.search.fusion import reciprocal_rank_fusion, weighted_fusion

Ranked = list[tuple[str, float]]

scores = st.floats(-1e6, 1e6)
rankings = st.lists(
    st.dictionaries(st.sampled_from("abcdefghij"), scores, max_size=8).map(
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


@pytest.mark.parametrize(
    ("lists", "weights", "fused"),
    [
        ([], [], []),
        ([[], []], [0.5, 0.5], []),
        (
            [[("b", 3.0), ("a", 3.0)], [("c", -2.0)]],
            [0.6, 0.4],
            [("a", 0.6), ("b", 0.6), ("c", 0.4)],
        ),
    ],
)
def test_empty_lists_and_equal_scores(lists, weights, fused) -> None:
    assert weighted_fusion(lists, weights) == fused


def test_reciprocal_rank_worked_by_hand() -> None:
    fused = reciprocal_rank_fusion([[("a", 9.0), ("b", 8.0)], [("b", 0.2), ("c", 0.1)]])
    assert fused == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("a", pytest.approx(1 / 61)),
        ("c", pytest.approx(1 / 62)),
    ]
    weighted = reciprocal_rank_fusion([[("a", 1.0)], [("b", 1.0)]], k=1, weights=[1.0, 3.0])
    assert weighted == [("b", 1.5), ("a", 0.5)]
    with pytest.raises(ValueError, match="k must be at least 0, got -1"):
        reciprocal_rank_fusion([[("a", 1.0)]], k=-1)


def test_weighted_worked_by_hand() -> None:
    dense = [("a", 0.9), ("b", 0.8), ("c", 0.5)]  # scaled: 1, 0.75, 0
    lexical = [("c", 12.0), ("b", 6.0), ("d", 4.0)]  # scaled: 1, 0.25, 0
    fused = weighted_fusion([dense, lexical], [0.6, 0.4])
    assert [chunk for chunk, _ in fused] == ["a", "b", "c", "d"]
    assert [score for _, score in fused] == pytest.approx([0.6, 0.55, 0.4, 0.0])


@pytest.mark.parametrize(
    ("lists", "weights", "message"),
    [
        ([[("a", 1.0)]], [], "1 rankings need as many weights, got 0"),
        ([[("a", 1.0)]], [-1.0], "at least 0"),
        ([[("a", 1.0)]], [math.nan], "finite"),
        ([[("a", 2.0), ("a", 1.0)]], [1.0], "'a' occurs twice"),
    ],
)
def test_unusable_arguments(lists: list[Ranked], weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        weighted_fusion(lists, weights)
    with pytest.raises(ValueError, match=message):
        reciprocal_rank_fusion(lists, weights=weights)
    with pytest.raises(ValueError, match="the score of 'a' is nan"):
        weighted_fusion([[("a", math.nan)]], [1.0])


@given(weighted_rankings(), st.randoms())
def test_order_of_the_lists_does_not_matter(
    weighted: list[tuple[Ranked, float]], rng: random.Random
) -> None:
    shuffled = rng.sample(weighted, len(weighted))
    lists, weights = zip(*weighted, strict=True)
    other_lists, other_weights = zip(*shuffled, strict=True)
    assert weighted_fusion(lists, weights) == weighted_fusion(other_lists, other_weights)
    assert reciprocal_rank_fusion(lists, weights=weights) == reciprocal_rank_fusion(
        other_lists, weights=other_weights
    )


@given(weighted_rankings())
def test_each_chunk_once_within_bounds_in_order(weighted: list[tuple[Ranked, float]]) -> None:
    lists, weights = zip(*weighted, strict=True)
    chunks = {chunk for ranking in lists for chunk, _ in ranking}
    for fused, bound in [
        (weighted_fusion(lists, weights), math.fsum(weights)),
        (reciprocal_rank_fusion(lists, weights=weights), math.fsum(w / 61 for w in weights)),
    ]:
        assert sorted(chunk for chunk, _ in fused) == sorted(chunks)
        assert all(0 <= score <= bound * (1 + 1e-12) for _, score in fused)
        assert all((-a[1], a[0]) < (-b[1], b[0]) for a, b in pairwise(fused))


@given(rankings)
def test_a_chunk_that_no_list_puts_lower_is_fused_no_lower(lists: list[Ranked]) -> None:
    for fuse in (reciprocal_rank_fusion, lambda r: weighted_fusion(r, [1.0] * len(r))):
        fused = dict(fuse(lists))
        found = [dict(ranking) for ranking in lists]
        for better in fused:
            for worse in fused:
                ahead = all(
                    worse not in scored or (better in scored and scored[better] > scored[worse])
                    for scored in found
                )
                if ahead:
                    assert fused[better] >= fused[worse]


@given(rankings, scores.filter(lambda s: abs(s) > 1e-3))
def test_reciprocal_rank_looks_at_ranks_alone(lists: list[Ranked], shift: float) -> None:
    shifted = [[(chunk, score + shift) for chunk, score in ranking] for ranking in lists]
    assert reciprocal_rank_fusion(lists) == reciprocal_rank_fusion(shifted)
