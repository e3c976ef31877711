from rag_pipeline.answering.reading import sentence_vectors
from rag_pipeline.assistant import Assistant
from rag_pipeline.config import AssistantSettings
from rag_pipeline.datamodels import FoundDocument, ScoredChunk, SearchResult
from rag_pipeline.errors import InputError


class Listed:
    """A corpus that finds the same passages for every question, the first `k` of them."""

    name = "listed"
    shows_documents = False

    def __init__(self, texts: list[str], documents: list[str]) -> None:
        self._chunks = [
            ScoredChunk(f"d{n}#0-9", f"d{n}", 0, len(text), text, 1 - n / 1000)
            for n, text in enumerate(texts)
        ]
        self._documents = [FoundDocument(d, d, 1 - n / 1000) for n, d in enumerate(documents)]
        self.wanted = []

    def search(self, request):
        self.wanted.append(request)
        chunks = self._chunks[: request.k]
        return SearchResult(query=request.query, chunks=chunks, documents=self._documents)

    def document(self, document_id):
        raise InputError("shows none")

    def describe(self):
        return {"name": self.name}


def assistant(corpus, reranker=None):
    return Assistant(
        corpora={"listed": corpus},
        settings=AssistantSettings(),
        reader=sentence_vectors,
        reranker=reranker,
    )


def by_gold(seen):
    def score(query, passages):
        seen.append(len(passages))
        return [1.0 if "gold" in passage else 0.1 for passage in passages]

    return score


def test_a_reranker_of_the_headers_orders_more_candidates_than_are_wanted():
    seen = []
    texts = [f"Passage {n} {'holds gold' if n == 40 else ''}" for n in range(80)]
    found = assistant(Listed(texts, []), by_gold(seen)).search("Where is gold?", k=3)
    assert seen == [50]
    assert [p.document_id for p in found] == ["d40", "d0", "d1"]


def test_more_passages_than_are_reranked_keep_their_order_behind():
    seen = []
    texts = [f"Passage {n} {'holds gold' if n == 90 else ''}" for n in range(300)]
    found = assistant(Listed(texts, []), by_gold(seen)).search("Where is gold?", k=200)
    assert seen == [100]
    assert [p.document_id for p in found][:2] == ["d90", "d0"]
    assert [p.document_id for p in found][-1] == "d199"
    assert len(found) == 200


def test_documents_without_a_passage_among_those_found_follow_the_reranked_ones():
    seen = []
    corpus = Listed(["nothing", "gold"], ["deep", "d0", "d1"])
    found = assistant(corpus, by_gold(seen)).discover("gold?", k=500, rerank=True)
    assert [d.document_id for d in found] == ["d1", "d0", "deep"]
    assert seen == [2]


def test_reranking_documents_orders_them_by_their_reranked_passages():
    corpus = Listed(["best after reranking", "second"], ["d1", "deep", "d0"])
    plain = assistant(corpus).discover("anything", rerank=False)
    assert [d.document_id for d in plain] == ["d1", "deep", "d0"]
    reranked = assistant(corpus).discover("anything", rerank=True)
    assert [d.document_id for d in reranked] == ["d0", "d1", "deep"]
    assert [w.rerank for w in corpus.wanted] == [False, True]


def test_one_document_of_a_corpus_that_shows_none_is_searched():
    corpus = Listed(["one", "two"], [])
    assistant(corpus).search("anything", ["listed"], "d1", where="title = 'x'")
    (wanted,) = corpus.wanted
    assert (wanted.document_id, wanted.where) == ("d1", "title = 'x'")
