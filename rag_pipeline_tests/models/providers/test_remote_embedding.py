import asyncio
from functools import partial
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers

from rag_pipeline.calls import CallCache, CallCounts, call_key
from rag_pipeline.config import Embedding
from rag_pipeline.errors import (
    CallsStoppedError,
    ConfigError,
    ProviderError,
    TextsFailedError,
    TextTooLongError,
)
from rag_pipeline.models.embedding import embed, embed_tokens
from rag_pipeline.models.providers import open_embedder
from rag_pipeline_tests.testing.dry_calls import missing_texts
from rag_pipeline_tests.testing.model_calls import embedder
from rag_pipeline_tests.testing.model_faults import Failure, Fault
from rag_pipeline_tests.testing.model_replies import DIMENSION, vector_of
from rag_pipeline_tests.testing.model_server import serving

SETTINGS: TypeAdapter[Any] = TypeAdapter(Embedding)
LONG = {"shorten": True}
"""Asks a server that speaks OpenAI's protocol for vectors of the length in the settings."""


openai = embedder
voyage = partial(embedder, provider="voyage", model="voyage-3.5", dimensions=256)


def test_openai_embeds_each_distinct_text_once_and_in_order(cache: CallCache) -> None:
    texts = [f"text {n % 70}" for n in range(100)]
    with serving() as server:
        counts = CallCounts()
        own = openai(server.url, max_texts=8)
        vectors = embed(texts, own, cache, counts=counts)
        again = embed(texts[:3], own, cache, counts=counts)
    np.testing.assert_allclose(vectors, [vector_of(t) for t in texts], atol=1e-6)
    np.testing.assert_array_equal(again, vectors[:3])
    assert sorted(server.answered) == sorted(set(texts))
    assert (counts.made, counts.saved) == (70, 33)
    assert max(len(body["input"]) for body in server.bodies) == 8
    assert all("dimensions" not in body for body in server.bodies)


def test_a_known_model_is_asked_for_shorter_vectors(cache: CallCache) -> None:
    with serving() as server:
        model = "text-embedding-3-large"
        vectors = embed(["a"], openai(server.url, model=model, dimensions=256), cache)
    assert vectors.shape == (1, 256)
    assert server.bodies[0]["dimensions"] == 256


def test_voyage_tells_documents_from_queries(cache: CallCache) -> None:
    with serving() as server:
        own = voyage(server.url)
        vectors = embed(["a", "b"], own, cache)
        embed(["a"], own, cache, "query")
    np.testing.assert_allclose(vectors, [vector_of(t, 256) for t in "ab"], atol=1e-6)
    sent = server.bodies
    assert [body["input_type"] for body in sent] == ["document", "query"]
    assert {(b["model"], b["output_dimension"], b["truncation"]) for b in sent} == {
        ("voyage-3.5", 256, False)
    }


def test_voyage_context_embeds_a_documents_chunks_together(cache: CallCache) -> None:
    texts, documents = ["a", "b", "c", "a"], ["one", "one", "two", "three"]
    with serving() as server:
        own = voyage(server.url, model="voyage-context-3")
        made = embed_tokens(texts, own, cache, documents=documents).vectors
        before = len(server.answered)
        embed_tokens(["a", "B", "c"], own, cache, documents=["one", "one", "two"])
        new = server.answered[before:]
        embed(["a"], own, cache, "query")
    assert server.bodies[0]["inputs"] == [["a", "b"], ["c"], ["a"]]
    expected = ["a in a | b", "b in a | b", "c in c", "a in a"]
    np.testing.assert_allclose(made, [vector_of(t, 256) for t in expected], atol=1e-6)
    assert new == ["a", "B"], "a changed chunk embeds its document again, and no other"
    assert server.bodies[-1]["inputs"] == [["a"]]


def test_a_document_over_the_window_is_embedded_in_consecutive_parts(cache: CallCache) -> None:
    # 30 characters are 10 tokens by the estimate: three chunks fit 32 tokens
    chunks = [f"{n}" * 30 for n in range(8)]
    with serving() as server:
        own = voyage(server.url, model="voyage-context-3", max_text_tokens=32)
        assert missing_texts(chunks, own, cache, ["d"] * 8) == 3
        made = embed_tokens(chunks, own, cache, documents=["d"] * 8)
    assert made.vectors.shape == (8, 256)
    body, *_ = server.bodies
    assert body["inputs"] == [chunks[:3], chunks[3:6], chunks[6:]]


def test_what_was_answered_before_a_failure_is_kept(cache: CallCache) -> None:
    def refuse(path: str, body: dict[str, Any]) -> Failure:
        return Fault(400, "this text is not allowed") if "bad" in body["input"] else None

    texts = ["a", "b", "bad", "c", "d", "e"]
    with serving(faults=refuse) as server:
        own = openai(server.url)
        with pytest.raises(ProviderError, match=r"not allowed .*the text begins 'bad'"):
            embed(texts, own, cache)
        assert sorted(server.answered) == ["a", "b", "c", "d", "e"]
        assert missing_texts(texts, own, cache) == 1


@pytest.mark.parametrize("provider", [openai, voyage])
@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (Fault(401, "Incorrect API key provided: sk-12345678"), CallsStoppedError, "check the key"),
        (Fault(404, "no such page"), TextsFailedError, "check model and base_url"),
        (Fault(400, "Model bge is not supported"), TextsFailedError, "not supported.*check model"),
    ],
)
def test_what_may_hold_for_every_text_is_asked_once_and_names_its_cure(
    cache: CallCache, provider: Any, fault: Fault, error: type[Exception], message: str
) -> None:
    with serving(faults=lambda path, body: fault) as server:
        with pytest.raises(error, match=message) as caught:
            embed(["a"], provider(server.url), cache)
        assert len(server.requests) == 1 + (error is CallsStoppedError), "and one probe of the key"
    assert "sk-1234" not in str(caught.value)
    assert "_API_KEY" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda e: [1.0, 2.0], TextsFailedError, "vectors of 2 dimensions, the settings expect 8"),
        (lambda e: [float("nan")] * 8, ProviderError, "of a wrong dimension or not finite"),
        (lambda e: [0.0] * 8, ProviderError, "of a wrong dimension or not finite"),
    ],
)
def test_a_vector_that_cannot_be_used_is_refused_and_not_kept(
    cache: CallCache, change: Any, error: type[Exception], message: str
) -> None:
    def spoil(reply: dict[str, Any]) -> Any:
        for row in reply["data"]:
            row["embedding"] = change(row["embedding"])
        return reply

    with serving(faults=lambda path, body: spoil) as server:
        own = openai(server.url)
        with pytest.raises(error, match=message):
            embed(["a"], own, cache)
        assert missing_texts(["a"], own, cache) == 1


@pytest.mark.parametrize("provider", [openai, voyage])
def test_of_a_reply_with_a_vector_of_nan_the_others_are_kept_and_that_one_is_asked_for_once_more(
    cache: CallCache, provider: Any
) -> None:
    texts = [f"t{n}" for n in range(8)]
    broken = {"t2", "t5"}

    def spoil(path: str, body: dict[str, Any]) -> Failure:
        hit = [n for n, text in enumerate(body["input"]) if text in broken]
        broken.discard("t2")  # which passes the second time

        def change(reply: dict[str, Any]) -> Any:
            for n in hit:
                reply["data"][n]["embedding"] = [float("inf")] * 256
            return reply

        return change

    with serving(faults=spoil) as server:
        own = provider(server.url, dimensions=256, **({} if provider is voyage else LONG))
        with pytest.raises(TextsFailedError, match=r"twice a vector of length 0.*begins 't5'") as f:
            embed(texts, own, cache)
        assert set(f.value.failed) == {"t5"}
        assert server.billed == {text: 2 if text in ("t2", "t5") else 1 for text in texts}
        broken.clear()
        vectors = embed(texts, own, cache)
        assert server.billed["t5"] == 3
    np.testing.assert_allclose(vectors, [vector_of(t, 256) for t in texts], atol=1e-6)


def test_a_server_of_which_no_vector_can_be_used_stops_the_run(cache: CallCache) -> None:
    def spoil(reply: dict[str, Any]) -> Any:
        return {**reply, "data": [{**r, "embedding": [0.0] * DIMENSION} for r in reply["data"]]}

    with serving(faults=lambda path, body: spoil) as server:
        own = openai(server.url, max_texts=10, max_concurrency=1)
        with pytest.raises(CallsStoppedError, match=r"twice a vector.*each of 3 texts"):
            embed([f"t{n}" for n in range(100)], own, cache)
        assert server.billed.total() == 10 + 5 + 2 + 3 + 1, "halves to single texts, and a probe"


def test_each_vector_is_kept_with_its_share_of_the_tokens(cache: CallCache) -> None:
    texts = ["one two three", "four", "five six"]
    with serving() as server:
        own = openai(server.url)
        embed(texts, own, cache)
    keys = [call_key("embed:document", own.identity, text) for text in texts]
    used = cache.usage(keys)
    # 13, 4 and 8 bytes of 6 tokens: 3.12, then 4.08 in all, then 6.
    assert [used[key].input_tokens for key in keys] == [3, 1, 2]


def test_voyage_contexts_are_taken_by_their_index(cache: CallCache) -> None:
    def turn(reply: dict[str, Any]) -> Any:
        data = [{**document, "data": document["data"][::-1]} for document in reply["data"]]
        return {**reply, "data": data[::-1]}

    texts, documents = ["a", "b", "c"], ["one", "one", "two"]
    with serving(faults=lambda path, body: turn) as server:
        own = voyage(server.url, model="voyage-context-3")
        made = embed_tokens(texts, own, cache, documents=documents).vectors
    expected = ["a in a | b", "b in a | b", "c in c"]
    np.testing.assert_allclose(made, [vector_of(t, 256) for t in expected], atol=1e-6)


def test_vectors_get_unit_length(cache: CallCache) -> None:
    def longer(reply: dict[str, Any]) -> Any:
        reply["data"][0]["embedding"] = [0.0, 3.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0]
        return reply

    with serving(faults=lambda path, body: longer) as server:
        vectors = embed(["a"], openai(server.url), cache)
    np.testing.assert_allclose(vectors, [[0, 0.6, 0, 0.8, 0, 0, 0, 0]], atol=1e-6)


def test_too_long_is_told_before_anything_is_sent_or_cut_where_allowed(cache: CallCache) -> None:
    long = "word " * 100  # 500 characters: about 167 tokens
    with serving() as server:
        with pytest.raises(TextTooLongError, match="about 167 tokens, 100 are allowed") as caught:
            embed(["short", long], openai(server.url, max_text_tokens=100), cache)
        assert caught.value.text == long
        assert server.requests == []
        embed([long], openai(server.url, max_text_tokens=100, truncate=True), cache)
    assert server.answered == [long[:300]]


def test_a_server_that_cuts_texts_without_a_word_is_found_by_what_it_counts(
    cache: CallCache,
) -> None:
    tokenizer = Tokenizer(models.WordLevel({"word": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    file = cache.database.path.with_name("tokenizer.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(file))
    long = "word " * 40

    def cut(path: str, body: dict[str, Any]) -> Failure:
        count = sum(min(len(text.split()), 16) for text in body["input"])
        return lambda reply: {**reply, "usage": {"prompt_tokens": count, "total_tokens": count}}

    texts = ["a word", long, "word by word"]
    with serving(faults=cut) as server:
        own = openai(server.url, tokenizer=str(file))
        with pytest.raises(TextsFailedError, match=r"the server read 16 of 40 tokens.*'word"):
            embed(texts, own, cache)
        assert missing_texts(texts, own, cache) == 1
        cutting = openai(server.url, tokenizer=str(file), truncate=True)
        assert embed([long], cutting, cache).shape == (1, DIMENSION)


def test_a_missing_key_names_its_variable(
    cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    settings = {"provider": "openai", "api_key_env": "MY_KEY"}
    own = open_embedder(SETTINGS.validate_python(settings))
    assert own.dimension == 1536, "a key is needed when there is something to send"
    with pytest.raises(CallsStoppedError, match="MY_KEY is not set"):
        embed(["a"], own, cache)


def test_the_key_of_the_named_variable_is_sent(
    cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-of-mine")
    with serving() as server:
        embed(["a"], openai(server.url, api_key_env="MY_KEY"), cache)
        embed(["a"], voyage(server.url, api_key_env="MY_KEY"), cache)
    assert server.keys == {"Bearer secret-of-mine"}


def test_it_works_where_an_event_loop_runs(cache: CallCache) -> None:
    async def ask(url: str) -> Any:
        return embed(["a"], openai(url), cache)

    with serving() as server:
        vectors = asyncio.run(ask(server.url))
    np.testing.assert_allclose(vectors, [vector_of("a")], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"provider": "openai", "model": "bge"}, "bge: .*set `dimensions`"),
        ({"provider": "openai", "dimensions": 2000}, "dimensions 2000 is not one of: 1 to 1536"),
        ({"provider": "voyage", "dimensions": 300}, "not one of: 1024, 256, 512, 2048"),
        ({"provider": "voyage", "tokenizer": "/no/such.json"}, "no such file: /no/such.json"),
    ],
)
def test_what_a_model_cannot_do_is_a_mistake_in_the_settings(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        open_embedder(SETTINGS.validate_python(settings))


@pytest.mark.parametrize("url", ["https://me:secret@host/v1", "host/v1"])
def test_an_address_is_an_address_without_a_key(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        SETTINGS.validate_python({"provider": "voyage", "base_url": url})
