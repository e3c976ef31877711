import json

import numpy as np
import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.models.chat import ask
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.models.providers import open_scorer
from rag_pipeline.models.providers.http_rerank import JinaReranker
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline.search.reranking import score_by_chat, score_passages
from rag_pipeline.search.reranking.llm import LLMReranker
from rag_pipeline.search.retrieval import retrieve_all
from rag_pipeline.search.staged import ContextAwareRetriever
from rag_pipeline_tests.testing.model_replies import score_of
from rag_pipeline_tests.testing.model_server import serving
from rag_pipeline_tests.testing.search_index import (
    ALL,
    ENCODED,
    MAXSIM,
    NO,
    QUERY,
    VECTOR,
)


@pytest.fixture(scope="module")
def scorers(tmp_path_factory):
    """Rerankers of every kind, with what scores for those that read passages."""
    cache = CallCache(tmp_path_factory.mktemp("calls") / "calls.sqlite")
    jina = {"method": "jina", "model": "m", "candidates": 8, "patience_seconds": 1}
    chat = {"provider": "openai", "model": "m", "patience_seconds": 1}

    def judged(body):
        prompt = body["messages"][-1]["content"]
        return json.dumps({"score": score_of("how well", prompt)})

    with serving() as models, serving(judged) as chats:
        remote = JinaReranker.model_validate({**jina, "base_url": models.url})
        model = ChatModel.model_validate({**chat, "base_url": chats.url})
        asking = LLMReranker(method="llm", chat="m", candidates=4)
        yield {
            "none": (NO, None),
            "maxsim": (MAXSIM, None),
            "jina": (remote, lambda asked: score_passages(asked, open_scorer(remote), cache)),
            "llm": (
                asking,
                lambda asked: score_by_chat(asked, asking, lambda ps: ask(ps, model, cache)),
            ),
        }


def embed(texts):
    return Embedded(np.stack([VECTOR] * len(texts)), [ENCODED.tokens] * len(texts))


@pytest.mark.parametrize("reranker", ["none", "maxsim", "jina", "llm"])
@pytest.mark.parametrize(
    ("ends", "where"),
    [
        ({"top_k": 30}, None),
        ({"top_k": 12, "top_n": 3}, "json_get_int(metadata, 'parity') = 1"),
        ({"top_k": 30, "adaptive": {"contexts": [2, 4, 6], "floor": 0.1}}, None),
    ],
    ids=["all", "top_n and where", "adaptive"],
)
@pytest.mark.parametrize("over", ALL, ids=lambda s: f"{s.method}-{s.top_k}")
def test_stages_that_boost_nothing_are_the_single_pass(index, scorers, reranker, where, ends, over):
    settings, score = scorers[reranker]
    single = type(over).model_validate({**over.model_dump(), **ends})
    queries = [QUERY, "name3; w1 w2"]
    expected = [
        one.chunks for one in retrieve_all(index, queries, single, settings, embed, score, where)
    ]
    assert all(expected)
    assert max(map(len, expected)) <= ends.get("top_n", ends["top_k"])
    for nothing in ({"variants": 0}, {"boosted_files": 0}, {"boost_weight": 0.0}):
        staged = ContextAwareRetriever.model_validate(
            {"method": "context_aware", "over": single.model_dump(), **ends, **nothing}
        )
        discover = "variants" in nothing
        found = retrieve_all(
            index, queries, staged, settings, embed, score, where, discover=discover
        )
        assert [one.chunks for one in found] == expected
    no_words = ContextAwareRetriever.model_validate(
        {"method": "context_aware", "over": single.model_dump(), "top_k": ends["top_k"]}
    )  # top_n and adaptive are those of what it is over
    found = retrieve_all(
        index, queries, no_words, settings, embed, score, where, boost=lambda *document: []
    )
    assert [one.chunks for one in found] == expected


@pytest.mark.parametrize("over", ALL, ids=lambda s: f"{s.method}-{s.top_k}")
def test_what_a_boosted_query_adds_is_on_the_scale_of_every_retriever(index, over):
    def scores(weight, **changes):
        staged = ContextAwareRetriever(
            method="context_aware", over=over, top_k=72, boost_weight=weight, boosted_files=1
        ).model_copy(update=changes)
        (found,) = retrieve_all(
            index, ["w1 w2"], staged, NO, embed, boost=lambda _, texts: texts[:1]
        )
        return {c.chunk_id: c.score for c in found.chunks}, found.documents[0].document_id

    low, leading = scores(1e-9)
    high, same = scores(0.5)
    assert leading == same
    assert max(low.values()) >= 0.99 or getattr(over, "fusion", "") == "weighted"
    added = {chunk_id: high[chunk_id] - low[chunk_id] for chunk_id in low if chunk_id in high}
    assert max(added.values()) == pytest.approx(0.5, abs=1e-6)
    assert {i.partition("#")[0] for i, more in added.items() if more > 1e-6} == {leading}
