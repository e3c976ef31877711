"""Who is asking what: of runs that want the same answer at once, one pays and the others wait."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rag_pipeline.calls.cache import CallCache
from rag_pipeline.calls.owners import enlist, lives
from rag_pipeline.calls.shared_claims import POLL_SECONDS, SharedClaims

_POLL_SECONDS = 0.2
_KEYS_PER_UPDATE = 256
"""Number of keys that are claimed over machines at once: each time costs requests."""


@dataclass(slots=True)
class Claims:
    """What one run has taken on itself; everything is let go at the end of the `with` block.

    A claim is a row beside the answers. It holds while its run lives, which a file lock tells that
    the operating system drops with the process: a killed run keeps nobody waiting, and a slow one
    is waited for, as each of its calls has an end of its own (`patience_seconds`). Of a store that
    machines share it is in their register too: see `SharedClaims`.
    """

    cache: CallCache
    owner: str = field(init=False)
    _handle: int = field(init=False)

    def __enter__(self) -> "Claims":
        self.cache.refresh()
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        for lock in folder.iterdir():
            if not lives(folder, lock.name):
                self._forget(lock.name)
        self.owner, self._handle = enlist(folder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None and self._shared is not None:
                self._shared.let_go(self._unanswered())
            self._forget(self.owner)
        finally:
            os.close(self._handle)

    def _unanswered(self) -> list[bytes]:
        with self.cache.connection() as connection:
            rows = connection.execute("SELECT key FROM claims WHERE owner = ?", (self.owner,))
            keys = [key for (key,) in rows]
        known = self.cache.known(keys)
        return [key for key in keys if key not in known]

    def take(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim those of the keys that have no answer and that nobody else is asking."""
        with self.cache.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            free = self._free(keys)
            now = time.time()
            connection.executemany(
                "INSERT OR REPLACE INTO claims (key, owner, since) VALUES (?, ?, ?)",
                [(key, self.owner, now) for key in free],
            )
        return set(free)

    def draw(self, groups: Iterable[Sequence[bytes]], others: list[bytes]) -> Iterator[list[bytes]]:
        """Yield of each group the keys that could be claimed; add the rest to `others`."""
        shared = self._shared
        if shared is None:
            yield from self._draw(groups, others)
            return
        waiting = iter(groups)
        while some := list(_first(waiting, _KEYS_PER_UPDATE)):
            mine = list(self._draw(some, others))
            keys = [key for group in mine for key in group]
            # A single call costs less than the time to agree on it with machines far away.
            taken = shared.take(keys, self.cache.known) if len(keys) > 1 else set(keys)
            left = [key for key in keys if key not in taken]
            self._give_up(left)
            others.extend(left)
            for group in mine:
                if own := [key for key in group if key in taken]:
                    yield own

    def _draw(
        self, groups: Iterable[Sequence[bytes]], others: list[bytes]
    ) -> Iterator[list[bytes]]:
        for group in groups:
            mine = self.take(group)
            others.extend(key for key in group if key not in mine)
            if mine:
                yield [key for key in group if key in mine]

    def give_up(self, keys: Sequence[bytes]) -> None:
        """Let others ask these: the call has failed."""
        if self._shared is not None:
            self._shared.let_go(keys)
        self._give_up(keys)

    def _give_up(self, keys: Sequence[bytes]) -> None:
        with self.cache.connection() as connection:
            connection.executemany(
                "DELETE FROM claims WHERE key = ? AND owner = ?",
                [(key, self.owner) for key in keys],
            )

    def wait(self, keys: Sequence[bytes], known: dict[bytes, bytes]) -> list[bytes]:
        """Wait for the answers of keys that others claimed and put them into `known`.

        Returns as soon as some are nobody's any more, with all that are still without an answer.
        """
        left, shared = list(keys), self._shared
        while left:
            free = self._free(left)
            if shared is not None and free:
                free = shared.free(free)
            known.update(self.cache.get(left))
            left = [key for key in left if key not in known]
            if not left or any(key not in known for key in free):
                break
            time.sleep(_POLL_SECONDS if shared is None else POLL_SECONDS)
        return left

    @property
    def _shared(self) -> SharedClaims | None:
        return self.cache.exchange.claims if self.cache.exchange is not None else None

    @property
    def _folder(self) -> Path:
        return self.cache.path.with_name(f"{self.cache.path.name}-runs")

    def _free(self, keys: Sequence[bytes]) -> list[bytes]:
        answered = self.cache.known(keys)
        claimed = self.cache.claimed(keys)
        living = {owner: lives(self._folder, owner) for owner in {o for o, _ in claimed.values()}}

        def is_taken(key: bytes) -> bool:
            return key in claimed and living[claimed[key][0]]

        return [key for key in keys if key not in answered and not is_taken(key)]

    def _forget(self, owner: str) -> None:
        (self._folder / owner).unlink(missing_ok=True)
        with self.cache.connection() as connection:
            connection.execute("DELETE FROM claims WHERE owner = ?", (owner,))


def _first(groups: Iterator[Sequence[bytes]], most: int) -> Iterator[Sequence[bytes]]:
    """Yield groups until they have so many keys."""
    count = 0
    while count < most and (group := next(groups, None)) is not None:
        count += len(group)
        yield group
