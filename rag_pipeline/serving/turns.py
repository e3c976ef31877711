"""Limit the number of requests at work. Other requests wait for a short, limited time."""

import asyncio
from collections import Counter


class Turns:
    """The working and the waiting requests of one event loop.

    More threads than processors would make every request slower. The wait is short, because a
    refused client can ask another server. A client without a request at work may exceed `at_once`
    by half, so one client with long requests keeps no other out.
    """

    def __init__(self, at_once: int, wait_seconds: float) -> None:
        self.at_once = at_once
        self._working: Counter[str] = Counter()
        self._wait_seconds = wait_seconds
        self._queue: list[tuple[str, asyncio.Future[None]]] = []

    @property
    def working(self) -> int:
        """Return the number of requests at work."""
        return self._working.total()

    @property
    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return len(self._queue)

    async def begin(self, client: str) -> None:
        """Wait for a turn. Raise TimeoutError after `wait_seconds`.

        The client with the fewest requests at work is next. Among equals it is first come, first
        served.
        """
        if self._is_free_for(client):
            self._working[client] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((client, turn))
        try:
            async with asyncio.timeout(self._wait_seconds):
                await turn
        except BaseException:
            if (client, turn) in self._queue:
                self._queue.remove((client, turn))
            elif turn.done() and not turn.cancelled():
                self.end(client)  # the turn came at the moment of the timeout
            raise

    def end(self, client: str) -> None:
        """End a turn of a client, and let the next requests begin."""
        self._working[client] -= 1
        self._working += Counter()  # drops clients without a turn
        while self._queue:
            following = min(self._queue, key=lambda waiting: self._working[waiting[0]])
            if not self._is_free_for(following[0]):
                break
            self._queue.remove(following)
            if not following[1].done():
                self._working[following[0]] += 1
                following[1].set_result(None)

    def _is_free_for(self, client: str) -> bool:
        return self.working < self.at_once + (0 if self._working[client] else self.at_once // 2)

    def go_on(self, client: str) -> None:
        """Take a client's turn again after `end`, without waiting."""
        self._working[client] += 1
