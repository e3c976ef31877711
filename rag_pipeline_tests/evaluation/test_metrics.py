import math

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, Success, nDCG

from rag_pipeline import GoldSpan
from rag_pipeline.evaluation.metrics import (
    CharacterCounts,
    answer_presence,
    average_precision,
    count_characters,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
    union_length,
)

HAND = [True, False, True, False, False]  # of 4 relevant chunks, two are retrieved: at 1 and 3


def test_label_metrics_by_hand():
    assert [precision(HAND, k) for k in (1, 3, 10)] == [1.0, 2 / 3, 2 / 10]
    assert [recall(HAND, 4, k) for k in (1, 3, 20)] == [0.25, 0.5, 0.5]
    assert average_precision(HAND, 4) == pytest.approx((1 / 1 + 2 / 3) / 4)
    gain = 1 + 1 / 2  # log2(2) and log2(4)
    highest = 1 + 1 / math.log2(3) + 1 / 2 + 1 / math.log2(5)
    assert ndcg(HAND, 4, 10) == pytest.approx(gain / highest)
    assert ndcg(HAND, 4, 1) == 1.0
    assert reciprocal_rank(HAND, 10) == 1.0
    assert [reciprocal_rank([False, False, False, True], k) for k in (10, 3)] == [0.25, 0.0]
    late = [False, False, True, False]
    assert [answer_presence(late, k) for k in (1, 2, 3, 4, 20)] == [0.0, 0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(("labels", "relevant"), [([False, False], 0), ([], 3)])
def test_without_relevant_or_retrieved_chunks_all_metrics_are_zero(labels, relevant):
    assert recall(labels, relevant, 5) == ndcg(labels, relevant, 10) == 0.0
    assert average_precision(labels, relevant) == precision(labels, 5) == 0.0
    assert reciprocal_rank(labels, 10) == answer_presence(labels, 5) == 0.0


runs = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 15)),
    min_size=1,
    max_size=8,
)


@given(runs)
def test_label_metrics_agree_with_ir_measures(run):
    """Scores fall strictly, so that trec_eval breaks no tie by chunk id."""
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
            "nDCG@10": ndcg(labels, relevant, 10),
            "RR@10": reciprocal_rank(labels, 10),
            "AP": average_precision(labels, relevant),
        }
        for k in cutoffs:
            ours[f"P@{k}"] = precision(labels, k)
            ours[f"R@{k}"] = recall(labels, relevant, k)
            ours[f"Success@{k}"] = answer_presence(labels, k)
        assert ours == pytest.approx({name: theirs[q, name] for name in ours})


def span(start, end, document_id="d"):
    return GoldSpan(document_id, start, end)


spans = st.lists(
    st.builds(
        lambda d, start, length: span(start, start + length, d),
        st.sampled_from("ab"),
        st.integers(0, 30),
        st.integers(0, 15),
    ),
    max_size=8,
)


def characters(some):
    return {(s.document_id, i) for s in some for i in range(s.start, s.end)}


def test_characters_by_hand():
    gold = [span(10, 30), span(20, 40), span(0, 10, "e")]  # 30 + 10 characters
    ranked = [span(0, 25), span(20, 45), span(5, 15, "e"), span(0, 100, "f")]

    first = count_characters(ranked, gold, 1)
    assert first == CharacterCounts(gold=40, retrieved=25, found=15)
    assert (first.recall, first.precision, first.iou) == (15 / 40, 15 / 25, 15 / 50)

    # 20..25 is retrieved twice: twice in `retrieved`, once in `found`.
    second = count_characters(ranked, gold, 2)
    assert second == CharacterCounts(gold=40, retrieved=50, found=30)
    assert (second.recall, second.precision, second.iou) == (30 / 40, 30 / 50, 30 / 60)
    assert count_characters(ranked, gold, 20) == CharacterCounts(gold=40, retrieved=160, found=35)


def test_a_share_of_nothing_is_none():
    nothing_retrieved = count_characters([], [span(0, 10)], 5)
    assert (nothing_retrieved.recall, nothing_retrieved.iou) == (0.0, 0.0)
    assert nothing_retrieved.precision is None
    no_gold = count_characters([span(0, 10)], [span(3, 3)], 5)
    assert (no_gold.precision, no_gold.iou, no_gold.recall) == (0.0, 0.0, None)
    assert count_characters([], [], 5).iou is None


@given(spans, spans, st.integers(1, 10))
def test_counts_equal_those_over_sets_of_characters(ranked, gold, k):
    counts = count_characters(ranked, gold, k)
    assert union_length(gold) == counts.gold == len(characters(gold))
    assert counts.retrieved == sum(s.end - s.start for s in ranked[:k])
    assert counts.found == len(characters(gold) & characters(ranked[:k]))
