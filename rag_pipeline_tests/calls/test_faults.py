"""Faults of a chat server and killed runs, through the real client."""

import threading
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.errors import CallsStoppedError
from rag_pipeline_tests.testing.faulty_calls import run_killed, run_with_faults
from rag_pipeline_tests.testing.model_calls import asked, chat
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving


def test_with_a_third_of_the_requests_failing_every_prompt_is_answered_in_order_and_paid_once(
    tmp_path: Path,
) -> None:
    occurred = run_with_faults(tmp_path, 150)
    assert occurred.total() > 150 * 0.2
    assert len(occurred) == 11, "every kind of fault has occurred"


def test_a_run_killed_at_concurrency_32_makes_at_most_32_calls_again(database_place: str) -> None:
    assert run_killed(database_place, 400, 150) <= 32


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (
            Fault(401, "Incorrect API key provided: sk-proj-abcdefgh"),
            r"^m at http\S+ \(OPENAI_API_KEY\): .*Incorrect API key provided: \[key\].*"
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
        assert len(server.requests) <= 4
    assert "\n" not in str(failure.value)


def test_a_server_that_is_not_there_is_one_line(cache: CallCache) -> None:
    with serving(lambda body: "") as server:
        url = server.url
    settings = chat(url, max_concurrency=4, patience_seconds=1.0)
    with pytest.raises(CallsStoppedError, match=r"^m at http\S+:.*(refused|failed)") as failure:
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
