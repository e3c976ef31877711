"""Do the work of concurrent callers in one call, and remember the last results."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

from cachetools import LRUCache

V = TypeVar("V")


class Together(Generic[V]):
    """Calls `work` with the texts of all callers that wait while it works. Threads may share it.

    A lone caller does not wait. At most `most` results are kept. `work` must return the same value
    for a text, whatever texts come with it.
    """

    def __init__(self, work: Callable[[Sequence[str]], Sequence[V]], most: int) -> None:
        self._work = work
        self._lock = Lock()
        """Held only for moments."""
        self._working = Lock()
        self._kept: LRUCache[str, Future[V]] = LRUCache(most)
        self._waiting: dict[str, Future[V]] = {}

    def __call__(self, texts: Sequence[str]) -> list[V]:
        """Return the value of each text. Raise the error of the call that the text was in."""
        wanted: list[Future[V]] = []
        with self._lock:
            for text in texts:
                if text not in self._kept:
                    self._kept[text] = self._waiting[text] = Future()
                wanted.append(self._kept[text])
        if not all(one.done() for one in wanted):
            with self._working:
                self._work_off()
        return [one.result() for one in wanted]

    def _work_off(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, {}
        if not batch:
            return
        try:
            values = self._work(list(batch))
        except BaseException as error:
            with self._lock:
                for text, one in batch.items():
                    self._kept.pop(text, None)
                    one.set_exception(error)
            raise
        for one, value in zip(batch.values(), values, strict=True):
            one.set_result(value)
