"""Requests work in turns: some at a time, each client's in order, and none waits for long."""

import asyncio
import gc
import threading

import pytest

from rag_pipeline.search import deadlines
from rag_pipeline.serving.guards import Guards
from rag_pipeline.serving.server import _NotAwaited
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline.serving.turns import Turns


async def settle():
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_next_in_line_begins_when_a_turn_ends():
    async def scene():
        turns, order = Turns(2, 600.0), []

        async def request(name):
            await turns.begin("a")
            order.append(name)

        tasks = [asyncio.create_task(request(n)) for n in range(5)]
        await settle()
        assert (order, turns.working, turns.waiting) == ([0, 1], 2, 3)
        turns.end("a")
        await settle()
        assert (order, turns.working, turns.waiting) == ([0, 1, 2], 2, 2)
        tasks[3].cancel()  # its client went away
        await settle()
        turns.end("a")
        await settle()
        assert (order, turns.working, turns.waiting) == ([0, 1, 2, 4], 2, 0)
        turns.end("a")
        turns.end("a")
        assert turns.working == 0

    asyncio.run(scene())


def test_a_client_with_many_requests_keeps_no_other_out():
    async def scene():
        turns, order = Turns(4, 600.0), []

        async def request(client):
            await turns.begin(client)
            order.append(client)

        tasks = [asyncio.create_task(request(client)) for client in "aaaaaabbcd"]
        await settle()
        assert "".join(order) == "aaaabc", "two more, of clients without a request at work"
        assert (turns.working, turns.waiting) == (6, 4)
        turns.end("b")
        await settle()
        assert "".join(order) == "aaaabcb", "the first client without a request at work"
        turns.end("a")
        await settle()
        assert "".join(order) == "aaaabcbd"
        for client, expected in [("a", "aaaabcbd"), ("a", "aaaabcbd"), ("b", "aaaabcbda")]:
            turns.end(client)
            await settle()
            assert "".join(order) == expected, "who has a request at work needs one of four turns"
        assert (turns.working, turns.waiting) == (4, 1)
        for task in tasks:
            task.cancel()

    asyncio.run(scene())


def test_who_waits_too_long_is_refused_and_loses_no_turn():
    async def scene():
        turns = Turns(1, 0.0)
        await turns.begin("a")
        with pytest.raises(TimeoutError):
            await turns.begin("a")
        assert (turns.working, turns.waiting) == (1, 0)
        turns.end("a")
        await turns.begin("a")
        assert turns.working == 1

    asyncio.run(scene())


def test_a_request_that_sends_its_reply_lets_another_work():
    async def scene():
        turns = Turns(1, 600.0)
        await turns.begin("a")
        other = asyncio.create_task(turns.begin("a"))
        await settle()
        turns.end("a")  # the reply is sent; its client reads slowly
        await settle()
        assert other.done()
        turns.go_on("a")
        assert turns.working == 2, "it never waits again"
        last = asyncio.create_task(turns.begin("a"))
        turns.end("a")
        await settle()
        assert not last.done(), "one still works"
        turns.end("a")
        await settle()
        assert last.done()

    asyncio.run(scene())


def test_a_client_that_goes_away_ends_its_work():
    """Its turn is given back, and the log has a line of its own status."""

    async def scene():
        began, ended, counted = asyncio.Event(), [], []

        async def app(scope, receive, send):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(deadlines._ENDED.get())

        async def send(message):
            pass

        arriving = asyncio.Queue()
        arriving.put_nowait({"type": "http.request", "body": b"{}"})
        turns = Turns(1, 600.0)
        guards = Guards(app, ServerSettings(), turns, count=lambda *asked: counted.append(asked))
        headers = [(b"host", b"localhost"), (b"content-length", b"2")]
        scope = {"type": "http", "method": "POST", "path": "/v1/ask", "headers": headers}
        request = asyncio.create_task(guards(scope, arriving.get, send))
        await began.wait()
        assert turns.working == 1
        arriving.put_nowait({"type": "http.disconnect"})
        await request
        assert turns.working == 0
        assert ended[0].is_set(), "the work in threads ends, too"
        assert [(path, status) for path, status, *_ in counted] == [("/v1/ask", 499)]

    asyncio.run(scene())


def test_a_client_that_goes_away_keeps_its_turn_until_its_threads_end():
    """Or a client that always goes away could fill the machine with work."""

    async def scene():
        asyncio.get_running_loop().set_default_executor(_NotAwaited(4))
        began, go_on = threading.Event(), threading.Event()

        def hold():
            began.set()
            go_on.wait(60)

        async def app(scope, receive, send):
            await asyncio.to_thread(hold)

        async def send(message):
            pass

        arriving = asyncio.Queue()
        arriving.put_nowait({"type": "http.request", "body": b"{}"})
        turns = Turns(1, 600.0)
        headers = [(b"host", b"localhost"), (b"content-length", b"2")]
        scope = {"type": "http", "method": "POST", "path": "/v1/ask", "headers": headers}
        guards = Guards(app, ServerSettings(), turns)
        request = asyncio.create_task(guards(scope, arriving.get, send))
        await asyncio.to_thread(began.wait, 60)
        arriving.put_nowait({"type": "http.disconnect"})
        for _ in range(4):
            await settle()
        assert (turns.working, request.done()) == (1, False)
        go_on.set()
        await request
        assert turns.working == 0

    asyncio.run(scene())


def test_a_whole_reply_ends_its_turn_and_an_error_of_left_work_is_not_logged():
    async def scene():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(_NotAwaited(4))
        errors: list[object] = []
        loop.set_exception_handler(lambda _, context: errors.append(context))
        began, go_on, gone = threading.Event(), threading.Event(), asyncio.Event()

        def fail():
            began.set()
            go_on.wait(60)
            raise ValueError("the request has ended")

        async def app(scope, receive, send):
            if scope["path"] == "/v1/ask":
                try:
                    await asyncio.to_thread(fail)
                except asyncio.CancelledError:
                    gone.set()
                    raise
            working = asyncio.ensure_future(asyncio.to_thread(fail))
            working.add_done_callback(lambda done: done.exception())
            await asyncio.to_thread(began.wait, 60)  # a tool reports its own timeout
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

        async def send(message):
            pass

        turns = Turns(1, 600.0)
        guards = Guards(app, ServerSettings(), turns)
        for path in ("/v1/search", "/v1/ask"):
            began.clear()
            go_on.clear()
            arriving = asyncio.Queue()
            arriving.put_nowait({"type": "http.request", "body": b"{}"})
            headers = [(b"host", b"localhost"), (b"content-length", b"2")]
            scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
            request = asyncio.create_task(guards(scope, arriving.get, send))
            await asyncio.to_thread(began.wait, 60)
            if path == "/v1/ask":
                arriving.put_nowait({"type": "http.disconnect"})
                await asyncio.wait_for(gone.wait(), 60)
                assert turns.working == 1
                go_on.set()
            await request
            assert turns.working == 0
            go_on.set()
            await settle()
        gc.collect()
        await settle()
        assert errors == []

    asyncio.run(scene())
