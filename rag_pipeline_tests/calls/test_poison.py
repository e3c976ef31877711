"""Inputs on which a model always fails: they are missing and named, everything else goes on."""

from functools import partial
from typing import Any

import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.errors import CallsStoppedError, TextsFailedError
from rag_pipeline.models.chat import Prompt, _key
from rag_pipeline.models.embedding import embed
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing import model_calls
from rag_pipeline_tests.testing.model_calls import asked
from rag_pipeline_tests.testing.model_faults import HANG, Failure, Fault, poison, short
from rag_pipeline_tests.testing.model_server import serving


@pytest.fixture
def cache(cache: CallCache, monkeypatch: pytest.MonkeyPatch) -> CallCache:
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)
    return cache


chat = partial(model_calls.chat, patience_seconds=0.3)
embedding = partial(model_calls.embedder, patience_seconds=0.3)


@pytest.mark.parametrize("concurrency", [1, 16])
def test_one_poison_prompt_blocks_neither_its_own_run_nor_the_next(
    cache: CallCache, concurrency: int
) -> None:
    prompts = [f"p{n}" for n in range(41)]
    with serving(faults=poison(Fault(500), "p40")) as server:
        settings = chat(server.url, max_concurrency=concurrency)
        for run in range(3):
            *good, bad = asked(prompts, settings, cache)
            assert good == [f"P{n}" for n in range(40)]
            assert "HTTP 500" in bad
            if run == 0:
                first = len(server.requests)
        assert first + 2 <= len(server.requests) <= first + 2 * 3, "at most three tries each"
        assert max(server.billed.values()) == 1
    assert cache.failures(_keys(settings, prompts)) == {_keys(settings, prompts)[-1]: 3}


def test_a_prompt_that_hangs_gets_more_time_in_the_next_run_and_holds_nothing_back(
    cache: CallCache,
) -> None:
    prompts = [f"p{n}" for n in range(10)]
    with serving(faults=poison(HANG, "p9")) as server:
        settings = chat(server.url, max_concurrency=1, timeout_seconds=1, patience_seconds=1.5)
        for seconds in (1, 2):
            *good, bad = asked(prompts, settings, cache)
            assert good == [f"P{n}" for n in range(9)]
            assert f"no answer within {seconds} s" in bad
        assert server.prompts.count("p9") > 1
        assert len(server.billed) == 9
        assert max(server.billed.values()) == 1


def _keys(settings: ChatModel, prompts: list[str]) -> list[bytes]:
    return [_key(settings, Prompt(prompt)) for prompt in prompts]


def test_what_was_poison_is_answered_when_the_server_has_been_mended(cache: CallCache) -> None:
    broken = True

    def faults(path: str, body: dict[str, Any]) -> Failure:
        return poison(Fault(500), "p1")(path, body) if broken else None

    with serving(faults=faults) as server:
        settings = chat(server.url)
        asked(["p0", "p1"], settings, cache)
        broken = False
        assert asked(["p0", "p1"], settings, cache) == ["P0", "P1"]
        assert server.billed.total() == 2
    assert cache.failures(_keys(settings, ["p1"])) == {}


@pytest.mark.parametrize("fault", [Fault(400), Fault(403), Fault(500), short])
def test_a_document_all_of_whose_texts_fail_stops_no_run(fault: Failure, cache: CallCache) -> None:
    texts = [f"t{n}" for n in range(25)]
    with serving(faults=poison(fault, *texts)) as server:
        for _ in range(2):
            before = len(server.requests)
            with pytest.raises(TextsFailedError) as failure:
                embed(texts, embedding(server.url, patience_seconds=60), cache)
            assert set(failure.value.failed) == set(texts)
            # Two searches down to a single text, three tries of each, and three probes.
            assert len(server.requests) - before <= 2 * 5 + 3 * 25 + 3


def test_a_document_all_of_whose_prompts_are_refused_stops_no_run(cache: CallCache) -> None:
    prompts = [f"p{n}" for n in range(25)]
    with serving(faults=poison(Fault(403), *prompts)) as server:
        assert all("HTTP 403" in said for said in asked(prompts, chat(server.url), cache))


def test_a_refused_request_is_told_from_a_refused_text(cache: CallCache) -> None:
    texts = [f"t{n}" for n in range(512)]
    with serving(faults=lambda path, body: Fault(400, "unsupported: dimensions")) as server:
        with pytest.raises(CallsStoppedError, match=r"unsupported: dimensions.*model's settings"):
            embed(texts, embedding(server.url, max_texts=512), cache)
        assert len(server.requests) <= 15


def test_a_server_that_is_always_a_vector_short_stops_the_run(cache: CallCache) -> None:
    with serving(faults=lambda path, body: short) as server:
        with pytest.raises(CallsStoppedError, match="No embedding data"):
            embed([f"t{n}" for n in range(8)], embedding(server.url, patience_seconds=60), cache)
        # Halves to a single text, and eight tries of each of three texts.
        assert server.billed.total() <= 8 + 7 + 3 * 8
