"""One run at a time: who is at work on a corpus, told to whoever comes second.

Tables stay right without it; it keeps people from paying for, and waiting for, the same work.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rag_pipeline.errors import BusyError
from rag_pipeline.store.files import Lock
from rag_pipeline.store.store import Store

FILE = "run.lease"
_POLL_SECONDS = 1.0


@dataclass(slots=True)
class _Held:
    """A lease that this process has: how many blocks are in it, and what gives it back."""

    blocks: int
    lock: Lock


_held: dict[tuple[str, str], _Held] = {}
"""The leases that this process has by store and corpus: a run's own steps don't wait for them."""
_guard = threading.Lock()


@contextmanager
def lease(
    store: Store, wait: bool = False, waiting: Callable[[str], object] = lambda holder: None
) -> Iterator[None]:
    """Hold the corpus's lease inside the block.

    A process that holds it may enter again; it is given back when the last block ends. While
    another process has it, raises BusyError that names that one, or with `wait` calls `waiting`
    with the name once and tries again every second. A lease ends with its process; on a bucket at
    most 90 seconds later.
    """
    told = False
    while not _enter(store):
        said = f"a run is at work on {store.corpus}{_by(store)}"
        if not wait:
            raise BusyError(f"{said}; wait until it has ended, or run with --wait")
        if not told:
            waiting(said)
            told = True
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        _leave(store)


def _enter(store: Store) -> bool:
    """Count one more block of this process; False while another process has the lease."""
    place = (store.url, store.corpus)
    with _guard:
        if place in _held:
            _held[place].blocks += 1
            return True
        lock = store.files.try_lock(FILE, _holder())
        if lock is None:
            return False
        lock.__enter__()
        _held[place] = _Held(1, lock)
        return True


def _leave(store: Store) -> None:
    place = (store.url, store.corpus)
    with _guard:
        held = _held[place]
        held.blocks -= 1
        if not held.blocks:
            del _held[place]
            held.lock.__exit__(None, None, None)


def at_work(store: Store) -> str | None:
    """Return who else is at work on the corpus, in words; None where nobody but this process is."""
    with _guard:
        if (store.url, store.corpus) in _held:
            return None
    lock = store.files.try_lock(FILE, _holder())
    if lock is None:
        return f"a run is at work on {store.corpus}{_by(store)}"
    with lock:
        return None


def wait_for_others(store: Store, waiting: Callable[[str], object]) -> None:
    """Return once nobody else is at work on the corpus; tell once, in words, who is."""
    told = False
    while said := at_work(store):
        if not told:
            waiting(said)
            told = True
        time.sleep(_POLL_SECONDS)


def _holder() -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"since": since, "pid": os.getpid(), "host": socket.gethostname()}


def _by(store: Store) -> str:
    try:
        holder = json.loads(store.read_bytes(FILE) or b"")
        return f" since {holder['since']}, process {holder['pid']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):  # it has just ended, or not yet said who it is
        return ""
