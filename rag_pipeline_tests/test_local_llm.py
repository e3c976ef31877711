"""The real protocol: a llama.cpp server in this process, and the `openai` client of production."""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.calls.costs import ESTIMATE_ERROR, Ledger, charging, estimate_tokens
from rag_pipeline.contextualization.llm import LLMContext, context_prompts
from rag_pipeline.datamodels import (
    Answer,
    Answered,
    Chunk,
    Document,
    Query,
    ScoredChunk,
)
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.context_quality.llm import ChatContext
from rag_pipeline.evaluation.entities.llm import ChatEntities
from rag_pipeline.evaluation.llm_relevance import judge_passages
from rag_pipeline.models.chat import Ask, Reply, ask
from rag_pipeline.models.prompts import Shown
from rag_pipeline.models.providers.openai import ChatModel
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


def test_the_prompt_cache_serves_the_document_to_all_prompts_but_the_first(url, tmp_path):
    bounds = [0, *(TEXT.index(f"{n}. ") for n in (2, 4)), len(TEXT)]
    chunks = [Chunk("nda.txt", a, b, TEXT[a:b]) for a, b in pairwise(bounds)]
    document = Document("nda.txt", "0" * 64, TEXT)
    chat = model(url, max_output_tokens=12)
    ledger = Ledger(Database(tmp_path / "calls.sqlite"), "tiny")
    settings = LLMContext(method="llm", chat="local")
    prompts = context_prompts(document, chunks, settings, chat)
    with charging(ledger):
        replies = ask(prompts, chat, CallCache(Database(tmp_path / "calls.sqlite")))
    # A model as small as this one often goes on and on: a reply that is cut twice is missing.
    assert all(isinstance(r, Reply) or "is cut (length) again" in str(r) for r in replies)

    tokens = count_tokens(url, TEXT)
    first, *others = list(ledger.charges())
    assert len(others) >= len(chunks) - 1
    for charge in others:
        # The server may know the instructions, but not the document, from an earlier test.
        assert charge.cached >= first.cached + 0.9 * tokens, "the cache served the document"
        assert charge.input > charge.cached
    assert max(charge.output for charge in others) <= 4 * 12, "the larger room was kept"
    assert ledger.spent() == 0.0, "a model on this machine is free"
    assert estimate_tokens(TEXT) == pytest.approx(tokens, rel=ESTIMATE_ERROR)


@pytest.mark.long
def test_the_projects_own_prompts_bring_valid_replies_or_say_why_not(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Choices and schemas by the real protocol; the share of valid ones."""
    cache = CallCache(Database(tmp_path / "calls.sqlite"))
    term = TEXT[TEXT.index("2. Term") : TEXT.index("3. Return")].strip()
    law = TEXT[TEXT.index("4. Governing") :].strip()
    hit = ScoredChunk("nda.txt#0", "nda.txt", 0, len(term), term, 1.0)
    question = "How long does confidentiality last?"

    def asking(most: int) -> Ask:
        return lambda prompts: ask(prompts, model(url, most), cache)

    def models(most: int) -> Any:
        return SimpleNamespace(ask=lambda prompts, chat: asking(most)(prompts))

    found: dict[str, Sequence[object]] = {
        "judge": judge_passages([(question, Shown(term)), (question, Shown(law))], asking(4)),
        "entities": ChatEntities(extractor="llm", chat="local").extract([term], models(16)),
        "context judge": ChatContext(judge="llm", chat="local").judge_contexts(
            [Answered(Query("q", question), [hit], Answer("Five years.", answered=True))],
            models(24),
        ),
    }
    valid = 0
    lines = []
    for name, replies in found.items():
        errors = [reply for reply in replies if isinstance(reply, ProviderError)]
        assert all(_WHY.search(str(error)) for error in errors), errors
        valid += len(replies) - len(errors)
        lines.append(f"{name}: {len(replies) - len(errors)} of {len(replies)}")
    count = sum(map(len, found.values()))
    with capsys.disabled():
        sys.stdout.write(
            f"\nvalid replies of SmolLM2-135M: {valid} of {count} ({'; '.join(lines)})\n"
        )
    assert valid >= 1


_WHY = re.compile(r"is cut \(length\) again|not of the schema|not one of the choices")
"""All that may be wrong with a reply; a server that fails is no such thing."""
