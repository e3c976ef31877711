"""Report the progress of a long step to listeners, such as a progress bar or a run's log."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from threading import Lock

from rag_pipeline.calls.contexts import setting

Listener = Callable[[str, int], None]
"""Called with a kind of item (`documents`, `chunks`, `texts`) and the number of new done items."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_one_at_a_time = Lock()


def advance(what: str, count: int) -> None:
    """Report that `count` more items of the kind `what` are done, one report at a time."""
    listener = _listener.get()
    if listener is not None:
        with _one_at_a_time:
            listener(what, count)


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Report each `advance` inside the block to this listener and the outer blocks' listeners."""
    outer = _listener.get()

    def tell(what: str, count: int) -> None:
        listener(what, count)
        if outer is not None:
            outer(what, count)

    return setting(_listener, tell)
