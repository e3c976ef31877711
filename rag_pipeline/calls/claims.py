"""Who is asking what: of runs that want the same answer at once, one pays and the others wait."""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from rag_pipeline.calls.cache import CallCache

_POLL_SECONDS = 0.2


@dataclass(slots=True)
class Claims:
    """What one run has taken on itself; everything is let go at the end of the `with` block.

    A claim is a row beside the answers. It holds while its run lives, which a file lock tells that
    the operating system drops with the process: a killed run keeps nobody waiting, and a slow one
    is waited for, as each of its calls has an end of its own (`patience_seconds`).
    """

    cache: CallCache
    owner: str = field(init=False)
    _handle: int = field(init=False)

    def __enter__(self) -> "Claims":
        self.cache.refresh()
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        for lock in folder.iterdir():
            if not self._lives(lock.name):
                self._forget(lock.name)
        self.owner = uuid4().hex
        # It appears under its name when it is locked, or another run would sweep it away.
        temporary = folder.with_name(f".tmp-{self.owner}")
        self._handle = os.open(temporary, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        temporary.rename(folder / self.owner)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._forget(self.owner)
        finally:
            os.close(self._handle)

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
        for group in groups:
            mine = self.take(group)
            others.extend(key for key in group if key not in mine)
            if mine:
                yield [key for key in group if key in mine]

    def give_up(self, keys: Sequence[bytes]) -> None:
        """Let others ask these: the call has failed."""
        with self.cache.connection() as connection:
            connection.executemany(
                "DELETE FROM claims WHERE key = ? AND owner = ?",
                [(key, self.owner) for key in keys],
            )

    def wait(self, keys: Sequence[bytes], known: dict[bytes, bytes]) -> list[bytes]:
        """Wait for the answers of keys that others claimed and put them into `known`.

        Returns as soon as some are nobody's any more, with all that are still without an answer.
        """
        left = list(keys)
        while left:
            known.update(self.cache.get(left))
            left = [key for key in left if key not in known]
            if self._free(left):
                break
            if left:
                time.sleep(_POLL_SECONDS)
        return left

    @property
    def _folder(self) -> Path:
        return self.cache.path.with_name(f"{self.cache.path.name}-runs")

    def _free(self, keys: Sequence[bytes]) -> list[bytes]:
        answered = self.cache.known(keys)
        claimed = self.cache.claimed(keys)
        living = {owner: self._lives(owner) for owner in {o for o, _ in claimed.values()}}

        def is_taken(key: bytes) -> bool:
            return key in claimed and living[claimed[key][0]]

        return [key for key in keys if key not in answered and not is_taken(key)]

    def _lives(self, owner: str) -> bool:
        with suppress(FileNotFoundError), (self._folder / owner).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _forget(self, owner: str) -> None:
        (self._folder / owner).unlink(missing_ok=True)
        with self.cache.connection() as connection:
            connection.execute("DELETE FROM claims WHERE owner = ?", (owner,))
