"""Tokens of OpenAI's models, by the vocabularies that a package carries."""

from pathlib import Path

import pytest

from rag_pipeline.calls import Database
from rag_pipeline.calls.costs import Ledger, estimate_tokens, estimating
from rag_pipeline.calls.costs.tokens import _FILES, Sampled, encoder
from rag_pipeline.models.chat import Prompt, expected_tokens
from rag_pipeline.models.providers.openai import ChatModel


@pytest.mark.parametrize(
    ("model", "text", "tokens"),
    [  # the counts that OpenAI's cookbook prints ("How to count tokens with tiktoken")
        ("text-embedding-3-small", "お誕生日おめでとう", 9),
        ("gpt-4o-mini", "お誕生日おめでとう", 8),
        ("gpt-5-mini", "antidisestablishmentarianism", 6),
    ],
)
def test_tokens_are_those_of_the_models_own_encoding(model: str, text: str, tokens: int) -> None:
    encode = encoder(model)
    assert encode is not None
    assert encode(text) == tokens


def test_a_plan_counts_what_it_can_and_estimates_the_rest(tmp_path: Path) -> None:
    ledger = Ledger(Database(tmp_path / "calls.sqlite"), "tiny")
    text = "antidisestablishmentarianism"
    with estimating(ledger.learned("openai", "gpt-5-mini", "chat", "answers")):
        assert estimate_tokens(text) == 6
        # Four tokens a message, and three for the reply.
        expected = expected_tokens(Prompt(text), ChatModel(provider="openai", model="m"), True)
        assert expected.input == 6 + 4 + 3
    with estimating(ledger.learned("far.example", "unknown", "chat", "answers")):
        assert estimate_tokens(text) == 28 / 4
    assert not ledger.database.exists, "a plan makes no file"


def test_of_many_texts_the_first_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_pipeline.calls.costs.tokens._MOST_COUNTED", 20)
    seen: list[str] = []
    count = Sampled(lambda text: seen.append(text) or len(text))  # type: ignore[func-returns-value]
    assert [count("x" * 40) for _ in range(4)] == [40] * 4
    assert len(seen) == 3, "30 estimated tokens, then by what they had"
    assert count("中" * 4) == 4, "of another alphabet nothing is known yet"


@pytest.mark.parametrize("content", [None, b"another vocabulary"])
def test_a_vocabulary_that_is_not_here_is_not_fetched(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / _FILES["o200k_base"][0]).write_bytes(content)
    monkeypatch.setattr("rag_pipeline.calls.costs.tokens._folders", lambda: [tmp_path])
    assert encoder.__wrapped__("gpt-5-mini") is None
    assert len(list(tmp_path.iterdir())) == (content is not None), "and none is deleted"
