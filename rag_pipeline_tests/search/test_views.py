import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from rag_pipeline.datamodels import OPERATOR, Caller, SearchRequest
from rag_pipeline.errors import ConfigError, InputError
from rag_pipeline.search import index as opened
from rag_pipeline.search.retrieval import Searcher
from rag_pipeline.search.retrievers import SinglePassRetriever
from rag_pipeline.search.views import Labels, Views
from rag_pipeline_tests.testing.search_index import (
    ALL,
    DISCOVER,
    MAXSIM,
    NO,
    embed,
    hybrid,
    index_of,
    random_chunks,
)

SECRET = {1, 4, 5, 8, 10}
"""Numbers of the hidden documents."""
QUERIES = [
    'What does "name4" say of w1 and w2?',
    "w1 w2 name3",
    "name4; w1 w2",
    "name4 zeppelin",
    "zepelin w3",
    "zeppelin",
    "w7 nam8e w9",
]
FILTERS = [None, "start < 3", "json_get_int(metadata, 'parity') = 1"]


@pytest.fixture(scope="module")
def rows():
    """Return chunks. The hidden ones have words, names and metadata that no other chunk has."""
    made = random_chunks()
    rng = random.Random(1)
    for row in made:
        if int(row["document_id"].removeprefix("name").removesuffix(".txt")) in SECRET:
            row["text"] += " " + " ".join(rng.choices(["zeppelin", "w1", "w3"], k=6))
            row["metadata"] = '{"parity": "concealed"}'
    return made


@pytest.fixture(scope="module")
def ids(rows):
    hidden = {f"name{n}.txt" for n in SECRET}
    return {row["document_id"] for row in rows} - hidden


@pytest.fixture(scope="module", params=["bm25s", "rank_bm25"])
def pair(request, rows, ids, tmp_path_factory):
    """Return the view of an index, and an index without the hidden documents."""
    folder = tmp_path_factory.mktemp(request.param)
    whole = index_of(folder / "whole", rows, engine=request.param)
    alone = [row for row in rows if row["document_id"] in ids]
    assert whole.terms.documents.rows_named("name4") == [6]  # known before the view is made
    for query in QUERIES:
        found(whole, hybrid(**DISCOVER), query)
    return whole.only(ids), index_of(folder / "alone", alone, engine=request.param)


def found(index, settings, query, reranker=NO, **request):
    searcher = Searcher(index=index, retriever=settings, reranker=reranker, embed=embed)
    result = searcher.search(SearchRequest(query=query, discover=True, tokens=True, **request))
    chunks = [(c.chunk_id, pytest.approx(c.score, abs=1e-6)) for c in result.chunks]
    documents = [(d.document_id, pytest.approx(d.score, abs=1e-6)) for d in result.documents]
    return chunks, documents, result.search_text, result.boosted, list(result.token_weights)


def test_the_row_of_a_hidden_name_is_unknown(pair):
    view, alone = pair
    for name, known in (("name4.txt", False), ("name3.txt", True)):
        for index in pair:
            assert bool(index.terms.documents.rows_named(name.removesuffix(".txt"))) is known
    term = "w1"
    assert view.terms.documents.share_holding(term) == alone.terms.documents.share_holding(term)


@pytest.mark.parametrize(("number", "settings"), [*enumerate(ALL)])
def test_a_view_answers_as_an_index_without_the_hidden_documents(pair, number, settings):
    """Each retriever sees each question with one filter, and each filter with several questions."""
    view, alone = pair
    for place, query in enumerate(QUERIES, number):
        where = FILTERS[place % len(FILTERS)]
        for stages, reranker in ((None, NO), ((3, 2), MAXSIM)):
            asked = {"where": where, "stages": stages, "reranker": reranker}
            assert found(view, settings, query, **asked) == found(alone, settings, query, **asked)


def test_a_view_of_vectors_on_disk_shows_the_same(rows, ids, tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "RESIDENT_BYTES", 0)
    view = index_of(tmp_path / "whole", rows).only(ids)
    alone = index_of(tmp_path / "alone", [row for row in rows if row["document_id"] in ids])
    assert view.vectors is alone.vectors is None
    for settings in (ALL[0], hybrid(**DISCOVER, candidates=3)):
        for where in (*FILTERS, "start < 0"):
            for query in QUERIES:
                assert found(view, settings, query, where=where) == found(
                    alone, settings, query, where=where
                )
    few = view.only({"name3.txt"})
    assert {c for c, _ in found(few, ALL[0], "w1")[0]} == {
        f"name3.txt#{n}-{n + 1}" for n in range(6)
    }
    assert found(view.only(set()), ALL[0], "w1")[0] == []


def test_the_engine_lance_finds_only_visible_chunks(rows, ids, tmp_path):
    view = index_of(tmp_path, rows, engine="lance").only(ids)
    terms = view.terms.lexical
    assert {c.partition("#")[0] for c, _ in terms.search("w1 w2 w3", 100)} <= ids
    assert terms.search("zeppelin", 100) == []
    assert terms.max_score("zeppelin") == terms.max_score("unheard")


def test_an_error_of_a_filter_tells_nothing_of_hidden_values(pair, ids):
    view, _ = pair
    failing = "json_get_int(metadata, 'parity') > CAST(document_id AS INT)"
    said = []
    for index in pair:
        with pytest.raises(InputError, match="Cannot cast") as raised:
            index.matching(failing)
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert "name1.txt" not in said[0].partition(":")[2]
    at = view.matching("json_get_int(metadata, 'parity') = 1")
    names = view.take(at.nonzero()[0], ["document_id"])["document_id"].to_pylist()
    assert set(names) == {n for n in ids if int(n[4:-4]) % 2}


class Careless(SinglePassRetriever):
    """Ranks every chunk."""

    def rank(self, search, k):
        return [(n, 1.0) for n in range(len(search.index))]


def test_a_retriever_that_ranks_a_hidden_chunk_is_refused(pair):
    view, _ = pair
    with pytest.raises(ConfigError, match="may not see"):
        found(view, Careless(method="careless", k=100), "w1")


LABELS = {
    **{f"name{n}.txt": frozenset({"secret"} if n in SECRET else {"public"}) for n in range(12)},
    "name5.txt": frozenset({"secret", "board"}),
}


def test_a_caller_sees_the_documents_with_one_of_its_labels(pair, rows, tmp_path):
    index = index_of(tmp_path, rows)
    views = Views(index, Labels(lambda: LABELS))
    every = {f"name{n}.txt" for n in range(12)}
    hidden = {f"name{n}.txt" for n in SECRET}
    for labels, expected in [
        ((), every - hidden),
        (("board",), (every - hidden) | {"name5.txt"}),
        (("secret",), every),
        (("secret", "board"), every),
        (("other",), every - hidden),
    ]:
        caller = Caller(frozenset(labels))
        assert {d for d in every if views.labels.sees(caller, d)} == expected
        assert not views.labels.sees(caller, "unknown.txt")
        view = views.index_for(caller)
        names = {c.partition("#")[0] for c, _ in found(view, ALL[0], "w1")[0]}
        assert names == expected
        assert (view is index) == (expected == every)
    assert views.index_for(OPERATOR) is index
    same = (views.index_for(Caller(frozenset(x))) for x in ((), ("other",), ("public",)))
    assert len({id(view) for view in same}) == 1


def test_callers_wait_only_for_their_own_view(monkeypatch, pair):
    index, made = pair[0], []
    every_label_at_once, only = Barrier(3, timeout=60), type(index).only

    def watched(self, ids):
        made.append(sorted(ids))
        every_label_at_once.wait()
        return only(self, ids)

    monkeypatch.setattr(type(index), "only", watched)
    labels = Labels(lambda: {f"name{n}.txt": frozenset({f"l{n}"}) for n in range(3)})
    views = Views(index, labels)
    callers = [Caller(frozenset({f"l{n}"})) for n in (0, 1, 2) * 3]
    with ThreadPoolExecutor(9) as threads:
        opened = [*threads.map(views.index_for, callers)]
    assert sorted(made) == [["name0.txt"], ["name1.txt"], ["name2.txt"]]
    assert [opened.index(one) for one in opened] == [0, 1, 2] * 3


def test_counting_chunks_holds_no_caller_up():
    def chunks():
        with ThreadPoolExecutor(1) as other:
            assert other.submit(labels.sees, Caller(frozenset()), "a").result(60)
        return ["a", "a", "b"]

    labels = Labels(lambda: {"a": frozenset({"public"}), "b": frozenset({"hr"})}, chunks)
    assert labels.count_chunks(Caller(frozenset())) == 2


def test_a_view_that_failed_is_made_again(monkeypatch, pair):
    index = pair[0]
    views = Views(index, Labels(lambda: LABELS))
    with monkeypatch.context() as patch:
        patch.setattr(type(index), "only", lambda self, ids: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            views.index_for(Caller(frozenset()))
    assert views.index_for(Caller(frozenset())).visible is not None


def test_a_document_without_known_labels_is_hidden(pair, rows, tmp_path):
    views = Views(index_of(tmp_path, rows), Labels(lambda: {"name0.txt": frozenset({"public"})}))
    view = views.index_for(Caller(frozenset({"secret"})))
    assert {c.partition("#")[0] for c, _ in found(view, ALL[0], "w1")[0]} == {"name0.txt"}


def test_only_the_last_used_views_are_kept(monkeypatch, rows, tmp_path):
    monkeypatch.setattr("rag_pipeline.search.views._MOST_VIEWS", 2)
    index = index_of(tmp_path, rows)
    labels = {f"name{n}.txt": frozenset({f"l{n}"}) for n in range(12)}
    views = Views(index, Labels(lambda: labels))
    callers = [Caller(frozenset({f"l{n}"})) for n in range(3)]
    first = views.index_for(callers[0])
    assert views.index_for(callers[0]) is first
    for caller in callers:
        views.index_for(caller)
    assert len(views._views) == 2
    assert views.index_for(callers[0]) is not first


def test_words_of_hidden_names_are_no_kind(tmp_path):
    names = {
        "name0.txt": "lease alpha.txt",
        "name1.txt": "lease beta.txt",
        "name2.txt": "other.txt",
    }
    rows = [
        {**row, "document_id": name, "chunk_id": f"{name}#{row['start']}-{row['end']}"}
        for row in random_chunks(documents=3)
        for name in [names[row["document_id"]]]
    ]
    index = index_of(tmp_path, rows)
    assert index.terms.documents.kinds == {"lease"}
    assert index.only({"lease alpha.txt", "other.txt"}).terms.documents.kinds == set()


def test_a_hidden_later_version_makes_no_visible_one_old(tmp_path):
    names = {"name0.txt": "leave 2022.txt", "name1.txt": "leave 2024.txt", "name2.txt": "b.txt"}
    rows = [
        {**row, "document_id": name, "chunk_id": f"{name}#{row['start']}-{row['end']}"}
        for row in random_chunks(documents=3)
        for name in [names[row["document_id"]]]
    ]
    index = index_of(tmp_path, rows)
    assert [*index.outdated.values()] == ["leave 2022.txt"]
    assert index.only({"leave 2022.txt", "b.txt"}).outdated == {}
