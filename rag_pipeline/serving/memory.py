"""Keep the open releases of a server within a limit of memory."""

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
    """Return half of this machine's or container's memory in bytes."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        total = min(total, int(_LIMIT.read_text()))
    return total // 2


class OpenReleases:
    """The open corpora of a server. Above a memory limit, the least recently searched are closed.

    The corpus of the latest search stays open, even if it alone exceeds the limit.
    """

    def __init__(self, corpora: Iterable[SearchedCorpus], budget: int) -> None:
        """Watch the released corpora. `budget` is the limit in bytes."""
        self.corpora = [one for one in corpora if isinstance(one, ReleasedCorpus)]
        self.budget = budget
        self.closed = Counter[str]()
        """The number of closings of each corpus."""
        self._lock = Lock()
        for one in self.corpora:
            one.corpus.after_opening = self._make_room

    def held(self) -> dict[str, int]:
        """Return the approximate bytes of each open corpus, least recently searched first."""
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
