"""The database of calls: one SQLite file, or a Postgres database that machines share.

A transaction is a function that takes a connection. The function runs again if the connection to
Postgres is lost, or if two transactions block each other.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from rag_pipeline.calls import earlier_build, sql
from rag_pipeline.calls.processes import enlist
from rag_pipeline.errors import ConfigError, StoreError, import_extra

VARIABLE = "RAG_DATABASE_URL"
_DAGSTERS = "DAGSTER_POSTGRES_URL"
_NONE = "none"
_EXPECTED = f"use postgresql://user:password@host:5432/database, or {_NONE} for SQLite"
FORMAT = 2
"""Format of a SQLite file, in its `user_version`."""
KEYS_AT_ONCE = 500
"""Number of keys in one query."""
_PATIENCE = 60.0
"""Maximum seconds to wait for a lock, or for a new connection to Postgres."""
_CONNECT_SECONDS = 10
_BLOCKED = {"40001", "40P01"}
"""Postgres's error codes for transactions that blocked each other."""
_REPAIR = "`rag doctor --full --repair` keeps the readable rows"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('rag_pipeline ' || :name, 0))"
_NOW = "SELECT extract(epoch FROM clock_timestamp())"

T = TypeVar("T")


class Database:
    """A SQLite file, given by its path, or a Postgres database, given by its address.

    Threads share the object. A forked process opens its own connections.
    """

    def __init__(self, address: "Path | sql.URL") -> None:
        self.address = address
        self._lock = RLock()
        self._engine: sql.Engine | None = None
        self._process: str | None = None
        self._pid = 0
        self.unreleased: set[str] = set()
        """The owners of claims that could not be deleted. The heartbeat tries again."""

    @property
    def is_shared(self) -> bool:
        """Return whether other machines may use the database."""
        return not isinstance(self.address, Path)

    @property
    def path(self) -> Path:
        """Return the SQLite file."""
        assert isinstance(self.address, Path)
        return self.address

    @property
    def place(self) -> str:
        """Return the path, or the address without user and password."""
        if isinstance(self.address, Path):
            return str(self.address)
        port = f":{self.address.port}" if self.address.port else ""
        return f"postgresql://{self.address.host}{port}/{self.address.database}"

    @property
    def exists(self) -> bool:
        """Return whether the SQLite file exists. The result is always True for Postgres."""
        return self.is_shared or self.path.exists()

    @property
    def process_name(self) -> str:
        """Return the name of this process in the table of processes.

        Read this property outside of a transaction, because the first read writes a row.
        """
        with self._lock:
            self._leave_parent()
            self._process = self._process or enlist(self)
            return self._process

    def release_claims(self) -> None:
        """Delete the claims of the owners in `unreleased`. Raise StoreError if that fails."""
        owners = frozenset(self.unreleased)
        self.delete(sql.claims.c.owner, [*owners])
        self.unreleased -= owners

    def is_open_as(self, process: str) -> bool:
        """Return whether the database is still open under this process name."""
        return self._process == process

    def write(self, work: Callable[["sql.Connection"], T], lock: str = "") -> T:
        """Call `work` in one transaction and return its value. Raise StoreError if it fails.

        In SQLite one transaction writes at a time. In Postgres, transactions with the same `lock`
        run one after the other. `work` may run again, so it must have no other effect than writes.
        """

        def transaction(engine: "sql.Engine") -> T:
            with engine.begin() as connection:
                if not self.is_shared:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                elif lock:
                    connection.execute(sql.text(_LOCK), {"name": lock})
                return work(connection)

        return self._repeated(transaction)

    def read(self, query: "sql.Executable") -> Sequence[Any]:
        """Return the rows of a query, with columns as attributes. Raise StoreError if it fails."""

        def rows(engine: "sql.Engine") -> Sequence[Any]:
            with engine.connect() as connection:
                if self.is_shared:
                    connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                return connection.execute(query).all()

        return self._repeated(rows)

    def read_keys(
        self, query: "sql.Select[Any]", column: "sql.Column[Any]", keys: Sequence[bytes]
    ) -> Iterator[Any]:
        """Yield the rows of a query with one of the `keys` in `column`. `keys` may be many."""
        for part in parts(keys):
            yield from self.read(query.where(column.in_(part)))

    def delete(self, column: "sql.Column[Any]", values: Sequence[Any], *conditions: Any) -> None:
        """Delete the rows that have one of the values in a column and meet all conditions."""

        def work(connection: "sql.Connection") -> None:
            for part in parts(values):
                connection.execute(sql.delete(column.table).where(column.in_(part), *conditions))

        self.write(work)

    def insert(self, table: "sql.Table") -> Any:
        """Return this database's INSERT, which accepts a conflict clause."""
        return _insert(table, self.is_shared)

    def upsert(self, table: "sql.Table", *changed: str) -> Any:
        """Return an INSERT that updates the columns `changed` of existing rows, if any."""
        return _upsert(self.is_shared, table, changed)

    def now(self, connection: "sql.Connection | None" = None) -> float:
        """Return the time in Unix seconds, for Postgres by the clock of its server."""
        if not self.is_shared:
            return time.time()
        if connection is None:
            return float(self.read(sql.text(_NOW))[0][0])
        return float(connection.execute(sql.text(_NOW)).scalar_one())

    def check(self) -> None:
        """Raise StoreError if a SQLite file is damaged. Postgres checks its own files."""
        if self.is_shared:
            return
        try:
            problem = str(self.read(sql.text("PRAGMA integrity_check(1)"))[0][0])
        except StoreError as error:
            raise StoreError(f"{error}; {_REPAIR}") from None
        if problem != "ok":
            raise StoreError(f"{self.place}: {problem}; {_REPAIR}")

    def shrink(self, free_share: float) -> None:
        """Free the unused pages of a SQLite file if they exceed a share (0 to 1) of all pages."""
        if self.is_shared:
            return
        (free,), (pages,) = (
            self.read(sql.text(f"PRAGMA {n}_count"))[0] for n in ("freelist", "page")
        )
        if free > free_share * pages:
            self._repeated(_vacuum)
        self.checkpoint()

    def checkpoint(self) -> None:
        """Move the log of a SQLite file into the file, and empty the log."""
        if not self.is_shared:
            self.read(sql.text("PRAGMA wal_checkpoint(TRUNCATE)"))

    def close(self) -> None:
        """Close all connections. The next call opens them again."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
            self._engine = self._process = None

    # --- connections ---

    def _repeated(self, work: Callable[["sql.Engine"], T]) -> T:
        until, pause = time.monotonic() + _PATIENCE, 0.05
        while True:
            was_open = self._engine is not None
            try:
                return work(self._opened())
            except (sql.SQLAlchemyError, sqlite3.Error, OSError) as error:
                if not (was_open and _may_pass(error)) or time.monotonic() > until:
                    reason = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
                    cure = f"; start the database, or change {VARIABLE}" if self.is_shared else ""
                    if not self.is_shared and "disk I/O error" in reason:  # the disk may be full
                        free = shutil.disk_usage(self.path.parent).free
                        cure = f"; {free:,} bytes are free there"
                    raise StoreError(f"{self.place}: calls: {reason}{cure}") from None
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _opened(self) -> "sql.Engine":
        with self._lock:
            self._leave_parent()
            if self._engine is None:
                engine = self._connected()
                try:
                    (_create_tables if self.is_shared else self._create_file)(engine)
                except BaseException:
                    engine.dispose()
                    raise
                self._engine = engine
            return self._engine

    def _leave_parent(self) -> None:
        """After a fork, drop the connections of the parent process without closing them."""
        if self._pid != os.getpid():
            if self._engine is not None:
                self._engine.dispose(close=False)
            self._engine, self._process, self._pid = None, None, os.getpid()

    def _connected(self) -> "sql.Engine":
        # Without a maximum, no thread waits for the connection of another thread.
        options: dict[str, Any] = {"pool_size": 5, "max_overflow": -1, "pool_use_lifo": True}
        if isinstance(self.address, Path):
            opened = partial(connect_sqlite, self.address)
            options |= {"creator": opened, "poolclass": sql.QueuePool}
            return sql.create_engine("sqlite://", **options)
        import_extra("psycopg2", "psycopg2-binary", "postgres")
        return sql.create_engine(
            self.address, executemany_mode="values_plus_batch",
            connect_args={"connect_timeout": _CONNECT_SECONDS}, **options,
        )  # fmt: skip

    def _create_file(self, engine: "sql.Engine") -> None:
        """Create the tables of a SQLite file, or adopt the tables of an earlier version."""
        with engine.connect() as connection:
            if (found := _format(connection)) == FORMAT:
                return
            if found > FORMAT:
                raise StoreError(
                    f"{self.place}: format {found}, this version reads {FORMAT}; upgrade "
                    f"rag_pipeline, or name another store"
                )
            with earlier_build.attached(connection, self.path) as has_charges:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # only one process creates tables
                if _format(connection) != FORMAT:
                    earlier_build.rename_answers(connection)
                    sql.metadata.create_all(connection)
                    if has_charges:
                        earlier_build.copy_charges(connection)
                    connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
                connection.commit()
        if has_charges:
            earlier_build.remove_files(self.path)


def _create_tables(engine: "sql.Engine") -> None:
    with engine.begin() as connection:
        # Without a lock, CREATE TABLE IF NOT EXISTS fails for one of two concurrent processes.
        connection.execute(sql.text(_LOCK), {"name": "schema"})
        sql.metadata.create_all(connection)


def _vacuum(engine: "sql.Engine") -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("VACUUM")


def _insert(table: "sql.Table", is_shared: bool) -> Any:
    if is_shared:
        from sqlalchemy.dialects.postgresql import insert as shared_insert

        return shared_insert(table)
    from sqlalchemy.dialects.sqlite import insert

    return insert(table)


@cache
def _upsert(is_shared: bool, table: "sql.Table", changed: tuple[str, ...]) -> Any:
    insert = _insert(table, is_shared)
    if not changed:
        return insert.on_conflict_do_nothing()
    values = {name: insert.excluded[name] for name in changed}
    keys = list(table.primary_key.columns.keys())
    return insert.on_conflict_do_update(index_elements=keys, set_=values)


def parts(keys: Sequence[T], most: int = KEYS_AT_ONCE) -> Iterator[Sequence[T]]:
    """Yield keys in groups that fit one query, of at most `most` keys each."""
    return (keys[i : i + most] for i in range(0, len(keys), most))


def _format(connection: "sql.Connection") -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _may_pass(error: Exception) -> bool:
    """Return whether an error of Postgres is temporary, such as a restart or a deadlock."""
    if not isinstance(error, sql.DBAPIError) or isinstance(error.orig, sqlite3.Error):
        return False
    refused = type(error.orig).__name__ == "OperationalError" and error.statement is None
    code = str(getattr(error.orig, "pgcode", None))
    is_restarting = code.startswith("57P")
    return error.connection_invalidated or refused or is_restarting or code in _BLOCKED


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """Open a file in write-ahead mode, and create its folder if it is missing.

    Each statement outside of an explicit BEGIN is a transaction. Raise sqlite3.Error or OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(
        path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            # If several connections change the mode of a new file, SQLite refuses all but one.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA journal_size_limit=67108864")
    return connection


def cache_folder() -> Path:
    """Return this user's folder for files that can be downloaded or made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rag-pipeline"


@cache
def limits_database(folder: Path) -> Database:
    """Return this machine's database of rate limits, one object per folder."""
    return Database(folder / "limits.sqlite")


def shared_database() -> Database | None:
    """Return the Postgres database in RAG_DATABASE_URL, or else in DAGSTER_POSTGRES_URL.

    Return None if both are unset, or if RAG_DATABASE_URL is `none`. Raise ConfigError for any other
    kind of database.
    """
    named = os.environ.get(VARIABLE)
    if named == _NONE:
        return None
    address = named or os.environ.get(_DAGSTERS)
    return _shared(address, VARIABLE if named else _DAGSTERS) if address else None


@cache
def _shared(address: str, variable: str) -> Database:
    try:
        url = sql.make_url(address)
    except sql.ArgumentError:
        raise ConfigError(f"{variable}: the value is not an address; {_EXPECTED}") from None
    if url.get_backend_name() not in ("postgres", "postgresql"):
        raise ConfigError(f"{variable}: {url.drivername}://{url.host}: {_EXPECTED}")
    return Database(url.set(drivername="postgresql+psycopg2"))
