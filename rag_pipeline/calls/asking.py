"""Answer calls by their keys. If several runs need an answer, only one run makes the call."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import uuid4

from rag_pipeline.calls import sql
from rag_pipeline.calls.cache import NO_USAGE, CallCache, CallCounts
from rag_pipeline.calls.database import parts
from rag_pipeline.calls.processes import is_alive
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import ProviderError

_PER_CLAIM = 32
"""Number of calls that one transaction claims."""
_POLL_SECONDS, _SHARED_POLL_SECONDS = 0.2, 0.5
"""Seconds between two queries for the claims of other runs, in a file and in Postgres."""


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


@dataclass(slots=True)
class Claims:
    """The claims on the calls that the code inside the `with` block makes.

    The end of the block releases the claims. A claim ends with its process (see `processes`). So
    other runs wait for a slow run, but not for a killed run.
    """

    cache: CallCache
    owner: str = field(default_factory=lambda: uuid4().hex)

    def __enter__(self) -> "Claims":
        return self

    def __exit__(self, *error: object) -> None:
        database = self.cache.database
        database.unreleased.add(self.owner)
        database.release_claims()

    def take(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim and return the keys that have no answer and no claim of another block."""
        database = self.cache.database
        upsert = database.upsert(sql.claims, "owner", "process")
        mine = {"owner": self.owner, "process": database.process_name}

        def work(connection: "sql.Connection") -> set[bytes]:
            rows = connection.execute(self._others.where(sql.claims.c.key.in_(keys))).all()
            taken = _taken(rows, database.now(connection)) if rows else set()
            # Read answers after claims: a claim is released after its answer is stored.
            query = sql.select(sql.answers.c.key).where(sql.answers.c.key.in_(keys))
            taken.update(row.key for row in connection.execute(query))
            free = [key for key in keys if key not in taken]
            if free:
                connection.execute(upsert, [{"key": key, **mine} for key in free])
            return set(free)

        return database.write(work, lock="claims")

    def give_up(self, keys: Sequence[bytes]) -> None:
        """Release the keys of failed calls, because other runs may make these calls."""
        self.cache.database.delete(sql.claims.c.key, keys, sql.claims.c.owner == self.owner)

    def wait(self, keys: Sequence[bytes], known: dict[bytes, bytes]) -> list[bytes]:
        """Wait for the answers of other runs, and add them to `known`.

        The wait ends when every key has an answer, or when one of the other keys is unclaimed.
        Return the keys without an answer.
        """
        database, left = self.cache.database, list(keys)
        while left:
            rows = list(database.read_keys(self._others, sql.claims.c.key, left))
            taken = _taken(rows, database.now()) if rows else set()
            known.update(self.cache.get(left))
            left = [key for key in left if key not in known]
            if not taken.issuperset(left) or not left:
                break
            time.sleep(_SHARED_POLL_SECONDS if database.is_shared else _POLL_SECONDS)
        return left

    @property
    def _others(self) -> "sql.Select[Any]":
        """Return a query for the claims of other `with` blocks and the processes that hold them."""
        own = {self.owner, *self.cache.database.unreleased}
        claims, processes = sql.claims, sql.processes
        query = sql.select(claims.c.key, processes).where(claims.c.owner.not_in(own))
        return query.join_from(claims, processes, claims.c.process == processes.c.process)


def _taken(rows: Iterable[Any], now: float) -> set[bytes]:
    return {row.key for row in rows if is_alive(row, now)}
