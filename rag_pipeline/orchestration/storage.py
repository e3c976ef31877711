"""Keep Dagster's history in SQLite, with half the work per event of Dagster's own storage.

Dagster makes an SQLAlchemy engine for each query, so it compiles each statement again, and closes
the file, which then writes its log back. Here engines stay. Formats and places of files are equal.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, Pool, QueuePool, create_engine

from rag_pipeline.orchestration.internals import (
    SqliteEventLogStorage,
    SqliteRunStorage,
    SqliteScheduleStorage,
    sqlite_storage,
)


@lru_cache(maxsize=64)
def _engine(address: str, pool: type[Pool]) -> Engine:
    more = {} if pool is NullPool else {"max_overflow": -1}
    return create_engine(address, poolclass=pool, connect_args={"timeout": 30}, **more)


class _Runs(SqliteRunStorage):
    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _engine(self._conn_string, QueuePool).begin() as connection:
            yield connection


class _Schedules(SqliteScheduleStorage):
    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _engine(self._conn_string, QueuePool).begin() as connection:
            yield connection


class _Events(SqliteEventLogStorage):
    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        # The UI follows a run by the changes of its own file, which appear when the file is closed.
        pool = QueuePool if shard == "index" else NullPool
        engine = _engine(self.conn_string_for_shard(shard), pool)
        with self._db_lock:
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection


class OpenSqliteStorage(sqlite_storage.DagsterSqliteStorage):
    """Dagster's SQLite storage with open files. `dagster.yaml` names it and its folder."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super(sqlite_storage.DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]
        self.base_dir = base_dir
        self._inst_data = inst_data
        self._run_storage = _Runs.from_local(sqlite_storage._runs_directory(base_dir))
        self._event_log_storage = _Events(sqlite_storage._event_logs_directory(base_dir))
        self._schedule_storage = _Schedules.from_local(sqlite_storage._schedule_directory(base_dir))

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "OpenSqliteStorage":
        """Return the storage that `dagster.yaml` configures."""
        return cls(inst_data=inst_data, **config_value)
