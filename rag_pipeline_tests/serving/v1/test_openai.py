"""The official SDK of OpenAI uses a corpus as a vector store and as a model."""

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest

from rag_pipeline_tests.testing import app_server
from rag_pipeline_tests.testing.corpora import DOCUMENTS

QUESTION = "How expensive may a hotel be?"
TOKEN = "a-token-of-some-length"


@pytest.fixture
def sdk(serving):
    server = serving(token=TOKEN)
    with openai.OpenAI(api_key=TOKEN, base_url=f"{server.url}/v1", max_retries=0) as sdk:
        yield sdk


def chat(sdk, *texts, **more):
    roles = ["user" if (len(texts) - n) % 2 else "assistant" for n in range(len(texts))]
    messages = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)]
    return sdk.chat.completions.create(model="tiny", messages=messages, **more)


def test_a_corpus_is_a_vector_store(sdk):
    found = sdk.vector_stores.search("tiny", query=QUESTION, max_num_results=3)
    assert found.object == "vector_store.search_results.page"
    first = found.data[0]
    assert (first.file_id, first.filename) == ("policy/travel.md", "policy/travel.md")
    assert "180 euros" in first.content[0].text
    assert 0.3 <= first.score <= 1 and len(found.data) == 3
    start, end = (int(first.attributes[name]) for name in ("start", "end"))
    assert DOCUMENTS["policy/travel.md"][start:end] == first.content[0].text
    only = {"type": "in", "key": "filename", "value": ["nda/acme.txt", "nda/cedar.txt"]}
    kept = sdk.vector_stores.search("tiny", query=QUESTION, filters=only)
    assert {one.file_id for one in kept} == {"nda/acme.txt", "nda/cedar.txt"}
    suffix = {"type": "eq", "key": "suffix", "value": ".md"}
    kept = sdk.vector_stores.search("tiny", query=QUESTION, filters=suffix)
    assert {one.file_id for one in kept} == {"policy/leave.md", "policy/travel.md"}
    sure = sdk.vector_stores.search(
        "tiny", query="xylophone zeppelin", ranking_options={"score_threshold": 0.9}
    )
    assert sure.data == []
    both = sdk.vector_stores.search("tiny", query=[QUESTION, "When is a doctor's note needed?"])
    scores = [one.score for one in both]
    assert {"policy/leave.md", "policy/travel.md"} == {one.file_id for one in both.data[:2]}
    assert scores == sorted(scores, reverse=True)


def test_a_parameter_that_is_null_is_not_set(sdk):
    """LiteLLM sends these."""
    unset = dict.fromkeys(["filters", "max_num_results", "ranking_options", "rewrite_query"])
    found = sdk.vector_stores.search("tiny", query=QUESTION, extra_body=unset)
    assert found.data == sdk.vector_stores.search("tiny", query=QUESTION).data


def test_what_a_corpus_cannot_do_is_refused(sdk):
    with pytest.raises(openai.NotFoundError, match="no corpus 'other'"):
        sdk.vector_stores.search("other", query=QUESTION)
    with pytest.raises(openai.NotFoundError, match="no corpus 'gpt-5'"):
        sdk.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "a"}])
    with pytest.raises(openai.BadRequestError, match=r"assistant\.chat"):
        sdk.vector_stores.search("tiny", query=QUESTION, rewrite_query=True)
    with pytest.raises(openai.UnprocessableEntityError, match="ranker"):
        sdk.vector_stores.search("tiny", query=QUESTION, ranking_options={"ranker": "none"})
    with pytest.raises(openai.BadRequestError, match="it must be 'user'"):
        sdk.chat.completions.create(model="tiny", messages=[{"role": "system", "content": "a"}])
    with pytest.raises(openai.UnprocessableEntityError, match="n: "):
        chat(sdk, QUESTION, n=2)
    with pytest.raises(openai.NotFoundError, match="no corpus"):
        said = [{"role": "user", "content": "a"}]
        sdk.chat.completions.create(model="x", messages=said, stream=True)
    with pytest.raises(openai.UnprocessableEntityError, match="messages"):
        sdk.chat.completions.create(model="tiny", messages=[])
    with pytest.raises(openai.UnprocessableEntityError, match="query"):
        chat(sdk, "")
    with pytest.raises(openai.AuthenticationError):
        sdk.with_options(api_key="no token").models.list()


def test_a_chat_answers_with_citations_as_annotations(sdk):
    made = chat(sdk, QUESTION)
    message = made.choices[0].message
    assert "180 euros" in message.content
    citation = message.annotations[0].url_citation
    assert message.content[citation.start_index : citation.end_index] == "[1]"
    assert citation.title == "policy/travel.md"
    cited = httpx.get(citation.url, headers={"Authorization": f"Bearer {TOKEN}"}).json()
    assert "180 euros" in cited["text"] and cited["text"] in DOCUMENTS["policy/travel.md"]
    assert made.system_fingerprint == "release-000001"
    assert made.rag_pipeline["sources"][0]["verified"] is True


def test_a_streamed_chat_is_the_same_answer(sdk):
    whole = chat(sdk, QUESTION).choices[0].message
    chunks = list(chat(sdk, QUESTION, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == whole.content
    last = chunks[-1].choices[0]
    assert last.finish_reason == "stop"
    assert [a["url_citation"] for a in last.delta.annotations] == [
        a.url_citation.model_dump() for a in whole.annotations
    ]
    assert len({c.id for c in chunks}) == 1


def test_the_requests_of_open_webui_are_answered(serving):
    """As its proxy sends them (`backend/open_webui/routers/openai.py`, commit 004a45f5)."""
    url, headers = f"{serving(token=TOKEN).url}/v1", {"Authorization": f"Bearer {TOKEN}"}
    headers |= {"X-OpenWebUI-User-Role": "user", "X-OpenWebUI-Chat-Id": "c1"}
    (model,) = httpx.get(f"{url}/models", headers=headers).json()["data"]
    messages = [
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": "When is a doctor's note needed?"},
        {"role": "assistant", "content": "From the third day on [1]."},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]
    chosen = {"temperature": 0.7, "max_completion_tokens": 1000, "stop": ["#"], "seed": 1}
    asked = {"model": model["id"], "messages": messages, "stream": True, **chosen}
    asked |= {"stream_options": {"include_usage": True}, "tools": [], "logit_bias": None}
    with httpx.stream("POST", f"{url}/chat/completions", json=asked, headers=headers) as reply:
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in reply.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    made = [json.loads(line)["choices"][0] for line in lines[:-1] if line.startswith("{")]
    assert "180 euros" in "".join(one["delta"].get("content") or "" for one in made)
    title = {"model": model["id"], "messages": messages[1:2], "stream": False, **chosen}
    whole = httpx.post(f"{url}/chat/completions", json=title, headers=headers).json()
    assert "third day" in whole["choices"][0]["message"]["content"]


def test_the_asynchronous_sdk_gets_the_same(serving, sdk):
    whole = chat(sdk, QUESTION).choices[0].message.content
    found = sdk.vector_stores.search("tiny", query=QUESTION).data
    url = serving(token=TOKEN).url

    async def talk():
        async with openai.AsyncOpenAI(api_key=TOKEN, base_url=f"{url}/v1", max_retries=0) as own:
            said: Any = {"model": "tiny", "messages": [{"role": "user", "content": QUESTION}]}
            made = await own.chat.completions.create(**said)
            assert made.choices[0].message.content == whole
            stream = await own.chat.completions.create(**said, stream=True)
            texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
            assert "".join(texts) == whole
            page = [one async for one in own.vector_stores.search("tiny", query=QUESTION)]
            assert [one.file_id for one in page] == [one.file_id for one in found]
            assert [model.id async for model in own.models.list()] == ["tiny"]

    asyncio.run(talk())


def test_a_chat_completes_a_question_by_the_messages_before(sdk):
    made = chat(
        sdk,
        "How long does confidentiality last under the Acme NDA?",
        "Ohio. [1]",
        "And the Cedar NDA?",
    )
    (source, *_) = made.rag_pipeline["sources"]
    assert source["document_id"] == "nda/cedar.txt"
    rewritten = made.rag_pipeline["trace"][0]["detail"]["rewritten"]
    assert rewritten == "How long does confidentiality last under the Cedar NDA?"
    parts = [{"type": "text", "text": QUESTION}]
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
    made = sdk.chat.completions.create(model="tiny", messages=said, temperature=0)
    assert "180 euros" in made.choices[0].message.content


def test_corpora_are_models(sdk, released):
    (model,) = sdk.models.list().data
    assert (model.id, model.object) == ("tiny", "model")
    assert model.created > 1_700_000_000


def test_a_model_rewrites_a_query(released, own):
    class Rewriting:
        def rewrite(self, query, turns=()):
            return "hotel price"

    rewriting = own.with_backends(own.corpora, Rewriting(), None)
    with app_server.serving(rewriting) as server:
        body = {"query": "How much?", "rewrite_query": True}
        found = httpx.post(f"{server.url}/v1/vector_stores/tiny/search", json=body).json()
    assert found["search_query"] == ["hotel price"]
    assert found["data"][0]["file_id"] == "policy/travel.md"
