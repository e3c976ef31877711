import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline import Chunk, GoldSpan, Query
from rag_pipeline.chunking.spans import answers
from rag_pipeline.evaluation.metrics import recall
from rag_pipeline.evaluation.relevance import (
    judge_chunks,
    relevance_labels,
    relevant_chunks,
)


def gold_span(start, end, document_id="d"):
    return GoldSpan(document_id, start, end)


@pytest.mark.parametrize(
    ("chunk", "gold", "expected"),
    [
        (gold_span(0, 100), gold_span(40, 60), True),  # gold inside the chunk
        (gold_span(40, 60), gold_span(0, 100), True),  # chunk inside the gold
        (gold_span(0, 100), gold_span(90, 110), True),  # 10 of the gold's 20: exactly half
        (gold_span(0, 100), gold_span(91, 111), False),  # 9 of 20
        (gold_span(90, 110), gold_span(0, 100), True),  # 10 of the chunk's 20
        (gold_span(0, 10), gold_span(5, 16), True),  # 5 of the chunk's 10
        (gold_span(0, 11), gold_span(6, 17), False),  # 5 of 11: half is 5.5
        (gold_span(0, 10), gold_span(10, 20), False),  # they touch
        (gold_span(0, 10), gold_span(20, 30), False),
        (gold_span(0, 10, "a"), gold_span(0, 10, "b"), False),
        (gold_span(5, 5), gold_span(0, 10), False),
        (gold_span(0, 10), gold_span(5, 5), False),
        (gold_span(5, 5), gold_span(5, 5), False),
    ],
)
def test_half_of_the_shorter_one_answers(chunk, gold, expected):
    assert answers(chunk, gold) is expected


one_span = st.builds(
    lambda d, start, length: gold_span(start, start + length, d),
    st.sampled_from("ab"),
    st.integers(0, 30),
    st.integers(0, 15),
)


@given(one_span, one_span)
def test_answering_is_symmetric(one, other):
    assert answers(one, other) == answers(other, one)


def test_labels_follow_the_ranking_and_any_gold_span_counts():
    ranked = [
        Chunk("a", 0, 10, "x" * 10),
        Chunk("b", 0, 10, "x" * 10),
        Chunk("a", 10, 20, "x" * 10),
        Chunk("c", 0, 10, "x" * 10),
    ]
    gold = [gold_span(12, 14, "a"), gold_span(0, 3, "b")]
    assert relevance_labels(ranked, gold) == [False, True, True, False]
    assert relevance_labels(ranked, []) == [False] * 4
    assert relevance_labels([], gold) == []


def table(chunks):
    return pa.table(
        {
            "chunk_id": pa.array([c.chunk_id for c in chunks], pa.string()),
            "document_id": pa.array([c.document_id for c in chunks], pa.string()),
            "start": pa.array([c.start for c in chunks], pa.int64()),
            "end": pa.array([c.end for c in chunks], pa.int64()),
        }
    )


def query(query_id, *gold_spans):
    return Query(query_id, "?", tuple(GoldSpan(*span) for span in gold_spans))


CHUNKS = [
    Chunk("a", 0, 10, ""),
    Chunk("a", 10, 20, ""),
    Chunk("a", 20, 30, ""),
    Chunk("b", 0, 10, ""),
    Chunk("c", 0, 10, ""),
]


def test_gold_that_no_chunk_answers_is_lost():
    queries = [
        query("cut_up", ("a", 0, 30), ("b", 0, 3)),
        query("gone", ("z", 0, 10), ("z", 0, 10), ("b", 0, 3)),
        query("none"),
    ]
    pieces = [Chunk("a", n, n + 40, "") for n in (-29, 21)]  # 11 and 9 of the 30 characters
    found = judge_chunks(queries, table([*pieces, Chunk("b", 0, 10, "")]))
    assert found["cut_up"] == ({"b#0-10"}, 1)
    assert found["gone"] == ({"b#0-10"}, 1)
    assert found["none"] == (frozenset(), 0)


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_batches_and_readers_give_the_same_as_a_table(rows):
    queries = [query("q", ("a", 8, 22), ("c", 0, 5))]
    whole = table(CHUNKS)
    expected = {"q": {"a#10-20", "c#0-10"}}  # of a#0-10 and a#20-30 just 2 of 10
    batches = whole.to_batches(max_chunksize=rows)
    assert relevant_chunks(queries, whole) == expected
    assert relevant_chunks(queries, iter(batches)) == expected
    reader = pa.RecordBatchReader.from_batches(whole.schema, batches)
    assert relevant_chunks(queries, reader) == expected


triples = st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.integers(0, 20)).map(
    lambda t: (t[0], t[1], t[1] + t[2])
)


@given(
    st.lists(triples, max_size=20, unique=True),
    st.lists(st.lists(triples, max_size=4), max_size=5),
    st.integers(1, 7),
)
def test_equals_judging_every_pair(spans, golds, rows):
    """Chunks overlap, nest, repeat lengths and come in any order."""
    chunks = [Chunk(document, start, end, "") for document, start, end in spans]
    queries = [query(f"q{i}", *gold) for i, gold in enumerate(golds)]
    assert relevant_chunks(queries, table(chunks).to_batches(max_chunksize=rows)) == {
        q.query_id: {c.chunk_id for c in chunks if any(answers(c, g) for g in q.gold_spans)}
        for q in queries
    }


@given(st.data())
def test_over_given_chunks_recall_is_the_share_of_golden_chunks_in_the_first_k(data):
    """Anthropic's Pass@k: chunks that don't overlap, some of them the golden ones of a query."""
    chunks, start = [], 0
    for length in data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=30)):
        chunks.append(Chunk("d", start, start + length, ""))
        start += length
    golden = data.draw(st.sets(st.sampled_from(chunks), min_size=1, max_size=5))
    ranked = data.draw(st.permutations(chunks))
    q = query("q", *((c.document_id, c.start, c.end) for c in golden))
    relevant = relevant_chunks([q], table(chunks))["q"]
    assert relevant == {c.chunk_id for c in golden}
    labels = [c.chunk_id in relevant for c in ranked]
    for k in (5, 10, 20):
        assert recall(labels, len(relevant), k) == len(golden & set(ranked[:k])) / len(golden)
