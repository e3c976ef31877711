"""What is sent stays where the settings send it, whoever says that it is elsewhere now."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.config import Embedding, Reranker
from rag_pipeline.errors import CallsStoppedError
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.embedding import embed
from rag_pipeline.models.providers import open_embedder, open_scorer
from rag_pipeline.models.providers.http import check_redirect
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline.search.reranking import RerankInput, score_passages
from rag_pipeline_tests.testing.model_faults import Failure, Fault
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import ModelServer, serving


def chat(url: str, cache: CallCache) -> None:
    settings = ChatModel(provider="openai", model="m", base_url=url)
    (reply,) = ask([Prompt("private")], settings, cache)
    assert isinstance(reply, Reply)


def embedding(provider: str) -> Callable[[str, CallCache], None]:
    def send(url: str, cache: CallCache) -> None:
        settings = {"provider": provider, "model": "m", "base_url": url, "dimensions": 8}
        embed(["private"], open_embedder(TypeAdapter(Embedding).validate_python(settings)), cache)

    return send


def reranking(method: str) -> Callable[[str, CallCache], None]:
    def send(url: str, cache: CallCache) -> None:
        settings = {"method": method, "model": "m", "base_url": url}
        scorer = open_scorer(TypeAdapter(Reranker).validate_python(settings))
        (scores,) = score_passages([RerankInput("private", ("a", "b"))], scorer, cache)
        assert isinstance(scores, list)

    return send


KINDS = {
    "chat": chat,
    **{f"embeddings of {name}": embedding(name) for name in ("openai", "voyage")},
    **{f"rerankings of {name}": reranking(name) for name in ("voyage", "cohere", "jina")},
}


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ModelServer]:
    with serving() as server:
        yield server


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("kind", KINDS)
def test_another_host_gets_nothing(
    kind: str, status: int, elsewhere: ModelServer, tmp_path: Path
) -> None:
    away = elsewhere.url.replace("127.0.0.1", "localhost")

    def faults(path: str, body: Body) -> Failure:
        return Fault(status, headers={"Location": f"{away}/{path}"})

    with serving(faults=faults) as server:
        told = rf"the server redirects to {away}/\S+ \(HTTP {status}\).*set `base_url` to it"
        with pytest.raises(CallsStoppedError, match=told):
            KINDS[kind](server.url, CallCache(Database(tmp_path / "calls.sqlite")))
        assert len(server.requests) == 1, "it holds for every text"
    assert elsewhere.requests == []


@pytest.mark.parametrize("kind", KINDS)
def test_another_path_of_the_same_host_is_followed(kind: str, tmp_path: Path) -> None:
    sent: list[Any] = []

    def faults(path: str, body: Body) -> Failure:
        sent.append(body)
        return Fault(307, headers={"Location": f"/v2/{path}"}) if len(sent) == 1 else None

    with serving(faults=faults) as server:
        KINDS[kind](server.url, CallCache(Database(tmp_path / "calls.sqlite")))
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
