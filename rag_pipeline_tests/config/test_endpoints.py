"""A model that moves keeps its answers and tables; new calls go to its new address."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.cli.plan import show_plan
from rag_pipeline.config import fingerprint, load_config
from rag_pipeline.config.endpoints import endpoints_of, moved_models, with_first_endpoints
from rag_pipeline.corpus import Corpus
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline.pipeline.dry_run import plan_run
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import rule, write_corpus, write_file
from rag_pipeline_tests.testing.model_server import ModelServer, serving


def settings(server: ModelServer, **changes: Any) -> dict[str, Any]:
    """Return a corpus whose contexts, vectors, answers and scores are all of one server."""
    remote = {"base_url": server.url, "max_concurrency": 4, **changes}
    return {
        "chats": {"small": {"provider": "openai", "model": "m", **remote}},
        "contextualizers": {"llm": {"method": "llm", "chat": "small"}},
        "embeddings": {
            "own": {"provider": "openai", "model": "b", "dimensions": 16, "shorten": True, **remote}
        },
        "rerankers": {"jina": {"method": "jina", "model": "words", "candidates": 4, **remote}},
        "chunkings": {"markdown": {"method": "markdown"}},
        "retrievers": {"dense": {"method": "dense", "k": 10}},
        "evaluation": {"answers": {"method": "llm", "chat": "small"}},
        "gate": {"metrics": ["AnswerPresence@5"]},
        "configurations": [
            rule("all", chunking="markdown", contextualizer="llm", embedding="own", reranker="jina")
        ],
    }  # fmt: skip


@pytest.fixture
def servers() -> Iterator[tuple[ModelServer, ModelServer]]:
    with serving() as one, serving() as two:
        yield one, two


def run_all(file: Path) -> list[str]:
    """Run a corpus; return the steps that had something to do."""
    return [result.step.asset for result in run(load_config(file)) if result.ran]


def test_nothing_is_asked_again_of_a_server_that_has_moved_and_what_is_new_is_asked_there(
    tmp_path: Path, servers: tuple[ModelServer, ModelServer], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = servers
    file = write_corpus(tmp_path, **settings(before))
    assert "release" in run_all(file)
    asked = len(before.requests)
    assert asked > 10

    write_file(tmp_path, **settings(after))
    assert not any(step.runs for step in plan_run(Workspace(load_config(file))))
    assert run_all(file) == []
    assert after.requests == []
    show_plan(file, as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert f"chats.small: calls go to {after.url}, and answers of {before.url} are reused" in said

    corpus = Corpus.load(file)
    corpus.search("How expensive may a hotel be?", k=2)
    assert after.requests == [], "the release's question is answered from the cache"
    corpus.search("something new", k=2)
    assert [request.path for request in after.requests] == ["embeddings", "rerank"]
    _, chats = corpus.answers()
    chat = chats["small"]
    assert isinstance(chat, ChatModel)
    assert chat.base_url == after.url

    (tmp_path / "documents" / "new.md").write_text("# Pets\n\nDogs may come on Fridays.\n")
    run_all(file)
    prompts = [b["messages"][-1]["content"] for b in after.bodies if "messages" in b]
    contexts = [prompt for prompt in prompts if "Write the context" in prompt]
    assert len(contexts) == 1, "one chunk is new"
    assert len(before.requests) == asked


def test_another_model_of_the_same_name_is_one_where_the_file_says_so(
    tmp_path: Path, servers: tuple[ModelServer, ModelServer]
) -> None:
    before, after = servers
    file = write_corpus(tmp_path, **settings(before))
    run_all(file)
    write_file(tmp_path, **settings(after, cache_identity="another"))
    found = {f.step.asset: f for f in plan_run(Workspace(load_config(file)))}
    assert found["vector_index"].runs
    assert found["contextualized_chunks"].asks
    run_all(file)
    write_file(tmp_path, **settings(before))
    assert run_all(file) == [], "that name is kept too"


def test_a_moved_model_keeps_its_identity_and_its_fingerprint() -> None:
    chat = ChatModel(provider="openai", model="m", base_url="http://one/v1")
    assert chat.identity == "openai:http://one/v1:m:0.0:None:1024"
    own = ChatModel(provider="openai", model="m")
    assert own.identity == "openai:api.openai.com:m:0.0:None:1024"
    moved = chat.model_copy(update={"base_url": "http://two/v1", "cache_identity": "http://one/v1"})
    assert moved.identity == chat.identity
    assert fingerprint(moved) == fingerprint(chat)
    home = chat.model_copy(update={"cache_identity": ""})
    assert home.identity == own.identity


def test_a_variant_that_names_another_model_is_not_known_by_the_address_of_the_one_before(
    tmp_path: Path,
) -> None:
    with serving() as server:
        config = load_config(write_corpus(tmp_path, **settings(server)))
        other = load_config(write_file(tmp_path, **settings(server, base_url="http://two/v1")))
    first = endpoints_of(config)
    assert set(first) == {"chats.small", "embeddings.own", "rerankers.jina"}
    pinned = with_first_endpoints(other, first)
    assert len(list(moved_models(pinned))) == 3
    changed = {**first, "chats.small": {**first["chats.small"], "model": "openai another"}}
    pinned = with_first_endpoints(other, changed)
    assert pinned.chats["small"].cache_identity is None  # type: ignore[attr-defined]
    assert len(list(moved_models(pinned))) == 2
