from dataclasses import replace
from pathlib import Path

import pytest

from rag_pipeline import Corpus
from rag_pipeline.datamodels import SearchRequest
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search.reranking.none import NoReranker
from rag_pipeline.search.retrieval import cached
from rag_pipeline.search.retrievers.hybrid import HybridRetriever
from rag_pipeline.search.staged import ContextAwareRetriever, LocalExpansion

NONE = NoReranker(method="none")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    from rag_pipeline_tests.testing.builds import run
    from rag_pipeline_tests.testing.corpora import write_corpus

    file: Path = write_corpus(tmp_path_factory.mktemp("staged"))
    corpus = Corpus.load(file)
    list(run(corpus.config))
    return corpus._open().searcher


def staged(**changes) -> ContextAwareRetriever:
    over = {"method": "hybrid", "document_weight": 0.0}
    return ContextAwareRetriever.model_validate(
        {"method": "context_aware", "over": over, "k": 5, **changes}
    )


def single(**changes) -> HybridRetriever:
    return HybridRetriever.model_validate({"method": "hybrid", "k": 5, **changes})


def retrieve(searcher, query, settings, where=None, boost=None):
    searcher = replace(searcher, retriever=settings, reranker=NONE)
    request = SearchRequest(query=query, where=where, boost=boost, discover=True)
    return searcher.search(request)


def test_documents_are_ranked_by_their_best_chunk(served):
    settings = staged(over=single().model_dump())
    query = "hotel price a night"
    found = retrieve(served, query, settings).documents
    assert found[0].document_id == "policy/travel.md"
    assert len({d.document_id for d in found}) == len(found)
    assert [d.score for d in found] == sorted((d.score for d in found), reverse=True)


def test_a_boosted_query_lifts_the_chunks_of_its_own_document_only(served):
    query, target = "What does the policy say?", "policy/travel.md"
    asked = []

    def boost(document_id, texts):
        asked.append((document_id, len(texts)))
        return ["economy class flights"] if document_id == target else []

    before = retrieve(served, query, staged(variants=0, k=50))
    after = retrieve(served, query, staged(boosted_files=4, boost_weight=5.0, k=50), boost=boost)
    assert after.boosted[target] == ["economy class flights"]
    assert after.chunks[0].document_id == target
    assert "economy" in after.chunks[0].text
    assert {d for d, _ in asked} == {d.document_id for d in before.documents[:4]}
    scores = {c.chunk_id: c.score for c in before.chunks}
    lifted = {c.document_id for c in after.chunks if c.score > scores[c.chunk_id] + 1e-9}
    assert lifted == {target}


def test_a_filter_holds_in_every_stage(served):
    where = "document_id LIKE 'nda/%'"
    found = retrieve(served, "How long?", staged(boosted_files=4), where)
    assert {c.document_id for c in found.chunks} <= {"nda/acme.txt", "nda/cedar.txt"}


def test_expansion_takes_the_words_that_set_a_document_apart():
    found = ["the fee is due in June", "the fee is due in May", "the penalty is due in May"]
    (query,) = LocalExpansion("when is the fee due", found)("a", [found[2]])
    assert query == "when is the fee due penalty May"
    assert LocalExpansion("the fee is due in June", found)("a", [found[0]]) == []


def test_every_variant_adds_further_words():
    words = "amber bronze copper dorado ebony fuchsia garnet hazel indigo".split()
    first, second, third = LocalExpansion("fee", [" ".join(words), "fee"])("a", [" ".join(words)])
    assert first == "fee amber bronze copper dorado"
    assert second == "fee ebony fuchsia garnet hazel"
    assert third == "fee indigo"


def test_vectors_too_large_for_memory_are_searched_from_the_table_and_rank_the_same(served):
    query, on_disk = (
        "How long does confidentiality last?",
        replace(served, index=replace(served.index, vectors=None)),
    )
    for where in (None, "document_id LIKE 'nda/%'"):
        resident = retrieve(served, query, staged(), where)
        read = retrieve(on_disk, query, staged(), where)
        assert resident.boosted and resident.boosted == read.boosted
        assert [c.chunk_id for c in resident.chunks] == [c.chunk_id for c in read.chunks]


def test_texts_are_embedded_once(served):
    calls = []

    def embed(texts) -> Embedded:
        calls.append(list(texts))
        return served.embed(texts)

    memory = cached(embed)
    memory(["a", "b", "a"])
    again = memory(["b", "c"])
    assert calls == [["a", "b"], ["c"]]
    assert (again.vectors[0] == served.embed(["b"]).vectors[0]).all()
