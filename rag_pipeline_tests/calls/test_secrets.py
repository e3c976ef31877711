"""A key is planted, every kind of failure made, and everything that was written searched for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation import Evaluator
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.embedding import embed
from rag_pipeline.search.reranking.passages import RerankInput, score_passages
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import rule, write_corpus
from rag_pipeline_tests.testing.model_calls import asked, chat, embedder, scorer
from rag_pipeline_tests.testing.model_faults import CUT, Echo, Failure, Fault
from rag_pipeline_tests.testing.model_replies import items_of
from rag_pipeline_tests.testing.model_server import serving

KEY = "my-own.key-8d1f5c2a7e"
MESSAGE = f"Incorrect API key provided: {KEY}, Bearer {KEY}"
BODY = f'{{"error": {{"message": "{MESSAGE}"}}}}'.encode()
WRONG_KEY = [Fault(401, BODY)]
PASSING = [Fault(500, BODY), Fault(429, BODY), CUT]
PASSING += [Fault(200, BODY[:20]), Fault(200, BODY), Fault(400, BODY)]


def echoed(body: dict[str, Any]) -> str:
    return f"I was asked with the key {KEY}"


@pytest.mark.parametrize("status", [400, 401, 429, 500])
@pytest.mark.parametrize("way", ["chat", "batch", "openai", "voyage", "rerank"])
def test_a_server_that_echoes_headers_and_body_leaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, way: str
) -> None:
    for name in ("OPENAI_API_KEY", "VOYAGE_API_KEY", "COHERE_API_KEY", "CO_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setattr("rag_pipeline.models.providers.openai_batch._FIRST_BACKOFF", 0.001)
    cache = CallCache(Database(tmp_path / "calls.sqlite"))
    with serving(faults=lambda path, body: Echo(status)) as server:
        say, patience = f"say {KEY}", {"patience_seconds": 0.1}
        if way in ("chat", "batch"):
            settings = chat(server.url, batch=way == "batch", **patience)
            told = said(lambda: ask([Prompt(say)], settings, cache))
        elif way == "rerank":
            own = scorer(server.url, **patience)
            told = said(lambda: score_passages([RerankInput(say, ("one",))], own, cache))
        else:
            model = embedder(server.url, provider=way, **patience)
            told = said(lambda: embed([say], model, cache))
    assert told
    assert KEY[:8] not in told


def said(call: Callable[[], Any]) -> str:
    """Return what a call failed with, raised or returned."""
    try:
        found = call()
    except ProviderError as error:
        return f"{error} {error!r}"
    return " ".join(f"{one} {one!r}" for one in found if isinstance(one, ProviderError))


def test_an_evaluators_errors_hold_no_key_that_is_given_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with serving(faults=lambda path, body: Echo(400)) as server:
        evaluator = Evaluator(KEY, server.url)
        evaluator.get_relevance_labels([{"document": "It is."}], "Is it?")
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    (error,) = evaluator.errors
    assert "HTTP 400" in error
    assert KEY[:8] not in error


def test_a_reply_that_echoes_the_key_is_not_kept_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    cache = CallCache(Database(tmp_path / "calls.sqlite"))
    with serving(echoed) as server:
        prompts = [Prompt("who?"), Prompt("?", choices=("yes", "no"))]
        text, choice = ask(prompts, chat(server.url), cache)
    assert isinstance(text, Reply)
    assert text.text == "I was asked with the key [key]"
    assert KEY[:8] not in str(choice)
    assert not any(KEY[:8].encode() in file.read_bytes() for file in tmp_path.iterdir()
                   if file.is_file())  # fmt: skip


def write(folder: Path, url: str) -> Path:
    small = {"provider": "openai", "model": "m", "base_url": url, "patience_seconds": 1}
    return write_corpus(
        folder,
        queries=None,
        chats={"small": small},
        chunkings={"markdown": {"method": "markdown"}},
        contextualizers={"llm": {"method": "llm", "chat": "small"}},
        configurations=[rule("default", "markdown", "llm")],
    )


def test_a_key_is_in_nothing_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "dagster"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    outcomes = []
    for faults in (WRONG_KEY, PASSING):
        left = list(faults)

        def answer(body: dict[str, Any], left: list[Fault] = left) -> Fault:
            return left.pop(0) if len(left) > 1 else left[0]

        with serving(answer) as server:
            outcomes.append(rag("run", write(tmp_path, server.url)))
            assert f"Bearer {KEY}" in server.requests[0].headers.values()
    assert [outcome.code for outcome in outcomes] == [1, 1]
    told = " ".join((outcomes[0].out + outcomes[0].err).split())
    assert "Incorrect API key provided: [key]" in told
    assert "check the key" in told
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.is_relative_to(home) for path in files)
    for outcome in outcomes:
        assert KEY not in outcome.out + outcome.err
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_server_that_repeats_a_document_shows_at_most_a_few_words_of_it(
    cache: CallCache, status: int
) -> None:
    private = "The merger with Birch Paper\nis agreed for the ninth of June; schweigen bis dahin."

    def faults(path: str, body: dict[str, Any]) -> Failure:
        # The reply begins with the document, because messages are cut at 300 characters.
        return Fault(status, f"no: {items_of(path, body)}") if "Birch" in str(body) else None

    with serving(faults=faults) as server:
        settings = chat(server.url, patience_seconds=0.1, max_concurrency=1)
        _, chat_error = asked(["fine", private], settings, cache)
        in_batch = settings.model_copy(update={"batch": True, "seed": 1})
        _, batch_error = asked(["fine", private], in_batch, cache)
        with pytest.raises(ProviderError) as failure:
            embed([f"About: {private}"], embedder(server.url, patience_seconds=0.1), cache)
    embed_error = str(failure.value).partition("; the text begins")[0]
    for said in (chat_error, batch_error, embed_error):
        assert f"HTTP {status}" in said
        assert "no: " in said
        for part in ("merger", "Birch", "June", "schweigen"):
            assert part not in said
