"""What a long step has done so far, told to whoever listens: the command line's progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int], None]
"""Called with what was done (`documents`, `chunks`, `texts`) and how many more of them."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def advance(what: str, count: int) -> None:
    """Report `count` more of `what` as done."""
    listener = _listener.get()
    if listener is not None:
        listener(what, count)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send every `advance` inside the block to the listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
