import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline import GoldSpan
from rag_pipeline.evaluation.spans import CharacterCounts, count_characters, union_length


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


def test_by_hand():
    gold = [span(10, 30), span(20, 40), span(0, 10, "e")]  # 30 + 10 characters
    ranked = [span(0, 25), span(20, 45), span(5, 15, "e"), span(0, 100, "f")]

    first = count_characters(ranked, gold, 1)
    assert first == CharacterCounts(gold=40, retrieved=25, found=15)
    assert (first.recall, first.precision, first.iou) == (15 / 40, 15 / 25, 15 / 50)

    # 20..25 is retrieved twice: twice in `retrieved`, once in `found`.
    second = count_characters(ranked, gold, 2)
    assert second == CharacterCounts(gold=40, retrieved=50, found=30)
    assert (second.recall, second.precision, second.iou) == (30 / 40, 30 / 50, 30 / 60)

    assert count_characters(ranked, gold, 3) == CharacterCounts(gold=40, retrieved=60, found=35)
    assert count_characters(ranked, gold, 20) == CharacterCounts(gold=40, retrieved=160, found=35)


def test_exactly_the_gold():
    counts = count_characters([span(10, 30)], [span(10, 30)], 1)
    assert (counts.recall, counts.precision, counts.iou) == (1.0, 1.0, 1.0)


def test_repeated_text_costs_precision_but_not_recall():
    gold = [span(0, 10)]
    counts = count_characters([span(0, 10), span(0, 10)], gold, 2)
    assert (counts.recall, counts.precision, counts.iou) == (1.0, 0.5, 0.5)


def test_a_share_of_nothing_is_none():
    nothing_retrieved = count_characters([], [span(0, 10)], 5)
    assert (nothing_retrieved.recall, nothing_retrieved.iou) == (0.0, 0.0)
    assert nothing_retrieved.precision is None
    no_gold = count_characters([span(0, 10)], [span(3, 3)], 5)
    assert (no_gold.precision, no_gold.iou) == (0.0, 0.0)
    assert no_gold.recall is None
    assert count_characters([], [], 5).iou is None


@given(spans)
def test_union_length_counts_each_character_once(some):
    assert union_length(some) == len(characters(some))


@given(spans, spans, st.integers(1, 10))
def test_counts_equal_those_over_sets_of_characters(ranked, gold, k):
    counts = count_characters(ranked, gold, k)
    assert counts.gold == len(characters(gold))
    assert counts.retrieved == sum(s.end - s.start for s in ranked[:k])
    assert counts.found == len(characters(gold) & characters(ranked[:k]))


@given(spans, spans, st.integers(1, 10), st.randoms(use_true_random=False))
def test_order_within_the_cutoff_and_order_of_gold_do_not_matter(ranked, gold, k, random):
    top, shuffled_gold = ranked[:k], list(gold)
    random.shuffle(top)
    random.shuffle(shuffled_gold)
    assert count_characters(top, shuffled_gold, k) == count_characters(ranked, gold, k)


@given(spans, spans, st.integers(1, 10))
def test_laws(ranked, gold, k):
    counts, more = (count_characters(ranked, gold, cutoff) for cutoff in (k, k + 1))
    shares = [s for s in (counts.recall, counts.precision, counts.iou) if s is not None]
    assert all(0 <= share <= 1 for share in shares)
    if counts.recall is not None:
        assert counts.recall <= more.recall
        assert counts.iou <= counts.recall
    if counts.precision is not None:
        assert counts.iou <= counts.precision


@pytest.mark.parametrize("gold", [[span(0, 20)], [span(0, 12), span(8, 20)], [span(0, 20)] * 3])
def test_cutting_the_gold_differently_changes_nothing(gold):
    assert count_characters([span(5, 25)], gold, 1) == CharacterCounts(20, 20, 15)
