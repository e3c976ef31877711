"""Hold a lease on a corpus, so that only one run at a time works on the corpus.

A lease prevents double work. The tables stay correct without leases.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

from rag_pipeline.errors import BusyError
from rag_pipeline.store.files import Lock
from rag_pipeline.store.store import Store

FILE = "run.lease"
_POLL_SECONDS = 1.0


_held: dict[tuple[str, str], list[Lock]] = {}
"""The lock of each lease of this process, with a placeholder per further block.

The keys are store and corpus. The steps of a run share its lease.
"""
_guard = threading.Lock()


@contextmanager
def lease(
    store: Store, wait: bool = False, waiting: Callable[[str], object] = lambda holder: None
) -> Iterator[None]:
    """Hold the corpus's lease inside the block.

    Blocks of one process share the lease, which ends with the last block. If another process holds
    the lease, raise BusyError with a description of that process. If `wait` is True, call `waiting`
    once with this description instead, and try again every second. The lease of a dead process
    ends at once, or within 90 seconds on a bucket.
    """
    if not _enter(store):
        said = _said(store)
        if not wait:
            raise BusyError(f"{said}; wait until that run has ended, or run with --wait")
        waiting(said)
        while not _enter(store):
            time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        with _guard:
            held = _held[store.url, store.corpus]
            last = held.pop()
            if not held:
                del _held[store.url, store.corpus]
            last.__exit__(None, None, None)


def _enter(store: Store) -> bool:
    place = (store.url, store.corpus)
    with _guard:
        if place in _held:
            _held[place].append(nullcontext())
            return True
        lock = store.files.try_lock(FILE, _holder())
        if lock is None:
            return False
        lock.__enter__()
        _held[place] = [lock]
        return True


def at_work(store: Store) -> str | None:
    """Describe the other process that holds the corpus's lease, or return None if there is none."""
    with _guard:
        if (store.url, store.corpus) in _held:
            return None
    lock = store.files.try_lock(FILE, _holder())
    if lock is None:
        return _said(store)
    with lock:
        return None


def wait_for_others(store: Store, waiting: Callable[[str], object]) -> None:
    """Wait until no other process holds the corpus's lease.

    If another process holds it, first call `waiting` once with a description of that process.
    """
    if said := at_work(store):
        waiting(said)
        while at_work(store):
            time.sleep(_POLL_SECONDS)


def _holder() -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"since": since, "pid": os.getpid(), "host": socket.gethostname()}


def _said(store: Store) -> str:
    said = f"a run is at work on {store.corpus}"
    # The file has no holder if the run has just ended or has just begun.
    with suppress(ValueError, KeyError, TypeError):
        holder = json.loads(store.read_bytes(FILE) or b"")
        said += f" since {holder['since']}, process {holder['pid']} on {holder['host']}"
    return said
