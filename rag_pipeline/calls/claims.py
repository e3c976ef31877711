"""Let one run pay for an answer that several runs want, while the others wait for it."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from rag_pipeline.calls import sql
from rag_pipeline.calls.cache import CallCache
from rag_pipeline.calls.processes import is_alive

_POLL_SECONDS, _SHARED_POLL_SECONDS = 0.2, 0.5
"""Seconds between two queries for the claims of other runs, in a file and in Postgres."""


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
