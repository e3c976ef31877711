import asyncio
import itertools

import pytest

from rag_pipeline.calls import run_bounded


def test_at_most_so_many_are_in_flight_and_items_are_drawn_as_needed():
    drawn, running, most = 0, 0, 0

    def items():
        nonlocal drawn
        for n in range(1000):
            drawn += 1
            yield n

    done = []

    async def work(n: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert drawn - len(done) <= 7
        await asyncio.sleep(0)
        running -= 1
        done.append(n)

    asyncio.run(run_bounded(items(), work, 7))
    assert sorted(done) == list(range(1000))
    assert most == 7


def test_after_a_failure_nothing_begins_and_what_is_in_flight_comes_home():
    begun, home = [], []

    async def work(n: int) -> None:
        begun.append(n)
        if n == 2:
            raise ValueError("the first")
        for _ in range(10):
            await asyncio.sleep(0)
        home.append(n)

    with pytest.raises(ValueError, match="the first"):
        asyncio.run(run_bounded(itertools.count(), work, 5))
    assert begun == [0, 1, 2, 3, 4]
    assert home == [0, 1, 3, 4]


def test_what_does_not_come_home_in_time_is_cancelled():
    cancelled = []

    async def work(n: int) -> None:
        if n == 0:
            raise ValueError("the first")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(n)
            raise

    with pytest.raises(ValueError, match="the first"):
        asyncio.run(run_bounded(range(3), work, 3, grace_seconds=0.01))
    assert sorted(cancelled) == [1, 2]


def test_a_failing_iterator_is_told():
    def items():
        yield 1
        raise ValueError("no more")

    async def work(n: int) -> None:
        await asyncio.sleep(0)

    with pytest.raises(ValueError, match="no more"):
        asyncio.run(run_bounded(items(), work, 3))
