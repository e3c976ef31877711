"""Notice Ctrl-C whoever handles it: while a step runs, Dagster does, and makes a failure of it."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether SIGINT or SIGTERM has come since.

    Python writes each signal's number to the wake-up descriptor before any handler runs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def interrupted() -> bool:
        try:
            return bool({signal.SIGINT, signal.SIGTERM} & set(os.read(reader, 1024)))
        except BlockingIOError:
            return False

    try:
        yield interrupted
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
