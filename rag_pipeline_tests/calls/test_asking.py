import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from rag_pipeline.calls import Asking, CallCache, CallCounts
from rag_pipeline.errors import ProviderError, StoreError

KEYS = [bytes([n]) for n in range(8)]


def asking_for(cache: CallCache, keys: list[bytes] = KEYS) -> Asking:
    return Asking(keys, cache, lambda done: None)


def test_answers_that_come_together_share_a_transaction_and_are_stored_on_return(
    cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    put = CallCache.put

    def counted(self: CallCache, new: Mapping[bytes, bytes], *usage: Any) -> None:
        written.append(len(new))
        put(self, new, *usage)

    monkeypatch.setattr(CallCache, "put", counted)

    async def store_all(asking: Asking) -> None:
        async with asking.storing() as store:

            async def one(key: bytes) -> None:
                await store({key: b"answer"}, {})
                assert cache.known([key])

            await asyncio.gather(*map(one, KEYS))

    asking = asking_for(cache)
    asyncio.run(store_all(asking))
    assert written == [8]
    assert asking.counts(KEYS) == CallCounts(made=8)


def test_an_answer_whose_worker_is_stopped_is_stored(cache: CallCache) -> None:
    async def stop() -> None:
        async with asking_for(cache).storing() as store:
            worker = asyncio.ensure_future(store({KEYS[0]: b"answer"}, {}))
            await asyncio.sleep(0)
            worker.cancel()

    asyncio.run(stop())
    assert cache.get(KEYS) == {KEYS[0]: b"answer"}


def test_a_failed_transaction_fails_every_answer_in_it(
    cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("full")

    async def store_all() -> list[Any]:
        async with asking_for(cache).storing() as store:
            stores = (store({key: b"answer"}, {}) for key in KEYS)
            return await asyncio.gather(*stores, return_exceptions=True)

    monkeypatch.setattr(CallCache, "put", full)
    assert [str(error) for error in asyncio.run(store_all())] == ["full"] * 8


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
