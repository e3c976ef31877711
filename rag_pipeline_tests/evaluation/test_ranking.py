import math

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, Success, nDCG

from rag_pipeline.evaluation import ranking
from rag_pipeline.evaluation.answer_presence import answer_presence

HAND = [True, False, True, False, False]  # of 4 relevant chunks, two are retrieved: at 1 and 3


def test_by_hand():
    assert ranking.precision(HAND, 1) == 1.0
    assert ranking.precision(HAND, 3) == pytest.approx(2 / 3)
    assert ranking.precision(HAND, 10) == pytest.approx(2 / 10)  # though only 5 are retrieved
    assert ranking.recall(HAND, 4, 1) == 0.25
    assert ranking.recall(HAND, 4, 3) == 0.5
    assert ranking.recall(HAND, 4, 20) == 0.5
    assert ranking.average_precision(HAND, 4) == pytest.approx((1 / 1 + 2 / 3) / 4)
    gain = 1 + 1 / 2  # log2(2) and log2(4)
    assert ranking.ndcg(HAND, 4, 10) == pytest.approx(
        gain / (1 + 1 / math.log2(3) + 1 / 2 + 1 / math.log2(5))
    )
    assert ranking.ndcg(HAND, 4, 1) == 1.0
    assert ranking.reciprocal_rank(HAND, 10) == 1.0
    assert ranking.reciprocal_rank([False, False, False, True], 10) == 0.25
    assert ranking.reciprocal_rank([False, False, False, True], 3) == 0.0


@pytest.mark.parametrize(("labels", "relevant"), [([False, False], 0), ([], 3)])
def test_where_nothing_can_be_found_or_is_retrieved_all_is_zero(labels, relevant):
    assert ranking.recall(labels, relevant, 5) == 0.0
    assert ranking.ndcg(labels, relevant, 10) == 0.0
    assert ranking.average_precision(labels, relevant) == 0.0
    assert ranking.precision(labels, 5) == 0.0
    assert ranking.reciprocal_rank(labels, 10) == 0.0


runs = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 15)),
    min_size=1,
    max_size=8,
)


@given(runs)
def test_agrees_with_ir_measures(run):
    """Scores fall strictly, so that no tie is left for trec_eval to break by chunk id."""
    run = [(labels, missed if any(labels) else missed + 1) for labels, missed in run]
    qrels = {
        str(q): {f"{i}": 1 for i, label in enumerate(labels) if label}
        | {f"missed{i}": 1 for i in range(missed)}
        for q, (labels, missed) in enumerate(run)
    }
    scores = {
        str(q): {f"{i}": float(len(labels) - i) for i in range(len(labels))}
        for q, (labels, _) in enumerate(run)
    }
    cutoffs = (1, 3, 5, 10, 20)
    measures = [m @ k for m in (P, R, Success) for k in cutoffs] + [nDCG @ 10, RR @ 10, AP]
    theirs = {
        (int(m.query_id), str(m.measure)): m.value
        for m in ir_measures.iter_calc(measures, qrels, scores)
    }
    for q, (labels, missed) in enumerate(run):
        relevant = sum(labels) + missed
        ours = {
            "nDCG@10": ranking.ndcg(labels, relevant, 10),
            "RR@10": ranking.reciprocal_rank(labels, 10),
            "AP": ranking.average_precision(labels, relevant),
        }
        for k in cutoffs:
            ours[f"P@{k}"] = ranking.precision(labels, k)
            ours[f"R@{k}"] = ranking.recall(labels, relevant, k)
            ours[f"Success@{k}"] = answer_presence(labels, k)
        assert ours == pytest.approx({name: theirs[q, name] for name in ours})


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 10), st.integers(1, 25))
def test_laws(labels, missed, k):
    relevant = sum(labels) + missed
    shares = (
        ranking.recall(labels, relevant, k),
        ranking.ndcg(labels, relevant, k),
        ranking.average_precision(labels, relevant),
    )
    if relevant == 0:
        assert shares == (0.0, 0.0, 0.0)
        return
    assert all(0 <= share <= 1 + 1e-12 for share in shares)
    assert shares[0] <= ranking.recall(labels, relevant, k + 1)
    best = sorted(labels, reverse=True)
    assert ranking.ndcg(labels, relevant, k) <= ranking.ndcg(best, relevant, k) + 1e-12
    assert ranking.average_precision(labels, relevant) <= sum(labels) / relevant + 1e-12
    assert ranking.reciprocal_rank(labels, k) >= ranking.precision(labels, k) / k
