"""What a long step has done so far, told to whoever listens: a progress bar, a run's log."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from rag_pipeline.calls.contexts import setting

Listener = Callable[[str, int], None]
"""Called with what was done (`documents`, `chunks`, `texts`) and how many more of them."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def advance(what: str, count: int) -> None:
    """Report `count` more of `what` as done."""
    listener = _listener.get()
    if listener is not None:
        listener(what, count)


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Send every `advance` inside the block to the listener, and to those around the block."""
    outer = _listener.get()

    def tell(what: str, count: int) -> None:
        listener(what, count)
        if outer is not None:
            outer(what, count)

    return setting(_listener, tell)
