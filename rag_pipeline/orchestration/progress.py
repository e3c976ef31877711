"""How far a long step has come, as lines of its run's log."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rag_pipeline.calls.progress import listening
from rag_pipeline.pipeline.planning import Step

LOG_SECONDS = 30.0
"""Least time in seconds between two lines of a step."""


@contextmanager
def progress_logged(step: Step, log: Callable[[str], object]) -> Iterator[None]:
    """Log what the step inside the block has done so far, from time to time."""
    done: Counter[str] = Counter()
    last = time.monotonic()

    def advanced(what: str, count: int) -> None:
        nonlocal last
        done[what] += count
        if time.monotonic() - last >= LOG_SECONDS:
            last = time.monotonic()
            said = ", ".join(f"{number:,} {name}" for name, number in done.items())
            log(f"{step}: {said} so far")

    with listening(advanced):
        yield
