import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline import Chunk, GoldSpan
from rag_pipeline.evaluation import answers, relevance_labels
from rag_pipeline.evaluation.answer_presence import answer_presence


def span(start, end, document_id="d"):
    return GoldSpan(document_id, start, end)


spans = st.builds(
    lambda d, start, length: span(start, start + length, d),
    st.sampled_from("ab"),
    st.integers(0, 30),
    st.integers(0, 15),
)


@pytest.mark.parametrize(
    ("chunk", "gold", "expected"),
    [
        (span(0, 100), span(40, 60), True),  # gold inside the chunk
        (span(40, 60), span(0, 100), True),  # chunk inside the gold
        (span(0, 100), span(90, 110), True),  # 10 of the gold's 20: exactly half
        (span(0, 100), span(91, 111), False),  # 9 of 20
        (span(90, 110), span(0, 100), True),  # 10 of the chunk's 20
        (span(0, 10), span(5, 16), True),  # 5 of the chunk's 10
        (span(0, 11), span(6, 17), False),  # 5 of 11: half is 5.5
        (span(0, 10), span(10, 20), False),  # they touch
        (span(0, 10), span(20, 30), False),
        (span(0, 10, "a"), span(0, 10, "b"), False),
        (span(5, 5), span(0, 10), False),
        (span(0, 10), span(5, 5), False),
        (span(5, 5), span(5, 5), False),
    ],
)
def test_half_of_the_shorter_one_answers(chunk, gold, expected):
    assert answers(chunk, gold) is expected


@given(spans, spans)
def test_answering_is_symmetric(one, other):
    assert answers(one, other) == answers(other, one)


@given(spans)
def test_a_span_answers_itself_unless_it_is_empty(one):
    assert answers(one, one) == (one.end > one.start)


def test_labels_follow_the_ranking_and_any_gold_span_counts():
    ranked = [
        Chunk("a", 0, 10, "x" * 10),
        Chunk("b", 0, 10, "x" * 10),
        Chunk("a", 10, 20, "x" * 10),
        Chunk("c", 0, 10, "x" * 10),
    ]
    gold = [span(12, 14, "a"), span(0, 3, "b")]
    assert relevance_labels(ranked, gold) == [False, True, True, False]
    assert relevance_labels(ranked, []) == [False] * 4
    assert relevance_labels([], gold) == []


def test_answer_presence_by_hand():
    labels = [False, False, True, False]
    assert [answer_presence(labels, k) for k in (1, 2, 3, 4, 20)] == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert answer_presence([], 5) == 0.0


@given(st.lists(st.booleans()), st.integers(1, 25))
def test_answer_presence_never_falls_with_k(labels, k):
    assert answer_presence(labels, k) <= answer_presence(labels, k + 1)
