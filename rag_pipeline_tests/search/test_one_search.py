import json
from types import SimpleNamespace
from typing import Any

import pytest

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.datamodels import SearchRequest
from rag_pipeline.models.chat import ask
from rag_pipeline.models.providers import open_scorer
from rag_pipeline.models.providers.http_rerank import JinaReranker
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline.search.reranking.llm import LLMReranker
from rag_pipeline.search.reranking.passages import score_passages
from rag_pipeline.search.retrieval import Searcher
from rag_pipeline.search.staged import ContextAwareRetriever
from rag_pipeline_tests.testing.model_replies import score_of
from rag_pipeline_tests.testing.model_server import serving
from rag_pipeline_tests.testing.search_index import ALL, MAXSIM, NO, QUERY, embed


@pytest.fixture(scope="module")
def scorers(tmp_path_factory):
    """Rerankers of every kind, each with its scorer of passages or None."""
    cache = CallCache(Database(tmp_path_factory.mktemp("calls") / "calls.sqlite"))
    jina = {"method": "jina", "model": "m", "candidates": 8, "patience_seconds": 1}
    chat = {"provider": "openai", "model": "m", "patience_seconds": 1}

    def judged(body):
        prompt = body["messages"][-1]["content"]
        return json.dumps({"score": score_of("how well", prompt)})

    with serving() as models, serving(judged) as chats:
        remote = JinaReranker.model_validate({**jina, "base_url": models.url})
        model = ChatModel.model_validate({**chat, "base_url": chats.url})

        def chat_asked(prompts, _):
            return ask(prompts, model, cache)

        asking = LLMReranker(method="llm", chat="m", candidates=4)
        yield {
            "none": (NO, None),
            "maxsim": (MAXSIM, None),
            "jina": (remote, lambda asked: score_passages(asked, open_scorer(remote), cache)),
            "llm": (asking, lambda asked: asking.relevance(asked, SimpleNamespace(ask=chat_asked))),
        }


ENDS: list[tuple[dict[str, Any], str | None]] = [
    ({"k": 30}, None),
    ({"k": 3}, "json_get_int(metadata, 'parity') = 1"),
    ({"k": 30, "adaptive": {"contexts": [2, 4, 6], "floor": 0.1}}, None),
]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("place", range(len(ALL)))
def test_stages_that_boost_nothing_are_the_single_pass(index, scorers, number, place):
    """Each retriever meets each reranker with one of the ends, and each end with some reranker."""
    over, (ends, where) = ALL[place], ENDS[(number + place) % len(ENDS)]
    settings, score = [*scorers.values()][number]
    single = type(over).model_validate({**over.model_dump(), **ends})

    def found(retriever, **request):
        searcher = Searcher(
            index=index, retriever=retriever, reranker=settings, embed=embed, score=score
        )
        requests = [SearchRequest(query=q, where=where, **request) for q in (QUERY, "name3; w1 w2")]
        return [one.chunks for one in searcher.search_all(requests)]

    expected = found(single)
    assert all(expected)
    assert max(map(len, expected)) <= ends["k"]
    for nothing in ({"variants": 0}, {"boosted_files": 0}, {"boost_weight": 0.0}):
        staged = ContextAwareRetriever.model_validate(
            {"method": "context_aware", "over": single.model_dump(), **ends, **nothing}
        )
        assert found(staged, discover="variants" in nothing) == expected
    no_words = ContextAwareRetriever.model_validate(
        {"method": "context_aware", "over": single.model_dump(), "k": ends["k"]}
    )  # `adaptive` comes from the single pass
    assert found(no_words, boost=lambda *document: []) == expected


@pytest.mark.parametrize("over", ALL, ids=lambda s: f"{s.method}-{s.k}")
def test_what_a_boosted_query_adds_is_on_the_scale_of_every_retriever(index, over):
    def scores(weight):
        staged = ContextAwareRetriever(
            method="context_aware", over=over, k=72, boost_weight=weight, boosted_files=1
        )
        searcher = Searcher(index=index, retriever=staged, reranker=NO, embed=embed)
        request = SearchRequest(query="w1 w2", boost=lambda _, texts: texts[:1])
        found = searcher.search(request)
        return {c.chunk_id: c.score for c in found.chunks}, found.documents[0].document_id

    low, leading = scores(1e-9)
    high, same = scores(0.5)
    assert leading == same
    assert max(low.values()) >= 0.99 or getattr(over, "fusion", "") == "weighted"
    added = {chunk_id: high[chunk_id] - low[chunk_id] for chunk_id in low if chunk_id in high}
    assert max(added.values()) == pytest.approx(0.5, abs=1e-6)
    assert {i.partition("#")[0] for i, more in added.items() if more > 1e-6} == {leading}
