"""Who is asking what: of runs that want the same answer at once, one pays and the others wait."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Select, delete, select

from rag_pipeline.calls.cache import CallCache
from rag_pipeline.calls.database import parts
from rag_pipeline.calls.processes import is_alive
from rag_pipeline.calls.schema import answers, claims, processes

_POLL_SECONDS, _SHARED_POLL_SECONDS = 0.2, 0.5
"""Time in seconds between two looks at the claims of others."""


@dataclass(slots=True)
class Claims:
    """The keys that the code inside the `with` block asks; all are released at its end.

    A claim is a row of the calls database. It holds while its process lives (see `processes`), so
    that a killed run keeps nobody waiting, and a slow one is waited for.
    """

    cache: CallCache
    owner: str = field(default_factory=lambda: uuid4().hex)
    _process: str = field(init=False)

    def __enter__(self) -> "Claims":
        self._process = self.cache.database.process_name
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        own = delete(claims).where(claims.c.owner == self.owner)
        self.cache.database.write(lambda connection: connection.execute(own))

    def take(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim the keys that have no answer and that nobody else is asking; return these."""
        database = self.cache.database

        def work(connection: Connection) -> set[bytes]:
            rows = connection.execute(self._others.where(claims.c.key.in_(keys))).all()
            taken = _taken(rows, database.now(connection)) if rows else set()
            # Answers are read after claims: a claim is released when its answer is there.
            query = select(answers.c.key).where(answers.c.key.in_(keys))
            answered = {row.key for row in connection.execute(query)}
            free = [key for key in keys if key not in taken and key not in answered]
            if free:
                mine = {"owner": self.owner, "process": self._process}
                insert = database.insert(claims).on_conflict_do_update(
                    index_elements=["key"], set_=mine
                )
                connection.execute(insert, [{"key": key, **mine} for key in free])
            return set(free)

        return database.write(work, lock="claims")

    def draw(self, groups: Iterable[Sequence[bytes]], others: list[bytes]) -> Iterator[list[bytes]]:
        """Yield of each group the keys that could be claimed; add the rest to `others`."""
        for group in groups:
            mine = self.take(group)
            others.extend(key for key in group if key not in mine)
            if mine:
                yield [key for key in group if key in mine]

    def give_up(self, keys: Sequence[bytes]) -> None:
        """Release keys whose call has failed, so that others may ask them."""
        own = delete(claims).where(claims.c.owner == self.owner)

        def work(connection: Connection) -> None:
            for part in parts(keys):
                connection.execute(own.where(claims.c.key.in_(part)))

        self.cache.database.write(work)

    def wait(self, keys: Sequence[bytes], known: dict[bytes, bytes]) -> list[bytes]:
        """Wait for the answers of keys that others claimed and put them into `known`.

        Returns the keys that have no answer as soon as some of them are claimed by nobody.
        """
        database, left = self.cache.database, list(keys)
        while left:
            rows = list(database.read_keys(self._others, claims.c.key, left))
            taken = _taken(rows, database.now()) if rows else set()
            known.update(self.cache.get(left))
            free = [key for key in left if key not in taken]
            left = [key for key in left if key not in known]
            if not left or any(key not in known for key in free):
                break
            time.sleep(_SHARED_POLL_SECONDS if database.is_shared else _POLL_SECONDS)
        return left

    @property
    def _others(self) -> Select[Any]:
        """Return the query of the claims of other blocks, with their processes."""
        query = select(claims.c.key, processes).where(claims.c.owner != self.owner)
        return query.outerjoin_from(claims, processes, claims.c.process == processes.c.process)


def _taken(rows: Iterable[Any], now: float) -> set[bytes]:
    """Return the keys that a living process is asking; `now` in Unix seconds."""
    return {row.key for row in rows if row.process is not None and is_alive(row, now)}
