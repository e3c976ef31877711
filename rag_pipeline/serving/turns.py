"""Limit the number of requests at work. Other requests wait for a short, limited time."""

import asyncio
from collections import deque


class Turns:
    """The working and the waiting requests of one event loop.

    More threads than processors would make every request slower. The wait is short, because a
    refused client can ask another server.
    """

    def __init__(self, at_once: int, wait_seconds: float) -> None:
        self.at_once = at_once
        self.working = 0
        self._wait_seconds = wait_seconds
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return len(self._queue)

    async def begin(self) -> None:
        """Wait for a turn, first come first served. Raise TimeoutError after `wait_seconds`."""
        if self.working < self.at_once and not self._queue:
            self.working += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await turn
        except BaseException:
            if turn in self._queue:
                self._queue.remove(turn)
            elif turn.done() and not turn.cancelled():
                self.end()  # the turn came at the moment of the timeout
            raise

    def end(self) -> None:
        """End a turn, and let the next requests begin."""
        self.working -= 1
        while self._queue and self.working < self.at_once:
            turn = self._queue.popleft()
            if not turn.done():
                self.working += 1
                turn.set_result(None)

    def go_on(self) -> None:
        """Take the turn again after `end`, without waiting."""
        self.working += 1
