"""Many prompts through the real client to a server with faults, and runs that are killed."""

import email.utils
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.calls import CallCache, CallCounts
from rag_pipeline.config import ChatModel
from rag_pipeline.errors import CallsStoppedError, ProviderError
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline_tests.testing.openai_server import CUT, HANG, Fault, serving

CHILD = """
import sys; from pathlib import Path
from rag_pipeline.calls import CallCache
from rag_pipeline.models.chat import Prompt, ask
from rag_pipeline.config import ChatModel
url, path, count = sys.argv[1:]
settings = ChatModel(provider="openai", model="m", base_url=url, max_concurrency=32)
ask([Prompt(f"p{n}") for n in range(int(count))], settings, CallCache(Path(path)))
"""


class Faulty:
    """Answers in capitals, each prompt once; a share of the requests fails before that."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._chance = random.Random(5)
        self._lock = threading.Lock()
        self.faults: Counter[str] = Counter()
        self.paid: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> str | Fault:
        prompt: str = body["messages"][-1]["content"]
        with self._lock:
            if self._chance.random() < self._share:
                name, fault = self._fault()
                self.faults[name] += 1
                return fault
            self.paid[prompt] += 1
        return prompt.upper()

    def _fault(self) -> tuple[str, Fault]:
        past = email.utils.formatdate(time.time() - 5, usegmt=True)
        faults = {
            "429": Fault(429),
            "429 seconds": Fault(429, headers={"Retry-After": "0.05"}),
            "429 date": Fault(429, headers={"Retry-After": past}),
            "500": Fault(500),
            "503": Fault(503, headers={"Retry-After": "0.1"}),
            "hang": Fault(HANG),
            "cut": Fault(CUT),
            "broken JSON": Fault(200, b'{"id": "chatcmpl-1", "choices": [{"mess'),
            "no JSON": Fault(200, b"<html>busy</html>"),
            "no choices": Fault(200, b"{}"),
        }
        name = self._chance.choice(list(faults))
        return name, faults[name]


def run_with_faults(folder: Path, count: int, share: float = 0.3) -> Faulty:
    """Ask many prompts of a faulty server and check that each is answered, in order, paid once."""
    faulty = Faulty(share)
    prompts = [Prompt(f"p{n}") for n in range(count)]
    counts = CallCounts()
    cache = CallCache(folder / "calls.sqlite")
    with serving(faulty) as server:
        settings = ChatModel(
            provider="openai", model="m", base_url=server.url, max_concurrency=32,
            timeout_seconds=5.0,
        )  # fmt: skip
        replies = ask(prompts, settings, cache, counts)
        sent = len(server.requests)
        assert ask(prompts, settings, cache) == replies
        assert len(server.requests) == sent
    assert [r.text for r in replies if isinstance(r, Reply)] == [f"P{n}" for n in range(count)]
    assert faulty.paid == Counter(f"p{n}" for n in range(count))
    assert counts == CallCounts(count, 0)
    return faulty


def test_with_a_third_of_the_requests_failing_every_prompt_is_answered_in_order_and_paid_once(
    tmp_path: Path,
) -> None:
    faulty = run_with_faults(tmp_path, 150)
    assert sum(faulty.faults.values()) > 150 * 0.2
    assert len(faulty.faults) == 10, "every kind of fault has occurred"


def run_killed(folder: Path, count: int, kill_after: int) -> int:
    """Kill a run at concurrency 32, run again; return how many calls were made twice."""
    asked: Counter[str] = Counter()
    enough = threading.Event()
    lock = threading.Lock()

    def answer(body: dict[str, Any]) -> str:
        prompt: str = body["messages"][-1]["content"]
        with lock:
            asked[prompt] += 1
            if sum(asked.values()) >= kill_after:
                enough.set()
        return prompt.upper()

    path = folder / "calls.sqlite"
    with serving(answer) as server:
        command = [sys.executable, "-W", "ignore", "-c", CHILD, server.url, str(path), str(count)]
        child = subprocess.Popen(command)
        assert enough.wait(120)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL, "it was still asking"
        settings = ChatModel(provider="openai", model="m", base_url=server.url, max_concurrency=32)
        replies = ask([Prompt(f"p{n}") for n in range(count)], settings, CallCache(path))
    assert [r.text for r in replies if isinstance(r, Reply)] == [f"P{n}" for n in range(count)]
    assert len(asked) == count
    return sum(asked.values()) - count


def test_a_run_killed_at_concurrency_32_makes_at_most_32_calls_again(tmp_path: Path) -> None:
    assert run_killed(tmp_path, 400, 150) <= 32


@pytest.fixture
def cache(tmp_path: Path) -> CallCache:
    return CallCache(tmp_path / "calls.sqlite")


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (
            Fault(401, b'{"error": {"message": "Incorrect API key provided: sk-proj-abcdefgh"}}'),
            r"^m at http\S+ \(OPENAI_API_KEY\): .*Incorrect API key provided: \[key\].*"
            r"\(HTTP 401\); check the key$",
        ),
        (
            Fault(404, b'{"error": {"message": "The model `m` does not exist"}}'),
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
        settings = ChatModel(provider="openai", model="m", base_url=server.url, max_concurrency=4)
        with pytest.raises(CallsStoppedError, match=line) as failure:
            ask([Prompt(f"p{n}") for n in range(100)], settings, cache)
        assert len(server.requests) <= 4
    assert "\n" not in str(failure.value)


def test_a_server_that_is_not_there_is_one_line(cache: CallCache) -> None:
    with serving(lambda body: "") as server:
        url = server.url
    settings = ChatModel(
        provider="openai", model="m", base_url=url, max_concurrency=4, patience_seconds=1.0
    )
    with pytest.raises(CallsStoppedError, match=r"^m at http\S+:.*(refused|failed)") as failure:
        ask([Prompt(f"p{n}") for n in range(100)], settings, cache)
    assert "\n" not in str(failure.value)


def test_a_model_that_refuses_says_why_and_the_others_go_on(cache: CallCache) -> None:
    refusal = Fault(
        200,
        b'{"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [{"index"'
        b': 0, "finish_reason": "stop", "message": {"role": "assistant", "content": null, '
        b'"refusal": "I cannot help with that."}}]}',
    )
    with serving(lambda body: refusal if "bad" in str(body["messages"]) else "ok") as server:
        settings = ChatModel(provider="openai", model="m", base_url=server.url)
        bad, good = ask([Prompt("bad"), Prompt("good")], settings, cache)
    assert isinstance(bad, ProviderError)
    assert "refused: I cannot help with that." in str(bad)
    assert isinstance(good, Reply)


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

    prompts = [Prompt(f"p{n}") for n in range(200)]
    with serving(answer) as server:
        settings = ChatModel(
            provider="openai", model="m", base_url=server.url, patience_seconds=1.0
        )
        with pytest.raises(CallsStoppedError, match="HTTP 503"):
            ask(prompts, settings, cache)
    assert 50 <= len(answered) == len(cache)
