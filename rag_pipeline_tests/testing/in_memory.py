"""Dagster's instances in memory, without what costs most of their time.

Each statement would set up a connection of its own, and each instance read all of Alembic's
revisions to note the newest.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy
from dagster._core.storage.event_log import in_memory as events
from dagster._core.storage.runs import in_memory as runs


def _pooled(address: str, **_: object) -> sqlalchemy.Engine:
    kept = {"poolclass": sqlalchemy.QueuePool, "connect_args": {"check_same_thread": False}}
    engine = sqlalchemy.create_engine(address, **kept)
    sqlalchemy.event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA foreign_keys=ON"))
    return engine


@contextmanager
def _of_runs(storage: runs.InMemoryRunStorage) -> Iterator[sqlalchemy.Connection]:
    with storage._engine.begin() as connection:
        yield connection


@contextmanager
def _of_events(storage: events.InMemoryEventLogStorage) -> Iterator[sqlalchemy.Connection]:
    with storage._db_lock, storage._engine.begin() as connection:
        yield connection


for module in (runs, events):
    vars(module).update(create_engine=_pooled, stamp_alembic_rev=lambda *_: None)
type.__setattr__(runs.InMemoryRunStorage, "connect", _of_runs)
type.__setattr__(events.InMemoryEventLogStorage, "_connect", _of_events)
