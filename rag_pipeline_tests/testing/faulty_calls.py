"""Many prompts through the real client to a server with faults, and runs that are killed."""

import email.utils
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from rag_pipeline.calls import CallCache, CallCounts, Database
from rag_pipeline.models.chat import Prompt, ask
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_calls import chat, texts
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
from rag_pipeline_tests.testing.model_calls import asked, chat
url, path, count = sys.argv[1:]
prompts = [f"p{n}" for n in range(int(count))]
asked(prompts, chat(url, max_concurrency=32), CallCache(opened(path)))
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
        settings = chat(server.url, max_concurrency=32, timeout_seconds=5.0)
        replies = ask(prompts, settings, cache, counts)
        sent = len(server.requests)
        assert ask(prompts, settings, cache) == replies
        assert len(server.requests) == sent
    assert texts(replies) == [f"P{n}" for n in range(count)]
    assert sorted(server.answered) == sorted(f"p{n}" for n in range(count))
    spoilt = ("cut in the reply", "broken JSON", "no JSON", "no choices")
    assert server.wasted.total() == sum(occurred[name] for name in spoilt)
    assert counts == CallCounts(count, 0)
    return occurred


def run_killed(place: str | Path, count: int, kill_after: int) -> int:
    """Kill a run at concurrency 32, run again; return how many calls were made twice."""
    seen: Counter[str] = Counter()
    enough = threading.Event()
    lock = threading.Lock()

    def answer(body: Body) -> str:
        prompt: str = body["messages"][-1]["content"]
        with lock:
            seen[prompt] += 1
            if seen.total() >= kill_after:
                enough.set()
        return prompt.upper()

    with serving(answer) as server:
        child = Forked(CHILD, server.url, place, count)
        assert enough.wait(120)
        child.kill()
        assert child.wait() == -signal.SIGKILL, "it was still asking"
        settings = chat(server.url, max_concurrency=32)
        replies = ask([Prompt(f"p{n}") for n in range(count)], settings, CallCache(opened(place)))
    assert texts(replies) == [f"P{n}" for n in range(count)]
    assert len(seen) == count
    return seen.total() - count
