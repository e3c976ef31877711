"""Claims over machines: which keys' answers another machine has asked and not yet told.

One content of a register has the keys of each run at work, by their first bytes, and how many
segments all machines have written: whoever has not adopted the last of them does so before it
claims, for what was let go was answered. A key is let go when its answer is in the bucket.
"""

import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypedDict
from uuid import uuid4

from rag_pipeline.calls.registers import Register
from rag_pipeline.errors import StoreError

_NAME = "claims.json"
_SEEN_SECONDS = 90.0
"""Time in seconds after which a machine that was not seen counts as gone."""
_RENEWED_SECONDS = 20.0
POLL_SECONDS = 2.0


class _Held(TypedDict, total=False):
    keys: list[str]
    seen: float


class _Entry(TypedDict):
    segments: int
    machines: dict[str, _Held]


@dataclass(eq=False, slots=True)
class SharedClaims:
    """This process's part of what all machines claim."""

    register: Register
    pull: Callable[[], None]
    """Adopts what other machines have learned; raises StoreError."""
    machine: str = field(default_factory=lambda: uuid4().hex[:16])
    _adopted: int = -1
    _mine: set[str] = field(default_factory=set)
    _renewing: threading.Thread | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def take(
        self, keys: Sequence[bytes], known: Callable[[Sequence[bytes]], set[bytes]]
    ) -> set[bytes]:
        """Claim those of the keys that have no answer and that no other machine is asking."""
        while True:
            segments, taken = self._claim(set(keys) - known(keys))
            if segments == self._adopted:
                self._renew()
                return taken
            self._adopt(segments)  # some of it may have been answered meanwhile

    def _claim(self, keys: set[bytes]) -> tuple[int, set[bytes]]:
        """Return how many segments there are, and what was claimed if all are adopted here."""
        segments, taken = self._adopted, set[bytes]()

        def change(entry: _Entry) -> bool:
            nonlocal segments, taken
            segments, theirs = entry["segments"], self._others(entry)
            taken = {key for key in keys if _short(key) not in theirs}
            if segments != self._adopted or not taken:
                taken = set()
                return False
            own = entry["machines"].setdefault(self.machine, {"keys": []})
            own["keys"] = sorted({*own["keys"], *map(_short, taken)})
            return True

        with self._lock:
            self._change(change)
            self._mine |= {_short(key) for key in taken}
        return segments, taken

    def _adopt(self, segments: int) -> None:
        self.pull()
        self._adopted = segments

    def free(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return those that no other machine is asking, after adopting what they have told."""
        found: list[bytes] = []
        segments = self._adopted

        def look(entry: _Entry) -> bool:
            nonlocal segments
            segments = entry["segments"]
            theirs = self._others(entry)
            found[:] = [key for key in keys if _short(key) not in theirs]
            return False

        self._change(look)
        if segments != self._adopted:
            self._adopt(segments)
        return found

    def let_go(self, keys: Collection[bytes]) -> None:
        """Let others ask these: their calls have failed."""
        gone = {_short(key) for key in keys} & self._mine
        if gone:
            self._drop(gone, written=False)

    def written(self, keys: Collection[bytes]) -> None:
        """Tell that a segment is in the bucket, with the answers of these keys."""
        self._drop({_short(key) for key in keys}, written=True)

    def _drop(self, gone: set[str], written: bool) -> None:
        def change(entry: _Entry) -> bool:
            entry["segments"] += written
            # Of processes of one machine any may write the others' answers.
            for name in list(entry["machines"]) if written else [self.machine]:
                own = entry["machines"].pop(name, {"keys": []})
                left = [key for key in own["keys"] if key not in gone]
                if left:
                    entry["machines"][name] = {**own, "keys": left}
            return True

        with self._lock:
            self._change(change)
            self._mine -= gone

    def _others(self, entry: _Entry) -> set[str]:
        return {
            key
            for machine, own in entry["machines"].items()
            if machine != self.machine and time.time() - own["seen"] < _SEEN_SECONDS
            for key in own["keys"]
        }

    def _change(self, work: Callable[[_Entry], bool]) -> None:
        def change(content: bytes | None) -> bytes | None:
            entry: _Entry = json.loads(content or b'{"segments": 0, "machines": {}}')
            if not work(entry):
                return None
            now, machines = time.time(), entry["machines"]
            if self.machine in machines:
                machines[self.machine]["seen"] = now
            entry["machines"] = {
                name: own for name, own in machines.items() if now - own["seen"] < _SEEN_SECONDS
            }
            return json.dumps(entry).encode()

        self.register.update(_NAME, change)

    def _renew(self) -> None:
        """Say every 20 seconds that this process is at work, as long as it claims anything."""
        with self._lock:
            if self._mine and (self._renewing is None or not self._renewing.is_alive()):
                self._renewing = threading.Thread(target=self._renew_all, daemon=True)
                self._renewing.start()

    def _renew_all(self) -> None:
        while self._mine:
            time.sleep(_RENEWED_SECONDS)
            with suppress(StoreError), self._lock:  # tried again in 20 seconds
                if self._mine:
                    self._change(self._still_there)

    def _still_there(self, entry: _Entry) -> bool:
        if self.machine not in entry["machines"]:
            self._mine.clear()  # all was written by another process, or it was not seen for long
            return False
        return True


def _short(key: bytes) -> str:
    return key[:8].hex()
