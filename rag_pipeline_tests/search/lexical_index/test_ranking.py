"""Scores, order and allowed rows of a search."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_pipeline.config import Lexical
from rag_pipeline.search.lexical_index import LexicalIndex
from rag_pipeline.search.tokenization import Tokenizer
from rag_pipeline_tests.testing.lexical_indexes import (
    ENGINES,
    PLAIN,
    built,
    rows_of,
    zipf_queries,
    zipf_texts,
)


def reference(texts: Sequence[str], query: str, options: Lexical) -> dict[int, float]:
    """Score with rank_bm25 and Lucene's idf, its constant factor k1 + 1 divided out."""
    tokenizer = Tokenizer(options)
    chunks = [tokenizer.tokenize(text) for text in texts]
    model = BM25Okapi(chunks, k1=options.k1, b=options.b)
    for term, n in Counter(term for chunk in chunks for term in set(chunk)).items():
        model.idf[term] = np.log(1 + (len(chunks) - n + 0.5) / (n + 0.5))
    scores = model.get_scores(tokenizer.tokenize(query)) / (options.k1 + 1)
    return {row: score for row, score in enumerate(scores.tolist()) if score > 0}


@pytest.fixture(scope="module", params=ENGINES)
def zipf_index(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> LexicalIndex:
    folder = tmp_path_factory.mktemp("zipf") / request.param
    return built(request.param, rows_of(zipf_texts(2500, seed=1)), folder)


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_worked_by_hand(engine: str, tmp_path: Path) -> None:
    # 2, 4 and 3 terms: avgdl = 3, so with k1 = 1.2 and b = 0.75 the denominators add 0.9, 1.5, 1.2
    # to tf. idf of cat and dog (2 of 3): ln(1 + 1.5 / 2.5); of bird (1 of 3): ln(1 + 2.5 / 1.5)
    rows = [("a#1", "cat sat", None), ("a#2", "cat cat dog", "bird"), ("b#1", "dog ran far", None)]
    index = built(engine, rows, tmp_path / "index")
    cat = dog = 0.4700036
    bird = 0.9808293
    assert index.search("cat", 5) == [
        ("a#2", pytest.approx(cat * 2 / 3.5)),
        ("a#1", pytest.approx(cat * 1 / 1.9)),
    ]
    assert index.search("bird dog", 5) == [
        ("a#2", pytest.approx((bird + dog) / 2.5)),
        ("b#1", pytest.approx(dog / 2.2)),
    ]
    assert index.search("dog dog", 1) == [("b#1", pytest.approx(2 * dog / 2.2))]


@pytest.mark.parametrize("engine", ["bm25s", "rank_bm25"])
def test_a_term_of_the_text_counts_as_several_of_the_context(engine: str, tmp_path: Path) -> None:
    # in terms counted twice in the text, tf is 2 or 1, every dl the average of 3, k1 = 2 * 1.2;
    # idf of both (2 of 2): ln(1 + 0.5 / 2.5)
    rows = [("a#1", "cat", "dog"), ("b#1", "dog", "cat")]
    index = built(engine, rows, tmp_path / "index", Lexical(language="none", text_weight=2))
    assert index.search("cat", 5) == [
        ("a#1", pytest.approx(0.1823216 * 2 / 4.4)),
        ("b#1", pytest.approx(0.1823216 * 1 / 3.4)),
    ]


def test_without_contexts_the_weight_of_the_text_changes_nothing(tmp_path: Path) -> None:
    rows = rows_of(zipf_texts(200, seed=4))
    once = built("bm25s", rows, tmp_path / "once")
    thrice = built("bm25s", rows, tmp_path / "thrice", Lexical(language="none", text_weight=3))
    for query in zipf_queries(5, seed=5):
        expected = dict(once.search(query, 200))
        assert dict(thrice.search(query, 200)) == pytest.approx(expected, rel=1e-5)


@settings(max_examples=40)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12).map(" ".join), max_size=9),
    query=st.lists(st.sampled_from("abcdefgz"), max_size=4).map(" ".join),
    k1=st.sampled_from([0.4, 0.9, 1.2, 2.0]),
    b=st.sampled_from([0.0, 0.4, 0.75, 1.0]),
)
def test_bm25s_ranks_as_rank_bm25(texts: list[str], query: str, k1: float, b: float) -> None:
    options = Lexical(language="none", k1=k1, b=b)
    rows = rows_of(texts)
    with TemporaryDirectory() as folder:
        found = built("bm25s", rows, Path(folder) / "bm25s", options).search(query, 20)
        expected = built("rank_bm25", rows, Path(folder) / "rank_bm25", options).search(query, 20)
    assert dict(found) == {i: pytest.approx(score, rel=1e-5) for i, score in expected}
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)


def test_scores_are_rank_bm25s_up_to_its_constant(zipf_index: LexicalIndex) -> None:
    texts = zipf_texts(2500, seed=1)
    for query in zipf_queries(8, seed=2):
        expected = reference(texts, query, PLAIN)
        found = zipf_index.search(query, 20)
        ids = zipf_index.chunk_ids.to_pylist()
        best = sorted(expected.values(), reverse=True)[:20]
        assert [score for _, score in found] == pytest.approx(best, rel=1e-5)
        for chunk_id, score in found:
            assert score == pytest.approx(expected[ids.index(chunk_id)], rel=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.6, 1.0])
def test_allowed_is_the_unrestricted_ranking_filtered(
    zipf_index: LexicalIndex, share: float
) -> None:
    rng = random.Random(3)
    allowed = {i for i in zipf_index.chunk_ids.to_pylist() if rng.random() < share}
    mask = np.array([i in allowed for i in zipf_index.chunk_ids.to_pylist()], np.bool_)
    for query in ["w0", *zipf_queries(6, seed=4)]:
        everything = zipf_index.search(query, len(zipf_index))
        expected = [hit for hit in everything if hit[0] in allowed][:10]
        found = zipf_index.search(query, 10, mask)
        assert [i for i, _ in found] == [i for i, _ in expected]
        assert [s for _, s in found] == pytest.approx([s for _, s in expected], rel=1e-6)


def test_the_shorter_result_is_the_head_of_the_longer(zipf_index: LexicalIndex) -> None:
    for query in zipf_queries(5, seed=5):
        everything = zipf_index.search(query, len(zipf_index) + 1)
        for k in (0, 1, 7, 300):
            assert zipf_index.search(query, k) == everything[:k]


def test_a_query_without_known_terms_finds_nothing(zipf_index: LexicalIndex) -> None:
    for query in ("", "  ", "?!", "unheard of", "'; DROP --", '"w', "\ud800"):
        assert zipf_index.search(query, 5) == []
    assert zipf_index.search("w299 unheard", 5) == zipf_index.search("w299", 5) != []


def test_rows_asked_for_besides_are_scored_as_in_the_whole_ranking(
    zipf_index: LexicalIndex,
) -> None:
    also = np.arange(3, 2500, 2)
    for query in zipf_queries(5, seed=11):
        everything = dict(zipf_index.search(query, 2500))
        found = zipf_index.search_rows(query, 4, None, also)
        ids = zipf_index.chunk_ids.take(pa.array(found.rows)).to_pylist()
        assert dict(zip(ids, found.scores, strict=True)) == pytest.approx(
            {i: everything[i] for i in ids}, rel=1e-6
        )
        wanted = {zipf_index.chunk_ids[row].as_py() for row in also.tolist()} & set(everything)
        assert set(ids) >= wanted | {i for i, _ in zipf_index.search(query, 4)}


@pytest.mark.parametrize("engine", ENGINES)
def test_ties_are_broken_by_chunk_id(engine: str, tmp_path: Path) -> None:
    ids = [f"d#{number:03}" for number in range(90)]
    random.Random(7).shuffle(ids)
    index = built(engine, [(i, "same words", None) for i in ids], tmp_path / "index")
    assert [i for i, _ in index.search("words", 5)] == sorted(ids)[:5]
    last = np.arange(90) >= 40
    assert [i for i, _ in index.search("words", 3, last)] == sorted(ids[40:])[:3]


@pytest.mark.parametrize("engine", ENGINES)
def test_results_depend_on_the_chunks_not_on_their_order(engine: str, tmp_path: Path) -> None:
    rows = rows_of(zipf_texts(300, seed=8, vocabulary=40))
    shuffled = random.Random(9).sample(rows, len(rows))
    one, other = built(engine, rows, tmp_path / "1"), built(engine, shuffled, tmp_path / "2")
    for query in ("w1", "w3 w5", "w39 w12 w0"):
        assert [i for i, _ in one.search(query, 300)] == [i for i, _ in other.search(query, 300)]
