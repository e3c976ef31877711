import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from rag_pipeline.calls import CallCache, CallCounts
from rag_pipeline.calls.costs import Ledger, Prices, attributed, charging
from rag_pipeline.errors import BudgetError, ProviderError
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing.model_calls import chat, texts
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving

SCHEMA = {
    "type": "object",
    "properties": {"level": {"enum": ["high", "low"]}},
    "required": ["level"],
    "additionalProperties": False,
}


def test_distinct_prompts_are_asked_once_and_answered_in_order(cache: CallCache) -> None:
    with serving(lambda body: body["messages"][-1]["content"].upper()) as server:
        counts = CallCounts()
        prompts = [Prompt("b"), Prompt("a", system="Shout."), Prompt("b")]
        replies = ask(prompts, chat(server.url), cache, counts)
        again = ask(prompts[:1], chat(server.url), cache, counts)
    assert texts(replies) == ["B", "A", "B"]
    assert again == replies[:1]
    assert len(server.requests) == 2
    assert (counts.made, counts.saved) == (2, 2)
    by_prompt = {request["messages"][-1]["content"]: request for request in server.bodies}
    assert by_prompt["a"]["messages"][0] == {"role": "system", "content": "Shout."}
    assert by_prompt["a"]["temperature"] == 0.0
    one = replies[1]
    assert isinstance(one, Reply)
    assert (one.usage.input_tokens, one.usage.output_tokens) == (2, 1)


def test_a_schema_is_sent_and_a_wrong_reply_repaired_once(cache: CallCache) -> None:
    answers = iter(["high, I think", '{"level": "high"}'])
    with serving(lambda body: next(answers)) as server:
        (reply,) = ask([Prompt("how?", schema=SCHEMA)], chat(server.url), cache)
    assert isinstance(reply, Reply)
    assert reply.data == {"level": "high"}
    sent = server.bodies[0]["response_format"]["json_schema"]
    assert sent["schema"] == SCHEMA
    assert "no JSON" in server.prompts[1]
    assert reply.usage.output_tokens == 3 + 2


def test_a_choice_is_read_whatever_its_case_and_asked_for_again_where_it_is_not_one(
    cache: CallCache,
) -> None:
    told = {"plain": "Yes.", "both": "YES or NO", "late": "**no**"}
    repaired = False

    def answer(body: dict[str, Any]) -> str:
        prompt = body["messages"][0]["content"]
        return "NO" if repaired and prompt == "both" else told[prompt]

    prompts = [Prompt(p, choices=("YES", "NO")) for p in told]
    with serving(answer) as server:
        first = ask(prompts, chat(server.url), cache)
        sent = len(server.requests)
        repaired = True
        second = ask(prompts, chat(server.url), cache)
    assert sent == 4, "the reply that names both is asked for once more"
    assert "is not one of: YES, NO" in str(first[1])
    assert len(server.requests) == sent + 1, "and again in the next run, as the only one"
    assert [r.data for r in (first[0], first[2]) if isinstance(r, Reply)] == ["YES", "NO"]
    assert [r.data for r in second if isinstance(r, Reply)] == ["YES", "NO", "NO"]


def test_failures_come_back_in_place_and_are_asked_again(cache: CallCache) -> None:
    broken = True

    def answer(body: dict[str, Any]) -> str | Fault:
        prompt = body["messages"][0]["content"]
        if broken and prompt == "refused":
            return Fault(400, "too long")
        return json.dumps({"level": "medium"}) if prompt == "nonsense" else '{"level": "low"}'

    prompts = [Prompt(p, schema=SCHEMA) for p in ("refused", "fine", "nonsense")]
    with serving(answer) as server:
        first = ask(prompts, chat(server.url), cache)
        broken = False
        sent = len(server.requests)
        second = ask(prompts[:2], chat(server.url), cache)
        assert len(server.requests) == sent + 1
    assert isinstance(first[0], ProviderError)
    assert "too long" in str(first[0])
    assert isinstance(first[1], Reply)
    assert isinstance(first[2], ProviderError)
    assert "not of the schema" in str(first[2])
    assert all(isinstance(r, Reply) for r in second)


def test_a_missing_key_is_named(cache: CallCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = ChatModel(provider="openai", model="gpt-4o-mini")
    with pytest.raises(ProviderError, match="OPENAI_API_KEY is not set"):
        ask([Prompt("hi")], settings, cache)


def test_the_first_prompt_of_a_prefix_is_answered_before_the_others_start(cache: CallCache) -> None:
    answered: set[str] = set()
    order: list[str] = []
    cold: list[str] = []

    def answer(body: dict[str, Any]) -> str:
        document = body["messages"][-1]["content"][:2]
        order.append(document)
        if document not in answered:
            cold.append(document)
        answered.add(document)
        return "a context"

    names = [f"d{n}" for n in range(6)]
    prompts = [Prompt(f" chunk {c}", prefix=name) for c in range(5) for name in names]
    with serving(answer) as server:
        replies = ask(prompts, chat(server.url, max_concurrency=3), cache)
    assert all(isinstance(reply, Reply) for reply in replies)
    assert sorted(cold) == names, "each document was read once without the cache"
    # Two of their fifteen calls may still be on their way when the fourth document begins.
    assert set(order[:13]) == {"d0", "d1", "d2"}, "no more documents than calls at a time"


def test_when_the_first_prompt_of_a_prefix_fails_the_others_are_asked(cache: CallCache) -> None:
    def answer(body: dict[str, Any]) -> str | Fault:
        failing = body["messages"][-1]["content"] == "document 0"
        return Fault(400, "no") if failing else "fine"

    prompts = [Prompt(f" {n}", prefix="document") for n in range(4)]
    with serving(answer) as server:
        replies = ask(prompts, chat(server.url), cache)
    assert isinstance(replies[0], ProviderError)
    assert all(isinstance(reply, Reply) for reply in replies[1:])


def test_every_answer_is_charged_and_a_reached_budget_stops_the_calls(cache: CallCache) -> None:
    answers = iter(["nonsense", '{"level": "low"}', '{"level": "high"}', '{"level": "low"}'])
    with serving(lambda body: next(answers)) as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        listed = {host: {"date": "2026-11-21", "models": {"*": {"output": 1.0}}}}
        priced = Prices.model_validate({"providers": listed})
        ledger = Ledger(cache.database, "tiny", priced, budget_usd=1.54e-4)
        settings = chat(server.url, max_concurrency=1)
        with charging(ledger), attributed("judgements", "one", ["one"]):
            ask([Prompt("a", schema=SCHEMA)], settings, cache)
            with pytest.raises(
                BudgetError, match=r"0\.0001 USD more would exceed budget_usd 0\.000154"
            ):
                ask([Prompt(p, schema=SCHEMA) for p in "abcd"], settings, cache)
        charges = list(ledger.charges())
        # 1 + 2 tokens of a repaired reply, then 2: of 154, 149 are left, a usual reply has 150.
        assert [charge.output for charge in charges] == [1, 2, 2]
        assert {charge.asset for charge in charges} == {"judgements"}
        raised = Ledger(ledger.database, "tiny", priced, budget_usd=1.0)
        with charging(raised):
            replies = ask([Prompt(p, schema=SCHEMA) for p in "ab"], settings, cache)
        assert all(isinstance(reply, Reply) for reply in replies)
        assert len(server.requests) == 3, "what was paid for before the stop is kept"


def test_a_paid_first_reply_is_kept_where_its_repair_fails(cache: CallCache) -> None:
    down = True

    def answer(body: dict[str, Any]) -> str | Fault:
        if len(body["messages"]) == 1:
            return "nonsense"
        return Fault(400, "no") if down else '{"level": "low"}'

    with serving(answer) as server:
        settings = chat(server.url)
        (failed,) = ask([Prompt("a", schema=SCHEMA)], settings, cache)
        assert isinstance(failed, ProviderError)
        down = False
        (reply,) = ask([Prompt("a", schema=SCHEMA)], settings, cache)
        assert isinstance(reply, Reply)
        assert reply.data == {"level": "low"}
        assert [len(body["messages"]) for body in server.bodies] == [1, 3, 3]
        # Both replies' tokens, the kept one's included.
        assert reply.usage.output_tokens == 1 + 2


def said(content: Any) -> Callable[[dict[str, Any]], Any]:
    """Return what puts something else into the place of a reply's text."""

    def change(reply: dict[str, Any]) -> Any:
        (choice,) = reply["choices"]
        return {**reply, "choices": [{**choice, "message": {**choice["message"], **content}}]}

    return change


PARTS = [
    {"type": "thinking", "text": "well"},
    {"type": "text", "text": "a"},
    {"type": "text", "text": "b"},
]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (said({"content": "half \ud800 and \x00"}), "half \ufffd and \x00"),
        (said({"content": PARTS}), "ab"),
        *[
            (lambda reply, used=used: {**reply, "usage": used}, "P")
            for used in (
                {"prompt_tokens": "12", "completion_tokens": "x", "total_tokens": None},
                {"prompt_tokens": -5, "completion_tokens": 10**30, "total_tokens": 1.5},
            )
        ],
    ],
)
def test_an_odd_reply_is_read_and_kept(change: Any, text: str, cache: CallCache) -> None:
    with serving(lambda body: change) as server:
        (reply,) = ask([Prompt("p")], chat(server.url), cache)
        assert isinstance(reply, Reply)
        assert reply.text == text
        assert min(reply.usage.input_tokens, reply.usage.output_tokens) >= 0
        assert ask([Prompt("p")], chat(server.url), cache) == [reply]
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"choices": {"a": 1}}, "the reply is not a completion: "),
        ({"choices": [{"message": {"content": [7]}}]}, "the reply is not a completion: "),
        ({"error": {"message": "overloaded"}}, r"the reply has no choices: .*overloaded"),
    ],
)
def test_a_reply_that_is_none_says_so(
    reply: Any, reason: str, cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)
    with serving(lambda body: lambda right: reply) as server:
        (failure,) = ask([Prompt("p")], chat(server.url), cache)
    assert isinstance(failure, ProviderError)
    assert re.search(reason, str(failure))


def test_half_a_surrogate_in_json_is_asked_for_again(cache: CallCache) -> None:
    schema = {"type": "object", "properties": {"level": {"type": "string"}}}
    answers = iter(['{"level": "\\ud83d"}', '{"level": "\\ud83d\\ude00"}'])
    with serving(lambda body: next(answers)) as server:
        (reply,) = ask([Prompt("p", schema=schema)], chat(server.url), cache)
    assert isinstance(reply, Reply)
    assert reply.data == {"level": "\U0001f600"}
