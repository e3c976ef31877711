"""Many prompts through the real client to a server with faults, and runs that are killed."""

import email.utils
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from rag_pipeline.calls import CallCache, CallCounts, Database
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_faults import (
    CUT,
    CUT_REPLY,
    HANG,
    Chance,
    Failure,
    Fault,
    garbled,
)
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import serving

CHILD = """
import sys
from rag_pipeline.calls import CallCache
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline.models.chat import Prompt, ask
from rag_pipeline.models.providers.openai import ChatModel
url, path, count = sys.argv[1:]
settings = ChatModel(provider="openai", model="m", base_url=url, max_concurrency=32)
ask([Prompt(f"p{n}") for n in range(int(count))], settings, CallCache(opened(path)))
"""


def chat_faults() -> dict[str, Failure]:
    past = email.utils.formatdate(time.time() - 5, usegmt=True)
    return {
        "429": Fault(429),
        "429 seconds": Fault(429, headers={"Retry-After": "0.05"}),
        "429 date": Fault(429, headers={"Retry-After": past}),
        "500": Fault(500),
        "503": Fault(503, headers={"Retry-After": "0.1"}),
        "hang": HANG,
        "cut": CUT,
        "cut in the reply": CUT_REPLY,
        "broken JSON": garbled,
        "no JSON": Fault(200, b"<html>busy</html>"),
        "no choices": Fault(200, b"{}"),
    }


def run_with_faults(folder: Path, count: int, share: float = 0.3) -> Counter[str]:
    """Ask many prompts of a faulty server; check that each is answered, in order, once.

    Return how often each fault occurred.
    """
    ways = chat_faults()
    occurred: Counter[str] = Counter()
    chance = Chance(5)

    def faults(path: str, body: Body) -> Failure:
        drawn = chance.of(path, body)
        if drawn.random() >= share:
            return None
        name = drawn.choice(list(ways))
        occurred[name] += 1
        return ways[name]

    prompts = [Prompt(f"p{n}") for n in range(count)]
    counts = CallCounts()
    cache = CallCache(Database(folder / "calls.sqlite"))
    with serving(faults=faults) as server:
        settings = ChatModel(
            provider="openai", model="m", base_url=server.url, max_concurrency=32,
            timeout_seconds=5.0,
        )  # fmt: skip
        replies = ask(prompts, settings, cache, counts)
        sent = len(server.requests)
        assert ask(prompts, settings, cache) == replies
        assert len(server.requests) == sent
    assert [r.text for r in replies if isinstance(r, Reply)] == [f"P{n}" for n in range(count)]
    assert sorted(server.answered) == sorted(f"p{n}" for n in range(count))
    spoilt = ("cut in the reply", "broken JSON", "no JSON", "no choices")
    assert server.wasted.total() == sum(occurred[name] for name in spoilt)
    assert counts == CallCounts(count, 0)
    return occurred


def run_killed(place: str | Path, count: int, kill_after: int) -> int:
    """Kill a run at concurrency 32, run again; return how many calls were made twice."""
    asked: Counter[str] = Counter()
    enough = threading.Event()
    lock = threading.Lock()

    def answer(body: Body) -> str:
        prompt: str = body["messages"][-1]["content"]
        with lock:
            asked[prompt] += 1
            if sum(asked.values()) >= kill_after:
                enough.set()
        return prompt.upper()

    with serving(answer) as server:
        child = Forked(CHILD, server.url, place, count)
        assert enough.wait(120)
        child.kill()
        assert child.wait() == -signal.SIGKILL, "it was still asking"
        settings = ChatModel(provider="openai", model="m", base_url=server.url, max_concurrency=32)
        replies = ask([Prompt(f"p{n}") for n in range(count)], settings, CallCache(opened(place)))
    assert [r.text for r in replies if isinstance(r, Reply)] == [f"P{n}" for n in range(count)]
    assert len(asked) == count
    return sum(asked.values()) - count
