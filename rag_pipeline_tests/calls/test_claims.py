import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rag_pipeline.calls import CallCache, CallCounts, Claims
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_server import serving

HOLDER = """
import sys; from pathlib import Path
from rag_pipeline.calls import CallCache, Claims
with Claims(CallCache(Path(sys.argv[1]))) as mine:
    mine.take([b"one", b"two"])
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_key_is_one_runs_until_it_is_let_go(cache: CallCache) -> None:
    cache.put({b"done": b"answer"})
    with Claims(cache) as first, Claims(cache) as second:
        assert first.take([b"one", b"done"]) == {b"one"}
        assert second.take([b"one", b"two"]) == {b"two"}
        second.give_up([b"one"])
        assert second.take([b"one"]) == set(), "only its owner can let it go"
        first.give_up([b"one"])
        assert second.take([b"one"]) == {b"one"}
    with Claims(cache) as third:
        assert third.take([b"one", b"two"]) == {b"one", b"two"}


def test_a_killed_process_holds_nothing(cache: CallCache) -> None:
    child = Forked(HOLDER, cache.path)
    assert child.stdout.readline() == "held\n"
    with Claims(cache) as mine:
        assert mine.take([b"one", b"three"]) == {b"three"}
        child.kill()
        child.wait()
        assert mine.wait([b"one"], {}) == [b"one"]
        assert mine.take([b"one"]) == {b"one"}
    with Claims(cache):
        assert set(cache.claimed([b"one", b"two", b"three"])) == set(), "swept"


def test_a_claim_of_a_run_that_lives_does_not_lapse(cache: CallCache) -> None:
    with Claims(cache) as slow, Claims(cache) as mine:
        slow.take([b"one"])
        with cache.connection() as connection:
            connection.execute("UPDATE claims SET since = since - 86400")
        assert mine.take([b"one"]) == set()


def test_others_answers_are_waited_for(cache: CallCache) -> None:
    with Claims(cache) as mine, ThreadPoolExecutor(1) as pool:
        with Claims(cache) as theirs:
            theirs.take([b"one"])
            known: dict[bytes, bytes] = {}
            waiting = pool.submit(mine.wait, [b"one"], known)
            cache.put({b"one": b"answer"})
            assert waiting.result() == []
        assert known == {b"one": b"answer"}


def test_runs_that_ask_the_same_at_once_pay_once(cache: CallCache) -> None:
    both_asked = threading.Barrier(2, timeout=30)
    firsts = threading.Semaphore(1)

    def answer(body: dict[str, Any]) -> str:
        # The first request is held until the other run has asked for something, too.
        if firsts.acquire(blocking=False):
            both_asked.wait()
        return str(body["messages"][-1]["content"]).upper()

    prompts = [Prompt(f"p{n}") for n in range(100)]
    with serving(answer) as server, ThreadPoolExecutor(2) as pool:
        settings = ChatModel(provider="openai", model="m", base_url=server.url, max_concurrency=4)
        counts = [CallCounts(), CallCounts()]

        def run(n: int) -> list[Any]:
            own = CallCache(cache.path)
            if n == 1:
                both_asked.wait()
            return ask(prompts, settings, own, counts[n])

        runs = [pool.submit(run, n) for n in range(2)]
        replies = [run.result() for run in runs]
        assert len(server.requests) == 100
    assert replies[0] == replies[1]
    assert [r.text for r in replies[0] if isinstance(r, Reply)] == [f"P{n}" for n in range(100)]
    assert sum(c.made for c in counts) == 100
    assert sum(c.saved for c in counts) == 100
