"""The real protocol: a llama.cpp server in this process, and the `openai` client of production."""

import json
import urllib.request
from collections.abc import Iterator
from itertools import pairwise

import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.calls.costs import ESTIMATE_ERROR, Ledger, charging, estimate_tokens
from rag_pipeline.config import ChatModel, LLMContext
from rag_pipeline.contextualization import contextualize_with_model
from rag_pipeline.datamodels import Chunk, Document
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline_tests.testing.llama_server import llama_server

TEXT = (
    "MUTUAL NON-DISCLOSURE AGREEMENT\n\n"
    "This agreement is made between Acme Rockets Inc. and Birch Paper Ltd. on 3 May 2021.\n\n"
    "1. Purpose. The parties wish to explore the joint manufacture of paper rockets and will show "
    "each other drawings, prices and lists of customers for that purpose and for no other.\n\n"
    "2. Term. The obligations of confidentiality last for five years from the date of "
    "disclosure, whether or not the parties conclude a further contract.\n\n"
    "3. Return. On request, each party gives back or destroys what it received within thirty "
    "days, and confirms in writing that it has kept no copy.\n\n"
    "4. Governing law. The laws of the State of Delaware apply to this agreement.\n"
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama_server(context_tokens=1024) as address:
        yield address


def model(url: str, max_output_tokens: int) -> ChatModel:
    return ChatModel(
        provider="openai",
        model="SmolLM2-135M-Instruct",
        base_url=f"{url}/v1",
        context_window=1024,
        max_output_tokens=max_output_tokens,
        max_concurrency=4,
    )


def count_tokens(url: str, text: str) -> int:
    body = json.dumps({"content": text}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/tokenize", body, headers)) as reply:
        return len(json.loads(reply.read())["tokens"])


def test_the_prompt_cache_serves_the_document_to_all_chunks_but_the_first(url, tmp_path):
    bounds = [0, *(TEXT.index(f"{n}. ") for n in (2, 4)), len(TEXT)]
    chunks = [Chunk("nda.txt", a, b, TEXT[a:b]) for a, b in pairwise(bounds)]
    document = Document("nda.txt", "0" * 64, TEXT)
    chat = model(url, max_output_tokens=12)
    cache = CallCache(tmp_path / "calls.sqlite")
    ledger = Ledger(tmp_path / "costs.sqlite", "tiny")
    settings = LLMContext(method="llm", chat="local")
    with charging(ledger):
        result = contextualize_with_model(
            [(document, chunks)], settings, chat, lambda prompts: ask(prompts, chat, cache)
        )
    (made,) = result.documents
    assert isinstance(made, list)
    assert all(chunk.context for chunk in made)

    tokens = count_tokens(url, TEXT)
    first, *others = list(ledger.charges())
    assert first.cached < 0.1 * tokens
    assert len(others) == len(chunks) - 1
    for charge in others:
        assert charge.cached >= 0.9 * tokens, "share of the document that the cache served"
        assert charge.input > charge.cached
    assert ledger.spent() == 0.0, "a model on this machine is free"
    assert estimate_tokens(TEXT) == pytest.approx(tokens, rel=ESTIMATE_ERROR)


def test_judging_and_extracting_give_values_of_their_schemas(url, tmp_path):
    verdict = {
        "type": "object",
        "properties": {"answers": {"enum": ["YES", "NO"]}},
        "required": ["answers"],
        "additionalProperties": False,
    }
    entities = {
        "type": "object",
        "properties": {"years": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["years"],
        "additionalProperties": False,
    }
    term = "The obligations of confidentiality last for five years."
    prompts = [
        Prompt(f"{term}\nDoes this say how long confidentiality lasts?", schema=verdict),
        Prompt(f"{term}\nFor how many years?", schema=entities),
    ]
    replies = ask(prompts, model(url, 24), CallCache(tmp_path / "calls.sqlite"))
    judged, extracted = replies
    assert isinstance(judged, Reply) and isinstance(extracted, Reply), replies
    assert judged.data["answers"] in ("YES", "NO")
    assert 0 <= extracted.data["years"] <= 99
