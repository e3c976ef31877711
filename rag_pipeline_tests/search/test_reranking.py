import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.config.models import Tokens
from rag_pipeline.corpus import Corpus
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.search.reranking.late_interaction import maxsim, token_weights
from rag_pipeline_tests.testing.corpora import QUERIES, rule, write_corpus

DIMENSION = 16


def ids_column(chunks):
    return pa.array([np.array(ids, np.uint32).tobytes() for ids in chunks], pa.binary())


def signs(vectors):
    return np.packbits(np.asarray(vectors) > 0, axis=1).tobytes()


def tokens(seed, count):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Tokens(np.arange(count, dtype=np.uint32), vectors)


def by_definition(query, chunk, weights):
    if not len(chunk) or not len(query.ids):
        return 0.0
    cosines = query.vectors @ (np.where(chunk > 0, 1, -1) / np.sqrt(DIMENSION)).T
    windows = [cosines[:, at : at + 48] for at in range(0, cosines.shape[1], 24)]
    whole, *parts = (
        float(np.average(part.max(axis=1), weights=weights[query.ids]))
        for part in (cosines, *windows)
    )
    return (whole + max(parts)) / 2


@pytest.mark.parametrize("batches", [1, 2])
def test_a_token_weighs_by_the_chunks_that_hold_it(batches):
    column = ids_column([[1, 2], [2], [2, 5], []])
    parts = [column] if batches == 1 else [column[:3], column[3:]]
    weights = token_weights(parts)
    # 4 chunks: ln(1 + (4 - n + 0.5) / (n + 0.5)) for n = 0, 1 and 3
    none, one, three = np.log(1 + 4.5 / 0.5), np.log(1 + 3.5 / 1.5), np.log(1 + 1.5 / 3.5)
    expected = [none, one, three, none, none, one, none]
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 99), min_size=1, max_size=30),
    words=st.integers(0, 5),
    skipped=st.integers(0, 3),
)
def test_it_is_the_mean_of_the_whole_chunk_and_of_its_best_window(lengths, words, skipped):
    query = tokens(0, words)
    weights = np.linspace(0.5, 2.0, 6, dtype=np.float32)
    chunks = [tokens(1 + n, length).vectors for n, length in enumerate(lengths)]
    column = pa.array([signs(chunk) for chunk in chunks], pa.binary())[skipped:]
    exact = [by_definition(query, chunk, weights) for chunk in chunks[skipped:]]
    most = np.abs(query.vectors).max(axis=1, keepdims=True)
    rounded = Tokens(query.ids, np.rint(query.vectors / most * 127) * most / 127)
    expected = [by_definition(rounded, chunk, weights) for chunk in chunks[skipped:]]
    scores = maxsim(query, column, weights)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    np.testing.assert_allclose(scores, exact, atol=0.02)


def test_a_chunk_of_the_same_signs_is_nearest_and_more_tokens_never_score_less():
    query = tokens(3, 4)
    weights = np.ones(5, np.float32)
    other = tokens(4, 7).vectors
    column = pa.array(
        [signs(query.vectors), signs(other), signs(np.vstack([other, query.vectors[:2]]))],
        pa.binary(),
    )
    same, apart, between = maxsim(query, column, weights)
    assert same >= between >= apart


def test_tokens_that_were_never_seen_weigh_most():
    weights = token_weights([ids_column([[0], [0]])])
    query = Tokens(np.array([0, 4_000_000], np.uint32), tokens(0, 2).vectors)
    column = pa.array([signs(query.vectors[:1]), signs(query.vectors[1:])], pa.binary())
    known, unknown = maxsim(query, column, weights)
    assert unknown > known


def test_the_release_is_searched_as_it_was_evaluated(tmp_path, run_all):
    file = write_corpus(
        tmp_path,
        chunkings={"sentences": {"method": "sentences", "max_characters": 150}},
        embeddings={"minilm": {"provider": "minilm", "token_vectors": True}},
        retrievers={
            "discovering": {
                "method": "hybrid",
                "document_weight": 2.0,
                "split_query": True,
                "k": 10,
            }
        },
        rerankers={"late": {"method": "maxsim"}},
        configurations=[
            rule("default", chunking="sentences", retriever="discovering", reranker="late")
        ],
    )
    run_all(file)
    corpus = Corpus.load(file)
    evaluated = RUN.rows(corpus.workspace, "default")
    for query_id, query, *_ in QUERIES:
        found = corpus.search(query, k=5)
        expected = [row for row in evaluated if row["query_id"] == query_id][:5]
        assert [c.chunk_id for c in found] == [row["chunk_id"] for row in expected]
        assert [c.score for c in found] == pytest.approx([row["score"] for row in expected])
    [best] = corpus.search("Leave policy of Acme Rockets; when is a note needed?", k=1)
    assert best.document_id == "policy/leave.md"
