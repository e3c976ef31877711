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
from datetime import UTC, datetime
from typing import Any

from rag_pipeline.errors import BusyError
from rag_pipeline.store.store import Store

FILE = "run.lease"
_POLL_SECONDS = 1.0
_held: dict[tuple[str, str], int] = {}
"""How many blocks of this process hold each corpus's lease: a run's own steps don't wait for it."""
_guard = threading.Lock()


@contextmanager
def lease(
    store: Store, wait: bool = False, waiting: Callable[[str], object] = lambda holder: None
) -> Iterator[None]:
    """Hold the corpus's lease inside the block.

    A process that holds it may enter again. While another process does, raises BusyError that
    names it, or with `wait` calls `waiting` with that once and tries again every second. A lease
    ends with its process; on a bucket at most 90 seconds later.
    """
    place = (store.url, store.corpus)
    with _guard:
        inner = place in _held
        _held[place] = _held.get(place, 0) + 1
    try:
        if inner:
            yield
            return
        told = False
        while (lock := store.files.try_lock(FILE, _holder())) is None:
            said = f"a run is at work on {store.corpus}{_by(store)}"
            if not wait:
                raise BusyError(f"{said}; wait until it has ended, or run with --wait")
            if not told:
                waiting(said)
                told = True
            time.sleep(_POLL_SECONDS)
        with lock:
            yield
    finally:
        with _guard:
            _held[place] -= 1
            if not _held[place]:
                del _held[place]


def _holder() -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"since": since, "pid": os.getpid(), "host": socket.gethostname()}


def _by(store: Store) -> str:
    try:
        holder = json.loads(store.read_bytes(FILE) or b"")
        return f" since {holder['since']}, process {holder['pid']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):  # it has just ended, or not yet said who it is
        return ""
