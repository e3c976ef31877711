"""Cache the document states of table versions, and the values that one inspection reads."""

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
    """The content hash and fingerprint of a document's rows, and the number of these rows."""

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
    """A cache of the states of recently read table versions. A version's state never changes."""

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


# --- inspections of many partitions ---

_T = TypeVar("_T")
_READ: ContextVar[dict[Hashable, Any] | None] = ContextVar("read", default=None)


@contextmanager
def looking() -> Iterator[None]:
    """Cache the values of `read_once` until the end of the block, for this thread only.

    The block, and blocks inside it, do not see later changes of the store.
    """
    before = _READ.set({} if (outer := _READ.get()) is None else outer)
    try:
        yield
    finally:
        _READ.reset(before)


def read_once(key: Hashable, read: Callable[[], _T]) -> _T:
    """Call `read`, or return its earlier value for this key inside a `looking` block."""
    known = _READ.get()
    if known is None:
        return read()
    if key not in known:
        known[key] = read()
    found: _T = known[key]
    return found
