import asyncio
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select, update

from rag_pipeline.calls import Asking, CallCache, CallCounts, Claims, processes
from rag_pipeline.calls.sql import claims
from rag_pipeline.calls.sql import processes as process_table
from rag_pipeline.errors import ProviderError, StoreError
from rag_pipeline.models.chat import Prompt, ask
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_calls import chat, texts
from rag_pipeline_tests.testing.model_server import serving

KEYS = [bytes([n]) for n in range(8)]


def asking_for(cache: CallCache, keys: list[bytes] = KEYS) -> Asking:
    return Asking(keys, cache, lambda done: None)


def test_an_answer_is_stored_on_return(cache: CallCache) -> None:
    asking = asking_for(cache)
    asyncio.run(asking.store({KEYS[0]: b"answer"}))
    assert cache.get(KEYS) == asking.answers == {KEYS[0]: b"answer"}
    assert asking.counts(KEYS) == CallCounts(made=1)


def test_known_answers_are_not_asked_and_failures_are_counted(cache: CallCache) -> None:
    cache.put({KEYS[0]: b"known"})
    asking = asking_for(cache, KEYS[:3])

    def make(missing: list[bytes]) -> None:
        assert list(asking.claim(missing)) == KEYS[1:3]
        asking.keep({KEYS[1]: b"answer"})
        asking.fail({KEYS[2]: ProviderError("no")})

    asking.run(make)
    assert asking.answers == {KEYS[0]: b"known", KEYS[1]: b"answer"}
    assert cache.failures(KEYS) == {KEYS[2]: 1}
    assert asking.counts([*KEYS[:3], KEYS[0]]) == CallCounts(made=2, saved=2)


HOLDER = """
import sys
from rag_pipeline.calls import CallCache, Claims
from rag_pipeline_tests.testing.databases import opened
with Claims(CallCache(opened(sys.argv[1]))) as mine:
    mine.take([b"one", b"two"])
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def cache(database_place: str) -> CallCache:
    return CallCache(opened(database_place))


def test_a_key_is_one_runs_until_it_is_released(cache: CallCache) -> None:
    cache.put({b"done": b"answer"})
    with Claims(cache) as first, Claims(cache) as second:
        assert first.take([b"one", b"done"]) == {b"one"}
        assert second.take([b"one", b"two"]) == {b"two"}
        second.give_up([b"one"])
        assert second.take([b"one"]) == set(), "only its owner can release it"
        first.give_up([b"one"])
        assert second.take([b"one"]) == {b"one"}
    with Claims(cache) as third:
        assert third.take([b"one", b"two"]) == {b"one", b"two"}
    assert cache.database.read(select(func.count()).select_from(claims)) == [(0,)]


def test_the_claims_of_a_killed_process_are_free_at_once(
    cache: CallCache, database_place: str
) -> None:
    child = Forked(HOLDER, database_place)
    assert child.stdout.readline() == "held\n"
    with Claims(cache) as mine:
        assert mine.take([b"one", b"three"]) == {b"three"}
        child.kill()
        child.wait()
        assert mine.wait([b"one"], {}) == [b"one"]
        assert mine.take([b"one"]) == {b"one"}


def test_a_process_of_another_machine_counts_as_ended_when_it_was_not_seen_for_long(
    cache: CallCache, database_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Forked(HOLDER, database_place)
    assert child.stdout.readline() == "held\n"
    away = update(process_table).values(machine="another")
    cache.database.write(lambda connection: connection.execute(away))
    child.kill()
    child.wait()
    with Claims(cache) as mine:
        assert mine.take([b"one"]) == set(), "nobody here can tell that it has ended"
        monkeypatch.setattr(processes, "EXPIRY_SECONDS", 0.0)
        assert mine.wait([b"one"], {}) == [b"one"]
        assert mine.take([b"one"]) == {b"one"}


def test_a_process_that_works_is_seen_again_and_again(
    cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_HEARTBEAT_SECONDS", 0.05)
    with Claims(cache) as mine:
        mine.take([b"one"])
        (first,) = cache.database.read(select(process_table.c.seen))
        until = threading.Event()
        for _ in range(200):
            (now,) = cache.database.read(select(process_table.c.seen))
            if now.seen > first.seen:
                break
            until.wait(0.05)
        assert now.seen > first.seen


def test_others_answers_are_waited_for(cache: CallCache) -> None:
    with Claims(cache) as mine, ThreadPoolExecutor(1) as pool:
        with Claims(cache) as theirs:
            theirs.take([b"one"])
            known: dict[bytes, bytes] = {}
            waiting = pool.submit(mine.wait, [b"one"], known)
            cache.put({b"one": b"answer"})
            assert waiting.result() == []
        assert known == {b"one": b"answer"}


def test_runs_that_ask_the_same_at_once_pay_once(cache: CallCache, database_place: str) -> None:
    both_asked = threading.Barrier(2, timeout=300)
    firsts = threading.Semaphore(1)

    def answer(body: dict[str, Any]) -> str:
        # The first request is held until the other run has asked for something, too.
        if firsts.acquire(blocking=False):
            both_asked.wait()
        return str(body["messages"][-1]["content"]).upper()

    prompts = [Prompt(f"p{n}") for n in range(100)]
    with serving(answer) as server, ThreadPoolExecutor(2) as pool:
        settings = chat(server.url, max_concurrency=4)
        counts = [CallCounts(), CallCounts()]

        def run(n: int) -> list[Any]:
            own = CallCache(opened(database_place))
            if n == 1:
                both_asked.wait()
            return ask(prompts, settings, own, counts[n])

        runs = [pool.submit(run, n) for n in range(2)]
        replies = [run.result() for run in runs]
        assert len(server.requests) == 100
    assert replies[0] == replies[1]
    assert texts(replies[0]) == [f"P{n}" for n in range(100)]
    assert sum(c.made for c in counts) == 100
    assert sum(c.saved for c in counts) == 100


def test_claims_that_could_not_be_deleted_keep_nobody_waiting(cache, monkeypatch):
    database = cache.database

    def full(*arguments):
        raise StoreError("database or disk is full")

    with pytest.raises(StoreError, match="disk is full"), Claims(cache) as mine:
        assert mine.take([b"one"]) == {b"one"}
        monkeypatch.setattr(database, "delete", full)
    assert database.read(select(func.count()).select_from(claims)) == [(1,)]
    with pytest.raises(StoreError), Claims(cache) as again:
        assert again.wait([b"one"], {}) == [b"one"]
        assert again.take([b"one"]) == {b"one"}
    monkeypatch.undo()
    with Claims(cache):
        pass
    assert database.read(select(func.count()).select_from(claims)) == [(0,)]


def test_the_heartbeat_deletes_claims_that_could_not_be_deleted(cache, monkeypatch):
    database = cache.database
    with Claims(cache) as mine:
        mine.take([b"one"])
        database.unreleased.add(mine.owner)
        monkeypatch.setattr(processes, "_HEARTBEAT_SECONDS", 0.01)
        stop = threading.Event()
        monkeypatch.setattr(database, "release_claims", stop.set)
        place = weakref.ref(database), database.process_name, stop
        processes._renew_until(*place)
        assert stop.is_set()
        monkeypatch.undo()
