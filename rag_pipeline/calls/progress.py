"""Report the progress of a long step to listeners, such as a progress bar or a run's log."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from rag_pipeline.calls.contexts import setting

Listener = Callable[[str, int], None]
"""Called with a kind of item (`documents`, `chunks`, `texts`) and the number of new done items."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def advance(what: str, count: int) -> None:
    """Report that `count` more items of the kind `what`, such as `chunks`, are done."""
    listener = _listener.get()
    if listener is not None:
        listener(what, count)


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Report each `advance` inside the block to this listener and the outer blocks' listeners."""
    outer = _listener.get()

    def tell(what: str, count: int) -> None:
        listener(what, count)
        if outer is not None:
            outer(what, count)

    return setting(_listener, tell)
