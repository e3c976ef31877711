import math
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from rag_pipeline.config.models import Tokens
from rag_pipeline.datamodels import SearchRequest
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.search import index as opened
from rag_pipeline.search.index import Index
from rag_pipeline.search.query_analysis import whole
from rag_pipeline.search.ranking import weighted_gains
from rag_pipeline.search.reranking.late_interaction import MaxSimReranker, maxsim
from rag_pipeline.search.retrieval import Searcher, parse_query
from rag_pipeline.search.retrievers import Search, SinglePassRetriever
from rag_pipeline.search.retrievers import hybrid as hybrid_code
from rag_pipeline.search.tokenization import default_tokenizer
from rag_pipeline_tests.testing.search_index import (
    ALL,
    DISCOVER,
    IDS,
    MAXSIM,
    NO,
    QUERY,
    VECTOR,
    VECTORS,
    embed,
    hybrid,
    index_of,
    random_chunks,
    signs_of,
    vector_of,
)


def search(index, settings, query=QUERY, reranker=NO, embed=embed, **request):
    searcher = Searcher(index=index, retriever=settings, reranker=reranker, embed=embed)
    return searcher.search(SearchRequest(query=query, **request)).chunks


def hits(index, settings, query=QUERY, where=None, reranker=NO):
    found = search(index, settings, query, reranker, where=where)
    return [(c.chunk_id, c.score) for c in found]


def test_vectors_rank_by_cosine_and_terms_by_bm25(index, rows):
    cosines = {row["chunk_id"]: float(vector_of(row["chunk_id"]) @ VECTOR) for row in rows}
    found = hits(index, ALL[0])
    assert [i for i, _ in found] == sorted(cosines, key=lambda i: -cosines[i])
    assert dict(found) == pytest.approx(cosines, abs=1e-5)
    assert hits(index, ALL[1]) == index.terms.lexical.search(QUERY, 100)


def met(rows, bm25, query=QUERY):
    """Return how far the best chunk meets the query's words, 1 from a quarter of their idf on."""
    held = [set(default_tokenizer().tokenize(f"{row['context']} {row['text']}")) for row in rows]
    holding = [sum(t in terms for terms in held) for t in set(default_tokenizer().tokenize(query))]
    ideal = sum(math.log(1 + (len(rows) - n + 0.5) / (n + 0.5)) for n in holding)
    return min(1.0, max(bm25.values()) / (0.25 * ideal))


def weighted_sum(scores, weights):
    """Return each chunk's sum of `weight * score`, scores scaled to 0..1, best first."""
    parts = [dict(weighted_gains([*s.items()], w)) for s, w in zip(scores, weights, strict=True)]
    sums = [(i, sum(part[i] for part in parts)) for i in parts[0]]
    return sorted(sums, key=lambda hit: (-hit[1], hit[0]))


def test_every_candidate_is_scored_by_both_searches(index, rows):
    cosines = {row["chunk_id"]: float(vector_of(row["chunk_id"]) @ VECTOR) for row in rows}
    bm25 = dict.fromkeys(cosines, 0.0) | dict(index.terms.lexical.search(QUERY, 100))
    weights = [0.6, 0.4 * met(rows, bm25)]
    expected = weighted_sum([cosines, bm25], weights)
    assert dict(hits(index, hybrid())) == pytest.approx(dict(expected), abs=1e-5)
    few = hits(index, hybrid(candidates=10, k=10))
    near = {i for i, _ in hits(index, ALL[0])[:10]} | {i for i, _ in hits(index, ALL[1])[:10]}
    expected = weighted_sum([{i: one[i] for i in near} for one in (cosines, bm25)], weights)
    assert few == [(i, pytest.approx(s, abs=1e-5)) for i, s in expected[:10]]


def test_bm25_counts_little_where_the_words_are_hardly_met(index, rows):
    query = "w1 " + " ".join(f"unheard{n} strange{n}" for n in range(12))
    bm25 = dict(index.terms.lexical.search(query, 100))
    share = met(rows, bm25, query)
    assert 0 < share < 0.3
    found = dict(hits(index, hybrid(dense_weight=0.0, lexical_weight=1.0), query))
    assert max(found.values()) == pytest.approx(share, abs=1e-5)
    # without any of the words the order is that of the vectors
    unheard = hits(index, hybrid(), "unheard strange")
    assert [i for i, _ in unheard] == [i for i, _ in hits(index, ALL[0])][: len(unheard)]


def test_a_documents_score_is_added_and_loses_no_chunk(index):
    plain, discovering = dict(hits(index, hybrid())), dict(hits(index, hybrid(document_weight=4)))
    assert set(discovering) == set(plain)
    scores = index.terms.documents.scores(QUERY)
    of_document = dict(zip(index.terms.documents.document_ids.to_pylist(), scores, strict=True))
    for chunk_id, score in plain.items():
        added = 4 * 0.25 * of_document[chunk_id.partition("#")[0]]
        assert discovering[chunk_id] == pytest.approx(score + added, abs=1e-5)


@pytest.mark.parametrize("where", [None, "start < 3"], ids=["all", "some filtered out"])
@pytest.mark.parametrize("settings", [{}, DISCOVER], ids=["plain", "documents"])
def test_a_share_of_the_neighbours_mean_is_added(index, rows, settings, where):
    every = {row["chunk_id"] for row in rows}
    alone = dict(hits(index, hybrid(**settings), where=where))
    found = dict(hits(index, hybrid(**settings, neighbour_weight=0.5), where=where))
    assert set(found) == set(alone)
    for chunk_id, score in found.items():
        document, _, span = chunk_id.partition("#")
        start = int(span.partition("-")[0])
        beside = {f"{document}#{n}-{n + 1}" for n in (start - 1, start + 1)} & every
        mean = sum(alone.get(other, 0) for other in beside) / len(beside)
        assert score == pytest.approx(alone[chunk_id] + 0.5 * mean, abs=1e-5)


def test_the_named_documents_chunks_are_candidates_and_lead(index):
    found = hits(index, hybrid(**DISCOVER, candidates=1, k=12), "name3; w1 w2")
    assert {i.partition("#")[0] for i, _ in found[:6]} == {"name3.txt"}


def test_the_question_is_searched_without_the_name(index):
    settings = hybrid(**DISCOVER)
    question = parse_query(index, "name3; w1 w2", settings)
    assert (question.name, question.search_text) == ("name3", "w1 w2")
    assert parse_query(index, "name3; w1 w2", hybrid()) == whole("name3; w1 w2")
    chunks_alone = dict(hits(index, hybrid(), "w1 w2"))
    named = question.named
    assert named is not None
    assert (named.certainty, named.shares.tolist()) == (1, [1])
    bonus = 2.0 * hybrid_code._NAMED_SHARE
    for chunk_id, score in hits(index, settings, "name3; w1 w2"):
        added = bonus if chunk_id.startswith("name3.txt") else 0
        assert score == pytest.approx(chunks_alone[chunk_id] + added, abs=1e-5)


def test_large_leading_documents_are_searched_by_terms_and_by_vectors(index, rows, monkeypatch):
    monkeypatch.setattr(hybrid_code, "_LEADING_CHUNKS", 2)
    own = [row["chunk_id"] for row in rows if row["document_id"] == "name3.txt"]
    nearest = sorted(own, key=lambda i: -float(vector_of(i) @ VECTOR))[:3]
    found = hits(index, hybrid(**DISCOVER, candidates=3, k=20), "name3; w1")
    assert set(nearest) <= {i for i, _ in found}


def test_what_a_filter_keeps_need_not_be_looked_up(index, monkeypatch):
    asked = (index, hybrid(**DISCOVER, k=20), "name3; w1 w2", MAXSIM)
    where = "document_id NOT IN ('name3.txt', 'name5.txt')"
    looked_up = search(*asked, where=where)
    known = index.outside(["name3.txt", "name5.txt", "none.txt"])
    monkeypatch.setattr(Index, "matching", None)
    found = search(*asked, where=where, allowed=known)
    assert found == looked_up
    assert {c.document_id for c in found}.isdisjoint({"name3.txt", "name5.txt"})


def test_tokens_that_the_search_has_read_are_not_read_again(index, monkeypatch):
    found = search(index, hybrid(k=5), reranker=MAXSIM)
    signs = index.token_signs([c.chunk_id for c in found])
    assert all(signs)
    monkeypatch.setattr(Index, "token_signs", None)
    again = search(index, hybrid(k=5), reranker=MAXSIM, tokens=True)
    assert [c.token_signs for c in again] == signs


@pytest.mark.parametrize("settings", ALL, ids=lambda s: f"{s.method}-{s.k}")
@pytest.mark.parametrize("reranker", [NO, MAXSIM], ids=lambda s: s.method)
@pytest.mark.parametrize(
    "where", ["json_get_int(metadata, 'parity') = 1", "document_id = 'name3.txt'", "start > 99"]
)
def test_a_filter_holds_and_ranks_what_it_keeps(index, rows, settings, where, reranker):
    keeps = {
        "json": lambda row: row["metadata"] == '{"parity": 1}',
        "docu": lambda row: row["document_id"] == "name3.txt",
        "star": lambda row: False,
    }[where[:4]]
    kept = {row["chunk_id"] for row in rows if keeps(row)}
    for query in (QUERY, "name3; w1 w2"):
        found = [i for i, _ in hits(index, settings, query, where, reranker)]
        assert set(found) <= kept
        unfiltered = {i for i, _ in hits(index, settings, query, None, reranker)}
        if settings.k == 100:
            assert set(found) == kept & unfiltered


@pytest.mark.parametrize("settings", ALL, ids=lambda s: f"{s.method}-{s.k}")
def test_the_order_in_which_chunks_were_stored_does_not_count(index, rows, settings, tmp_path):
    order = random.Random(5).sample(range(len(rows)), len(rows))
    shuffled = index_of(tmp_path, rows, order)
    for query in (QUERY, "name3; w1 w2"):
        expected = hits(index, settings, query, reranker=MAXSIM)
        found = hits(shuffled, settings, query, reranker=MAXSIM)
        assert [i for i, _ in found] == [i for i, _ in expected]
        assert [s for _, s in found] == pytest.approx([s for _, s in expected], abs=1e-5)


@pytest.mark.parametrize("where", [None, "json_get_int(metadata, 'parity') = 1"])
@pytest.mark.parametrize("leading", [200, 2])
def test_vectors_too_large_for_memory_are_read_and_rank_the_same(
    index, rows, tmp_path, monkeypatch, where, leading
):
    monkeypatch.setattr(hybrid_code, "_LEADING_CHUNKS", leading)
    maxsim_first = MaxSimReranker(method="maxsim", candidates=5)
    settings = hybrid(**DISCOVER, neighbour_weight=0.1, candidates=7, k=9)
    resident = hits(index, settings, where=where, reranker=maxsim_first)
    monkeypatch.setattr(opened, "RESIDENT_BYTES", 0)
    on_disk = index_of(tmp_path, rows)
    assert index.vectors is not None and on_disk.vectors is None
    read = hits(on_disk, settings, where=where, reranker=maxsim_first)
    assert [chunk_id for chunk_id, _ in read] == [chunk_id for chunk_id, _ in resident]
    assert dict(read) == pytest.approx(dict(resident), abs=1e-5)


def test_the_best_n_are_returned_best_first_with_their_rows(index, rows):
    settings = hybrid(**DISCOVER, k=4)
    assert len(hits(index, settings, reranker=MAXSIM)) == 4
    found = search(index, settings)
    assert len(found) == 4
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    texts = {row["chunk_id"]: row["text"] for row in rows}
    assert all(c.text == texts[c.chunk_id] for c in found)
    assert [c.chunk_id for c in found] == [i for i, _ in hits(index, hybrid(**DISCOVER))[:4]]
    assert found[0].metadata in ({"parity": 0}, {"parity": 1})


def test_a_documents_quota_holds_before_the_cut(index):
    every = hits(index, hybrid(k=100))
    two = hits(index, hybrid(k=10, most_per_document=2))
    documents = [i.partition("#")[0] for i, _ in every]
    first = [n for n, d in enumerate(documents) if documents[:n].count(d) < 2]
    assert two == [every[n] for n in first][:10]


@pytest.mark.parametrize("settings", ALL, ids=lambda s: f"{s.method}-{s.k}")
def test_the_reranker_mixes_both_scores_of_its_candidates_and_leaves_the_rest(
    index, rows, settings
):
    weight, few = MAXSIM.weight, settings.model_copy(update={"k": 30})
    before, after = hits(index, few), hits(index, few, reranker=MAXSIM)
    assert {i for i, _ in before} == {i for i, _ in after}
    if getattr(few, "fusion", None) != "weighted":
        before = weighted_gains(before, 1.0)
    assert [i for i, _ in after[20:]] == [i for i, _ in before[20:]]
    own = {row["chunk_id"]: signs_of(row["chunk_id"])[16:] for row in rows}
    query = Tokens(IDS, VECTORS.astype(np.float16).astype(np.float32))
    weights = index.token_weights
    late = {i: maxsim(query, pa.array([own[i]], pa.binary()), weights)[0] for i, _ in before[:20]}
    low, high = min(late.values()), max(late.values())
    scores = dict(after)
    for chunk_id, score in before[:20]:
        mixed = (1 - weight) * score + weight * (late[chunk_id] - low) / (high - low)
        assert scores[chunk_id] == pytest.approx(mixed, abs=1e-5)


def test_a_weight_of_nothing_keeps_the_order(index):
    for settings in ALL:
        nothing = MaxSimReranker(method="maxsim", weight=0.0, candidates=5)
        expected = [i for i, _ in hits(index, settings)]
        assert [i for i, _ in hits(index, settings, reranker=nothing)] == expected


def test_no_tokens_in_the_query_keep_the_order(index):
    def embed_without_tokens(texts):
        return embed(texts)._replace(tokens=[b""] * len(texts))

    found = search(index, ALL[0], reranker=MAXSIM, embed=embed_without_tokens)
    assert [c.chunk_id for c in found] == [i for i, _ in hits(index, ALL[0])]


def test_threads_search_one_index(index):
    queries = [f"name{n % 12}; w{n % 30} w{n % 7}" for n in range(40)]

    def searched(query):
        return hits(index, hybrid(**DISCOVER), query, reranker=MAXSIM)

    expected = [searched(query) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(searched, queries))
    assert found == expected


def test_indexes_of_different_builds_are_refused(index, rows, tmp_path):
    other = index_of(tmp_path, random_chunks(documents=11))
    with pytest.raises(
        StoreError, match=r"72 chunks\) and its lexical index \(66 chunks\) are from different"
    ):
        Index.open(index.table, other.terms.lexical)
    with pytest.raises(StoreError, match="no lexical index"):
        hits(Index.open(index.table, None), hybrid())
    assert len(hits(Index.open(index.table, None), ALL[0])) == len(rows)


class Given(SinglePassRetriever):
    """Returns a given ranking."""

    method: Literal["given"]
    given: tuple[tuple[int, float], ...]

    def rank(self, search, k):
        return list(self.given)


def test_a_ranking_of_a_plugin_is_cut_to_k(index):
    retriever = Given(method="given", given=((3, 0.9), (5, 0.9), (0, 0.1)), k=2)
    wanted = Search(index=index, query=whole(QUERY), vector=VECTOR)
    assert retriever.checked_ranking(wanted) == [(3, 0.9), (5, 0.9)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((3, 0.9), (3, 0.8)), "its ranking has a chunk twice"),
        (((72, 0.9),), "its ranking has a position outside the index, 0 to 71"),
        (((3, 0.8), (5, 0.9)), "higher than the score before it"),
        (((3, float("nan")),), "not finite"),
    ],
)
def test_a_ranking_that_is_none_names_its_retriever(index, given, message):
    wanted = Search(index=index, query=whole(QUERY), vector=VECTOR)
    with pytest.raises(ConfigError, match=f"the retriever of method 'given': .*{message}"):
        Given(method="given", given=given).checked_ranking(wanted)


def test_a_retriever_reads_columns_in_the_order_of_its_ranking(index, rows):
    where = "document_id = 'name3.txt'"
    search = Search(index=index, query=whole(QUERY), vector=VECTOR, where=where)
    found = search.nearest(4)
    ids = search.read(found, "chunk_id")
    texts = {row["chunk_id"]: row["text"] for row in rows}
    assert search.read(found, "text") == [texts[i] for i in ids]
    assert {i.partition("#")[0] for i in ids} == {"name3.txt"}
    assert {i.partition("#")[0] for i in search.read(search.by_terms(9), "chunk_id")} <= {
        "name3.txt"
    }
    assert search.read([], "text") == []
