"""Keep Dagster's history in SQLite, with half the work per event of Dagster's own storage.

Dagster makes an SQLAlchemy engine for each query, so it compiles each statement again, and closes
the file, which then writes its log back. Here engines stay. Formats and places of files are equal.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, Pool, QueuePool, create_engine

from rag_pipeline.orchestration.internals import DagsterSqliteStorage


@lru_cache(maxsize=64)
def _engine(address: str, pool: type[Pool]) -> Engine:
    more = {} if pool is NullPool else {"max_overflow": -1}
    return create_engine(address, poolclass=pool, connect_args={"timeout": 30}, **more)


@contextmanager
def _connect(events: Any, shard: str) -> Iterator[Connection]:
    # The UI follows a run by the changes of its own file, which appear when the file is closed.
    pool = QueuePool if shard == "index" else NullPool
    engine = _engine(events.conn_string_for_shard(shard), pool)
    with events._db_lock:
        if shard not in events._initialized_dbs:
            events._initdb(engine)
            events._initialized_dbs.add(shard)
        with engine.begin() as connection:
            yield connection


class OpenSqliteStorage(DagsterSqliteStorage):
    """Dagster's SQLite storage with open files. `dagster.yaml` names it and its folder."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super().__init__(base_dir, inst_data)
        for storage in (self._run_storage, self._schedule_storage):
            storage.connect = _engine(storage._conn_string, QueuePool).begin  # type: ignore[method-assign]
        events: Any = self._event_log_storage
        events._connect = partial(_connect, events)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "OpenSqliteStorage":
        """Return the storage that `dagster.yaml` configures."""
        return cls(inst_data=inst_data, **config_value)
