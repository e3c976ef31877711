"""What is sent stays where the settings send it, whoever says that it is elsewhere now."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.errors import CallsStoppedError
from rag_pipeline.models.embedding import embed
from rag_pipeline.models.providers.http import check_redirect
from rag_pipeline.search.reranking.passages import RerankInput, score_passages
from rag_pipeline_tests.testing.model_calls import asked, chat, embedder, scorer
from rag_pipeline_tests.testing.model_faults import Failure, Fault
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import ModelServer, serving


def chats(url: str, cache: CallCache) -> None:
    assert asked(["private"], chat(url), cache) == ["PRIVATE"]


def embeddings(url: str, cache: CallCache, provider: str) -> None:
    embed(["private"], embedder(url, provider=provider), cache)


def rerankings(url: str, cache: CallCache, method: str) -> None:
    queries = [RerankInput("private", ("a", "b"))]
    (scores,) = score_passages(queries, scorer(url, method=method), cache)
    assert isinstance(scores, list)


KINDS: dict[str, Callable[[str, CallCache], None]] = {
    "chat": chats,
    **{f"embeddings of {n}": partial(embeddings, provider=n) for n in ("openai", "voyage")},
    **{f"rerankings of {n}": partial(rerankings, method=n) for n in ("voyage", "cohere", "jina")},
}


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ModelServer]:
    with serving() as server:
        yield server


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("kind", KINDS)
def test_another_host_gets_nothing(
    kind: str, status: int, elsewhere: ModelServer, cache: CallCache
) -> None:
    away = elsewhere.url.replace("127.0.0.1", "localhost")

    def faults(path: str, body: Body) -> Failure:
        return Fault(status, headers={"Location": f"{away}/{path}"})

    with serving(faults=faults) as server:
        told = rf"the server redirects to {away}/\S+ \(HTTP {status}\).*set `base_url` to it"
        with pytest.raises(CallsStoppedError, match=told):
            KINDS[kind](server.url, cache)
        assert len(server.requests) == 2, "a probe shows that it holds for every text"
    assert elsewhere.requests == []


@pytest.mark.parametrize("kind", KINDS)
def test_another_path_of_the_same_host_is_followed(kind: str, cache: CallCache) -> None:
    sent: list[Any] = []

    def faults(path: str, body: Body) -> Failure:
        sent.append(body)
        return Fault(307, headers={"Location": f"/v2/{path}"}) if len(sent) == 1 else None

    with serving(faults=faults) as server:
        KINDS[kind](server.url, cache)
    assert sent == [sent[0]] * 2


HERE = "http://models.example:8080/v1/embeddings"


@pytest.mark.parametrize("there", ["/v2", "https://models.example/v1/embeddings", HERE + "/"])
def test_what_stays_on_the_host_may_be_followed(there: str) -> None:
    check_redirect(308, HERE, there)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (HERE, "http://models.example:9090/v1/embeddings"),
        (HERE, "https://models.example.org/v1/embeddings"),
        (HERE, "//other.example/"),
        (HERE, ""),
        ("https://models.example/v1", "http://models.example/v1"),
    ],
)
def test_what_leads_away_is_refused(here: str, there: str) -> None:
    with pytest.raises(CallsStoppedError, match="the server redirects to"):
        check_redirect(307 if there else 302, here, there)
