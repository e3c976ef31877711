"""Keep Dagster's history in SQLite, with less work per event than Dagster's own storage.

Dagster makes an SQLAlchemy engine for each query, so each statement is compiled again, and closes
the file, which writes its log back. The files here have the same format and the same places.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine

from rag_pipeline.orchestration.internals import (
    ConfigurableClassData,
    DagsterSqliteStorage,
    SqliteEventLogStorage,
    SqliteRunStorage,
    SqliteScheduleStorage,
)

_BUSY_SECONDS = 30
_INDEX = "index"


@lru_cache(maxsize=64)
def _engine(address: str, stays_open: bool = True) -> Engine:
    pool: Any = (
        {"poolclass": QueuePool, "max_overflow": -1} if stays_open else {"poolclass": NullPool}
    )
    return create_engine(address, connect_args={"timeout": _BUSY_SECONDS}, **pool)


class _Kept:
    """A storage in one file that stays open."""

    _conn_string: str

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _engine(self._conn_string).begin() as connection:
            yield connection


class _Runs(_Kept, SqliteRunStorage):
    pass


class _Schedules(_Kept, SqliteScheduleStorage):
    pass


class OpenEvents(SqliteEventLogStorage):
    """Dagster's storage of events, with one open file for the events of all assets."""

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        # The UI follows a run by the changes of its file, which come when the file is closed.
        engine = _engine(self.conn_string_for_shard(shard), shard == _INDEX)
        with self._db_lock:
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection


class OpenSqliteStorage(DagsterSqliteStorage):
    """Dagster's SQLite storage with open files. `dagster.yaml` names it and its folder."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self.base_dir, self._inst_data, folder = base_dir, inst_data, Path(base_dir)
        self._run_storage = _Runs.from_local(str(folder / "history"))
        self._event_log_storage = OpenEvents(str(folder / "history/runs"))
        self._schedule_storage = _Schedules.from_local(str(folder / "schedules"))
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Any
    ) -> "OpenSqliteStorage":
        """Return the storage that `dagster.yaml` configures."""
        return cls.from_local(inst_data=inst_data, **config_value)
