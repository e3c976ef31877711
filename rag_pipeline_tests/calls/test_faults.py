"""Faults of a chat server and killed runs, through the real client."""

import threading
from typing import Any

import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.errors import CallsStoppedError
from rag_pipeline_tests.testing.faulty_calls import run_killed
from rag_pipeline_tests.testing.model_calls import asked, chat
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving


def test_a_run_killed_at_concurrency_32_makes_at_most_32_calls_again(database_place: str) -> None:
    assert run_killed(database_place, 400, 150) <= 32


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (
            Fault(401, "Incorrect API key provided: sk-proj-abcdefgh"),
            r"^m at 127\S+ \(OPENAI_API_KEY\): .*Incorrect API key provided: \[key\].*"
            r"\(HTTP 401\); check the key$",
        ),
        (
            Fault(404, "The model `m` does not exist"),
            r"The model `m` does not exist.*\(HTTP 404\); check model and base_url$",
        ),
        (
            Fault(429, b'{"error": {"message": "no", "code": "insufficient_quota"}}'),
            r"\(HTTP 429\); pay the provider's bill or raise its limit$",
        ),
    ],
)
def test_what_no_call_can_survive_is_one_line_and_few_calls(
    cache: CallCache, fault: Fault, line: str
) -> None:
    with serving(lambda body: fault) as server:
        settings = chat(server.url, max_concurrency=4)
        with pytest.raises(CallsStoppedError, match=line) as failure:
            asked([f"p{n}" for n in range(100)], settings, cache)
        # Three prompts are refused, others are on their way, and each may be followed by a probe.
        assert len(server.requests) <= 3 * 4
    assert "\n" not in str(failure.value)


def test_a_server_that_is_not_there_is_one_line(cache: CallCache) -> None:
    with serving(lambda body: "") as server:
        url = server.url
    settings = chat(url, max_concurrency=4, patience_seconds=1.0)
    with pytest.raises(CallsStoppedError, match=r"^m at 127\S+:.*(refused|failed)") as failure:
        asked([f"p{n}" for n in range(100)], settings, cache)
    assert "\n" not in str(failure.value)


def test_a_model_that_refuses_says_why_and_the_others_go_on(cache: CallCache) -> None:
    refusal = Fault(
        200,
        b'{"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [{"index"'
        b': 0, "finish_reason": "stop", "message": {"role": "assistant", "content": null, '
        b'"refusal": "I cannot help with that."}}]}',
    )
    with serving(lambda body: refusal if "bad" in str(body["messages"]) else "ok") as server:
        bad, good = asked(["bad", "good"], chat(server.url), cache)
    assert "refused: I cannot help with that." in bad
    assert good == "ok"


def test_what_was_answered_before_an_outage_is_kept(cache: CallCache) -> None:
    down = threading.Event()
    lock = threading.Lock()
    answered: list[str] = []

    def answer(body: dict[str, Any]) -> str | Fault:
        with lock:
            if len(answered) == 50:
                down.set()
            if down.is_set():
                return Fault(503)
            answered.append(body["messages"][-1]["content"])
        return "ok"

    prompts = [f"p{n}" for n in range(200)]
    with serving(answer) as server, pytest.raises(CallsStoppedError, match="HTTP 503"):
        asked(prompts, chat(server.url, patience_seconds=1.0), cache)
    assert 50 <= len(answered) == len(cache)


@pytest.mark.parametrize("status", [402, 403, 404])
def test_a_prompt_refused_by_a_filter_is_missing_alone_and_asked_once_by_the_next_run(
    cache: CallCache, status: int
) -> None:
    prompts = ["p0", *(f"bad {n}" for n in range(4)), *(f"p{n}" for n in range(1, 40))]

    def answer(body: dict[str, Any]) -> str | Fault:
        asked_for = str(body["messages"][-1]["content"])
        return Fault(status, "flagged") if "bad" in asked_for else "ok"

    with serving(answer) as server:
        settings = chat(server.url, max_concurrency=1)
        found = dict(zip(prompts, asked(prompts, settings, cache), strict=True))
        assert [p for p, said in found.items() if said != "ok"] == [f"bad {n}" for n in range(4)]
        assert "flagged" in found["bad 0"]
        assert "check" not in found["bad 0"], "the key and the model are right"
        assert len(server.requests) == 44
        assert asked(prompts, settings, cache) == list(found.values())
        assert len(server.requests) == 48


def test_a_bill_that_is_due_in_the_middle_of_a_run_stops_it(cache: CallCache) -> None:
    with serving(lambda body: "ok" if len(server.requests) < 9 else Fault(402, "no")) as server:
        with pytest.raises(CallsStoppedError, match=r"no \(HTTP 402\); pay the bill"):
            asked([f"p{n}" for n in range(100)], chat(server.url, max_concurrency=1), cache)
        assert len(server.requests) == 8 + 20 + 1, "the last one is a probe"
        assert len(cache) == 8
