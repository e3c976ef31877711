"""Requests work in turns: some at a time, first come first served, and none waits for long."""

import asyncio

import pytest

from rag_pipeline.serving.turns import Turns


async def settle():
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_next_in_line_begins_when_a_turn_ends():
    async def scene():
        turns, order = Turns(2, 600.0), []

        async def request(name):
            await turns.begin()
            order.append(name)

        tasks = [asyncio.create_task(request(n)) for n in range(5)]
        await settle()
        assert (order, turns.working, turns.waiting) == ([0, 1], 2, 3)
        turns.end()
        await settle()
        assert (order, turns.working, turns.waiting) == ([0, 1, 2], 2, 2)
        tasks[3].cancel()  # its client went away
        await settle()
        turns.end()
        await settle()
        assert (order, turns.working, turns.waiting) == ([0, 1, 2, 4], 2, 0)
        turns.end()
        turns.end()
        assert turns.working == 0

    asyncio.run(scene())


def test_who_waits_too_long_is_refused_and_loses_no_turn():
    async def scene():
        turns = Turns(1, 0.0)
        await turns.begin()
        with pytest.raises(TimeoutError):
            await turns.begin()
        assert (turns.working, turns.waiting) == (1, 0)
        turns.end()
        await turns.begin()
        assert turns.working == 1

    asyncio.run(scene())


def test_a_request_that_sends_its_reply_lets_another_work():
    async def scene():
        turns = Turns(1, 600.0)
        await turns.begin()
        other = asyncio.create_task(turns.begin())
        await settle()
        turns.end()  # the reply is sent; its client reads slowly
        await settle()
        assert other.done()
        turns.go_on()
        assert turns.working == 2, "it never waits again"
        last = asyncio.create_task(turns.begin())
        turns.end()
        await settle()
        assert not last.done(), "one still works"
        turns.end()
        await settle()
        assert last.done()

    asyncio.run(scene())
