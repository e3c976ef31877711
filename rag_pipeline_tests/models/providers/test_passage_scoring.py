from types import SimpleNamespace
from typing import Any

import pytest

from rag_pipeline.calls import CallCache, CallCounts
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import CallsStoppedError, ProviderError, TextTooLongError
from rag_pipeline.models.chat import Prompt, Reply
from rag_pipeline.models.providers import open_scorer
from rag_pipeline.models.providers.limits import RerankLimits
from rag_pipeline.search.reranking.llm import LLMReranker
from rag_pipeline.search.reranking.passages import RerankInput, score_passages
from rag_pipeline_tests.testing import model_calls
from rag_pipeline_tests.testing.model_faults import Failure, Fault
from rag_pipeline_tests.testing.model_server import serving

PASSAGES = ("no such thing", "the notice period is thirty days", "thirty days")
QUERY = "notice period days"
SHARES = [0.0, 1.0, 1 / 3]  # of the query's three words, by hand
METHODS = ["voyage", "cohere", "jina"]


def scorer(method: str, url: str, **changes: Any) -> Any:
    return model_calls.scorer(url, method=method, **{"model": "rerank-own", **changes})


@pytest.mark.parametrize("method", METHODS)
def test_scores_come_in_the_passages_order_and_are_asked_once(
    cache: CallCache, method: str
) -> None:
    asked = [RerankInput(query, PASSAGES) for query in (QUERY, "other", QUERY)]
    counts = CallCounts()
    with serving() as server:
        own = scorer(method, server.url)
        first = score_passages(asked, own, cache, counts)
        again = score_passages(asked[:1], own, cache, counts)
        fewer = score_passages([RerankInput(QUERY, PASSAGES[:2])], own, cache, counts)
    assert first == [pytest.approx(SHARES), [0.0] * 3, pytest.approx(SHARES)]
    assert again == first[:1]
    assert fewer == [pytest.approx(SHARES[:2])]
    assert sorted(server.answered) == sorted([QUERY, "other", QUERY])
    assert (counts.made, counts.saved) == (3, 2)


def test_each_api_is_asked_in_its_own_words(cache: CallCache) -> None:
    with serving() as server:
        for method in METHODS:
            score_passages([RerankInput(QUERY, PASSAGES)], scorer(method, server.url), cache)
        known = scorer("cohere", server.url, model="rerank-v3.5")
        score_passages([RerankInput(QUERY, PASSAGES)], known, cache)
    voyage, cohere, jina, limited = server.bodies
    assert [request.path for request in server.requests] == ["rerank"] * 4
    shared = {"model": "rerank-own", "query": QUERY, "documents": list(PASSAGES)}
    assert cohere == {**shared, "top_n": 3}
    assert jina == {**shared, "top_n": 3, "return_documents": False}
    assert {k: voyage[k] for k in (*shared, "truncation")} == {**shared, "truncation": False}
    assert limited["max_tokens_per_doc"] == 4092


def test_passages_over_a_request_are_split_and_too_long_ones_named(cache: CallCache) -> None:
    with serving() as server:
        own = scorer("voyage", server.url, model="rerank-2.5")
        own.limits = RerankLimits(passages=2, pair_tokens=30, request_tokens=1000)
        own.max_concurrency = 1  # so that requests arrive in the order in which they are made
        try:
            (split,) = score_passages([RerankInput(QUERY, PASSAGES)], own, cache)
            long = RerankInput(QUERY, (PASSAGES[0], "word " * 30))
            fails, fine = score_passages([long, RerankInput("a", ("a",))], own, cache)
        finally:
            open_scorer.cache_clear()
    assert split == pytest.approx(SHARES)
    assert [len(body["documents"]) for body in server.bodies] == [2, 1, 1]
    assert isinstance(fails, TextTooLongError)
    assert fails.text == "word " * 30
    assert fine == [1.0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("status", [400, 401])
def test_a_refused_query_fails_alone_and_a_wrong_key_stops(
    cache: CallCache, method: str, status: int
) -> None:
    keyless = False

    def fault(path: str, body: dict[str, Any]) -> Failure:
        if keyless:
            return Fault(401, "no such key")
        return Fault(status, "the query is not allowed") if body["query"] == "bad" else None

    asked = [RerankInput("bad", PASSAGES), RerankInput(QUERY, PASSAGES)]
    with serving(faults=fault) as server:
        own = scorer(method, server.url)
        refused, fine = score_passages(asked, own, cache)
        assert isinstance(refused, ProviderError)
        assert "the query is not allowed" in str(refused)
        assert fine == pytest.approx(SHARES)
        keyless = True
        with pytest.raises(CallsStoppedError, match=f"{method.upper()}_API_KEY.*check the key"):
            score_passages([RerankInput(f"{n}", PASSAGES) for n in range(20)], own, cache)


def test_a_chat_model_scores_each_passage_by_itself() -> None:
    prompts: list[Prompt] = []

    def ask(asked: Any, chat: str) -> list[Reply | ProviderError]:
        prompts.extend(asked)
        scores = [0.25, 1.0, ProviderError("refused"), 0.5]
        return [
            s if isinstance(s, ProviderError) else Reply("", {"score": s}, Usage()) for s in scores
        ]

    settings = LLMReranker(method="llm", chat="small", prompt="{passage} for {query}?")
    asked = [
        RerankInput("a", ("one {query}", "two"), ("", "b.md")),
        RerankInput("b", ("three", "four")),
    ]
    models: Any = SimpleNamespace(ask=ask)
    first, second = settings.relevance(asked, models)
    assert first == [0.25, 1.0]
    assert isinstance(second, ProviderError)
    question = "<question>\na\n</question>?"
    assert [p.user for p in prompts][:2] == [
        f"<passage>\none {{query}}\n</passage> for {question}",
        f'<passage document="b.md">\ntwo\n</passage> for {question}',
    ]
    assert prompts[0].schema is not None


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_kept_with_what_they_used(cache: CallCache, method: str) -> None:
    from rag_pipeline.search.reranking.passages import _key

    with serving() as server:
        own = scorer(method, server.url)
        score_passages([RerankInput(QUERY, PASSAGES)], own, cache)
    key = _key(own, RerankInput(QUERY, PASSAGES))
    # Three words asked, three passages of 3, 6 and 2 words; Cohere tells searches beside them.
    used = Usage(3 + 3 + 6 + 2, searches=1 if method != "voyage" else 0)
    assert cache.usage([key]) == {key: used}
