import asyncio

from rag_pipeline.calls import Asking, CallCache, CallCounts
from rag_pipeline.errors import ProviderError

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
