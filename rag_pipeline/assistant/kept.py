"""Cache answers by question, caller and releases."""

import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from threading import Lock

from cachetools import LRUCache

from rag_pipeline.assistant.results import AssistedAnswer, Progress

_MOST_BYTES = 32 << 20
"""Maximum size in bytes of the kept answers."""


class KeptAnswers:
    """A cache of the latest answers. Threads may share the object.

    The key of an answer has all its inputs: releases, callers, question and options.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[Hashable, AssistedAnswer] = LRUCache(_MOST_BYTES, _size_of)
        self._lock = Lock()

    def get(self, key: Hashable, progress: Progress | None) -> AssistedAnswer | None:
        """Return a kept answer, or None. The steps of its trace begin now and are marked."""
        with self._lock:
            made = self._kept.get(key)
        if made is None:
            return None
        now, trace = time.time_ns(), []
        for done, step in enumerate(made.trace):
            if progress is not None:
                progress(step.name, done, max(3, done + 1))
            detail = {**step.detail, "kept": True}
            trace.append(step.model_copy(update={"seconds": 0.0, "began": now, "detail": detail}))
        return replace(made, trace=tuple(trace))

    def keep(self, key: Hashable, answer: AssistedAnswer) -> None:
        """Keep an answer. If the cache is full, drop the least recently used answers."""
        with self._lock, suppress(ValueError):  # an answer larger than the cache
            self._kept[key] = answer


def _size_of(answer: AssistedAnswer) -> int:
    """Return the approximate bytes of an answer."""
    texts = sum(len(one.text) + len(one.context) + len(one.token_signs) for one in answer.passages)
    quotes = sum(2_000 + len(source.text) for source in answer.sources)
    return 5_000 + len(answer.text) + texts + 1_000 * len(answer.passages) + quotes
