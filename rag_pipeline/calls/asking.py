"""Answer calls by their keys. If several runs need an answer, only one run makes the call."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from rag_pipeline.calls.cache import NO_USAGE, CallCache, CallCounts
from rag_pipeline.calls.claims import Claims
from rag_pipeline.calls.database import parts
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import ProviderError

_PER_CLAIM = 32
"""Number of calls that one transaction claims."""


class Asking:
    """The answers to a set of calls: first the known answers, then also the answers of `run`.

    `advance` gets the keys of finished calls, to report progress.
    """

    def __init__(
        self, keys: Iterable[bytes], cache: CallCache, advance: Callable[[Collection[bytes]], None]
    ) -> None:
        self.cache = cache
        self.answers = cache.get(wanted := list(keys))
        self.missing = [key for key in wanted if key not in self.answers]
        self.failed: dict[bytes, ProviderError] = {}
        self.failures: Mapping[bytes, int] = {}
        """The number of earlier runs in which missing calls have failed."""
        self._made: set[bytes] = set()
        self._others: list[bytes] = []
        self._claims = Claims(cache)
        self._advance = advance

    def run(self, make: Callable[[list[bytes]], None]) -> None:
        """Call `make` for the missing calls, and wait for the answers that other runs get.

        `make` passes the keys to `claim` or `claim_groups`, and every result to `keep`, `store` or
        `fail`.
        """
        if not self.missing:
            return
        with self._claims as claims:
            while self.missing:
                self._others = []
                self.failures = self.cache.failures(self.missing)
                make(self.missing)
                self.missing = claims.wait(self._others, self.answers)
                self._advance(set(self._others).difference(self.missing))

    def claim_groups(self, groups: Iterable[Sequence[bytes]]) -> Iterator[list[bytes]]:
        """Claim the keys of each group, and yield those that no other run has claimed."""
        for group in groups:
            mine = self._claims.take(group)
            self._others.extend(key for key in group if key not in mine)
            if mine:
                yield [key for key in group if key in mine]

    def claim(self, keys: Sequence[bytes]) -> Iterator[bytes]:
        """Claim these keys, and yield those that no other run has claimed."""
        return chain.from_iterable(self.claim_groups(parts(keys, _PER_CLAIM)))

    def keep(self, new: Mapping[bytes, bytes], usage: Mapping[bytes, Usage] = NO_USAGE) -> None:
        """Store the answers `new` by key. `usage` has the tokens that vectors and scores used."""
        self.cache.put(new, usage)
        self._done(new)

    async def store(
        self, new: Mapping[bytes, bytes], usage: Mapping[bytes, Usage] = NO_USAGE
    ) -> None:
        """Store answers like `keep`, but in a thread if the database is on another machine."""
        if self.cache.database.is_shared:
            await asyncio.to_thread(self.cache.put, new, usage)
            self._done(new)
        else:  # a transaction in a file takes less time than a switch of threads
            self.keep(new, usage)

    def _done(self, new: Mapping[bytes, bytes]) -> None:
        self.answers.update(new)
        self._made.update(new)
        self._advance(new)

    def fail(self, failed: Mapping[bytes, ProviderError]) -> None:
        """Count failed calls, and release their keys for other runs."""
        self.failed.update(failed)
        self.cache.fail(list(failed))
        self._claims.give_up(list(failed))
        self._advance(failed)

    def counts(self, keys: Sequence[bytes]) -> CallCounts:
        """Return the number of inputs sent, and of inputs answered without a call."""
        answered = sum(key in self.answers for key in keys)
        return CallCounts(len(self._made | self.failed.keys()), answered - len(self._made))
