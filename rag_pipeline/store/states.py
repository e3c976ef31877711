"""Cache the states of documents in table versions, and what a look at many partitions reads."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, NamedTuple, TypeVar

_MOST_DOCUMENTS = 500_000
"""Maximum number of documents in the cache over all tables. Each takes about 400 bytes."""


class DocumentState(NamedTuple):
    """Hold the content hash and fingerprint that a document's rows were made from.

    `rows` is the number of these rows.
    """

    content_hash: str
    fingerprint: str
    rows: int


TableState = Mapping[str, DocumentState]


class _Known(dict[str, DocumentState]):
    digest: str = ""
    """The cached result of `state_digest`."""


StateKey = tuple[str, str, int]
"""The name of a table, its random identity, and its version."""


class StateCache:
    """Cache the states of the most recently read table versions, which never change."""

    def __init__(self) -> None:
        self._states: OrderedDict[StateKey, TableState] = OrderedDict()
        self._lock = Lock()

    def get(self, key: StateKey, read: Callable[[], dict[str, DocumentState]]) -> TableState:
        """Return the state of one table version. If the state is not cached, call `read`."""
        with self._lock:
            if key in self._states:
                self._states.move_to_end(key)
                return self._states[key]
        state = _Known(read())
        with self._lock:
            self._states[key] = state
            total = sum(map(len, self._states.values()))
            while total > _MOST_DOCUMENTS and len(self._states) > 1:
                total -= len(self._states.popitem(last=False)[1])
        return state


def state_digest(state: TableState) -> str:
    """Return 16 hex digits of the SHA-256 over all documents and their states."""
    if isinstance(state, _Known):
        state.digest = state.digest or _digest(state)
        return state.digest
    return _digest(state)


def _digest(state: TableState) -> str:
    digest = hashlib.sha256()
    for document_id in sorted(state):
        digest.update(repr((document_id, *state[document_id])).encode())
    return digest.hexdigest()[:16]


# --- a look at many partitions, which changes nothing ---

_T = TypeVar("_T")
_READ: ContextVar[dict[Hashable, Any] | None] = ContextVar("read", default=None)


@contextmanager
def looking() -> Iterator[None]:
    """Keep what `read_once` reads, until the end of the block. Other threads read for themselves.

    A change of the store is not seen within the block, nor in a look inside a look.
    """
    before = _READ.set({} if (outer := _READ.get()) is None else outer)
    try:
        yield
    finally:
        _READ.reset(before)


def read_once(key: Hashable, read: Callable[[], _T]) -> _T:
    """Return the value of `read`, or its earlier value for the same key in this look."""
    known = _READ.get()
    if known is None:
        return read()
    if key not in known:
        known[key] = read()
    found: _T = known[key]
    return found
