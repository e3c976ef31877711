"""Keep the open releases of a server within a budget of memory."""

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock

from rag_pipeline.assistant import ReleasedCorpus
from rag_pipeline.assistant.released import SearchedCorpus
from rag_pipeline.memory import release_memory

_LIMIT = Path("/sys/fs/cgroup/memory.max")


def half_of_memory() -> int:
    """Return half of the bytes that this machine or container has."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        total = min(total, int(_LIMIT.read_text()))
    return total // 2


class OpenReleases:
    """Closes the corpora whose last search is longest ago while all together pass the budget.

    The corpus of the latest search stays open, also if it is larger than the budget.
    """

    def __init__(self, corpora: Iterable[SearchedCorpus], budget: int) -> None:
        """Take the budget in bytes."""
        self.corpora = [one for one in corpora if isinstance(one, ReleasedCorpus)]
        self.budget = budget
        self.closed = Counter[str]()
        """Number of times that each corpus was closed."""
        self._lock = Lock()
        for one in self.corpora:
            one.corpus.after_opening = self._make_room

    def held(self) -> dict[str, int]:
        """Return about how many bytes each open corpus takes, oldest search first."""
        order = sorted(self.corpora, key=lambda one: one.corpus.used)
        return {one.name: size for one in order if (size := one.held_bytes())}

    def _make_room(self) -> None:
        with self._lock:
            held = self.held()
            for name in [*held][:-1]:
                if sum(held.values()) > self.budget:
                    next(one for one in self.corpora if one.name == name).close()
                    self.closed[name] += 1
                    del held[name]
                    release_memory()
