"""The database of calls: one SQLite file, or a Postgres database that machines share.

Work is passed as a function of a connection. Where a connection to Postgres is lost, or two
transactions block each other, the function is called again in a new transaction.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Executable,
    Select,
    Table,
    create_engine,
    extract,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from rag_pipeline.calls import earlier_build
from rag_pipeline.calls.processes import enlist
from rag_pipeline.calls.schema import metadata
from rag_pipeline.errors import ConfigError, StoreError, import_extra

VARIABLE = "RAG_DATABASE_URL"
_DAGSTERS = "DAGSTER_POSTGRES_URL"
_NONE = "none"
FORMAT = 2
"""Format of a SQLite file, in its `user_version`."""
KEYS_AT_ONCE = 500
"""Number of keys that one query asks for."""
_PATIENCE = 60.0
"""Maximum time in seconds to wait for a lock, or for a Postgres server that was there before."""
_CONNECT_SECONDS = 10
_REPEATED = {"40001", "40P01"}
"""Postgres's codes of transactions that blocked each other."""

T = TypeVar("T")


class Database:
    """One SQLite file, by its path, or one Postgres database, by its address.

    Threads share the object. A forked process opens connections of its own.
    """

    def __init__(self, address: Path | URL) -> None:
        self.address = address
        self._lock = RLock()
        self._engine: Engine | None = None
        self._process: str | None = None
        self._pid = 0

    @property
    def is_shared(self) -> bool:
        """Return whether other machines use the database."""
        return isinstance(self.address, URL)

    @property
    def path(self) -> Path:
        """Return the file of a SQLite database."""
        assert isinstance(self.address, Path)
        return self.address

    @property
    def place(self) -> str:
        """Return the path, or the address without its password."""
        if isinstance(self.address, Path):
            return str(self.address)
        port = f":{self.address.port}" if self.address.port else ""
        return f"postgresql://{self.address.host}{port}/{self.address.database}"

    @property
    def exists(self) -> bool:
        """Return whether there is a file; of Postgres always true."""
        return not isinstance(self.address, Path) or self.address.exists()

    @property
    def process_name(self) -> str:
        """Return the name of this process in the table of processes, which shows it alive."""
        with self._lock:
            self._leave_parent()
            if self._process is None:
                self._process = enlist(self)
            return self._process

    def is_open_as(self, process: str) -> bool:
        """Return whether a process name is still in use."""
        return self._process == process

    # --- work ---

    def write(self, work: Callable[[Connection], T], lock: str = "") -> T:
        """Call `work` in one transaction and return its value.

        In SQLite one transaction writes at a time. In Postgres those with the same `lock` wait for
        each other. `work` must do no harm when it is called again. Raises StoreError.
        """

        def transaction(engine: Engine) -> T:
            with engine.begin() as connection:
                if not self.is_shared:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                elif lock:
                    connection.execute(_LOCKED, {"name": lock})
                return work(connection)

        return self._repeated(transaction)

    def read(self, query: Executable) -> Sequence[Any]:
        """Return the rows of a query, with its columns as attributes. Raises StoreError."""

        def rows(engine: Engine) -> Sequence[Any]:
            with engine.connect() as connection:
                if self.is_shared:
                    connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                return connection.execute(query).all()

        return self._repeated(rows)

    def read_keys(
        self, query: Select[Any], column: Column[Any], keys: Sequence[bytes]
    ) -> Iterator[Any]:
        """Yield the rows of a query in which a column has one of any number of keys."""
        for part in parts(keys):
            yield from self.read(query.where(column.in_(part)))

    def insert(self, table: Table) -> Any:
        """Return an INSERT that can be told what to do on a conflict."""
        return postgresql.insert(table) if self.is_shared else sqlite.insert(table)

    def now(self, connection: Connection | None = None) -> float:
        """Return the time in Unix seconds, of Postgres by the server's clock."""
        if not self.is_shared:
            return time.time()
        if connection is None:
            return float(self.read(select(_NOW))[0][0])
        return float(connection.execute(select(_NOW)).scalar_one())

    def check(self) -> None:
        """Raise StoreError where SQLite finds its file damaged; Postgres looks after its own."""
        if self.is_shared:
            return
        try:
            problem = str(self.read(text("PRAGMA integrity_check(1)"))[0][0])
        except StoreError as error:
            raise StoreError(f"{error}; {_REPAIR}") from None
        if problem != "ok":
            raise StoreError(f"{self.place}: {problem}; {_REPAIR}")

    def shrink(self, free_share: float) -> None:
        """Give the free pages of a SQLite file back to the disk, if they are this share of it."""
        if self.is_shared:
            return
        (free,), (pages,) = (self.read(text(f"PRAGMA {n}_count"))[0] for n in ("freelist", "page"))
        self.read(text("PRAGMA wal_checkpoint(TRUNCATE)"))
        if free > free_share * pages:
            self._repeated(_vacuum)

    def close(self) -> None:
        """Close all connections; the next call opens them again."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
            self._engine = self._process = None

    # --- connections ---

    def _repeated(self, work: Callable[[Engine], T]) -> T:
        until, pause = time.monotonic() + _PATIENCE, 0.05
        while True:
            was_open = self._engine is not None
            try:
                return work(self._opened())
            except (SQLAlchemyError, sqlite3.Error, OSError) as error:
                passes = was_open and self.is_shared and _passes(error)
                if not passes or time.monotonic() > until:
                    raise StoreError(self._message(error)) from None
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _opened(self) -> Engine:
        with self._lock:
            self._leave_parent()
            if self._engine is None:
                engine = self._connected()
                try:
                    self._prepare(engine)
                except BaseException:
                    engine.dispose()
                    raise
                self._engine = engine
            return self._engine

    def _leave_parent(self) -> None:
        """Leave the connections alone that belong to the process that this one forked from."""
        if self._pid != os.getpid():
            if self._engine is not None:
                self._engine.dispose(close=False)
            self._engine = self._process = None
            self._pid = os.getpid()

    def _connected(self) -> Engine:
        # A thread that needs a connection is given one, whatever others hold.
        options: dict[str, Any] = {"pool_size": 5, "max_overflow": -1, "pool_use_lifo": True}
        if isinstance(self.address, Path):
            path = self.address
            return create_engine(
                "sqlite://", creator=lambda: connect_sqlite(path), poolclass=QueuePool, **options
            )
        import_extra("psycopg2", "psycopg2-binary", "postgres")
        return create_engine(
            self.address, executemany_mode="values_plus_batch",
            connect_args={"connect_timeout": _CONNECT_SECONDS}, **options,
        )  # fmt: skip

    def _prepare(self, engine: Engine) -> None:
        """Create the tables that are not there."""
        if self.is_shared:
            with engine.begin() as connection:
                # CREATE IF NOT EXISTS alone fails for one of two that create at once.
                connection.execute(_LOCKED, {"name": "schema"})
                metadata.create_all(connection)
            return
        with engine.connect() as connection:
            if _format(connection) == FORMAT:
                return
            if _format(connection) > FORMAT:
                raise StoreError(
                    f"{self.place}: format {_format(connection)}, this version reads {FORMAT}; "
                    f"upgrade rag_pipeline, or name another store"
                )
            with earlier_build.attached(connection, self.path) as found:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # of several processes one creates
                if _format(connection) != FORMAT:
                    earlier_build.rename_answers(connection)
                    metadata.create_all(connection)
                    earlier_build.copy_charges(connection, found)
                    connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
                connection.commit()
            if found:
                earlier_build.remove_files(self.path)

    def _message(self, error: Exception) -> str:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
        if not self.is_shared:
            return f"{self.place}: calls: {reason}"
        return (
            f"{self.place}: answers, claims and budgets are kept there: {reason}; start it, or "
            f"name another by {VARIABLE}"
        )


_REPAIR = "`rag doctor --full --repair` keeps what can be read of it"
_LOCKED = text("SELECT pg_advisory_xact_lock(hashtextextended('rag_pipeline ' || :name, 0))")
_NOW = extract("epoch", func.clock_timestamp())


def parts(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield keys in groups that one query can name."""
    return (keys[i : i + KEYS_AT_ONCE] for i in range(0, len(keys), KEYS_AT_ONCE))


def _vacuum(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def _format(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _passes(error: Exception) -> bool:
    """Tell whether an error of Postgres may be gone in a moment: a restart, or a deadlock."""
    if not isinstance(error, DBAPIError):
        return False
    refused = type(error.orig).__name__ == "OperationalError" and error.statement is None
    code = getattr(error.orig, "pgcode", None)
    # 57P: the server is shutting down or starting.
    stopping = str(code).startswith("57P")
    return error.connection_invalidated or refused or stopping or code in _REPEATED


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """Open a file, with its folder, in write-ahead mode; raise sqlite3.Error or OSError.

    Outside of an explicit BEGIN each statement is a transaction.
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
            # Of several that switch a new file over, SQLite refuses all but one at once.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA journal_size_limit=67108864")
    return connection


def cache_folder() -> Path:
    """Return this user's folder on this machine for what can be fetched or made again."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "rag-pipeline"


@cache
def limits_database(folder: Path) -> Database:
    """Return the database of the rate limits that hold for this machine alone."""
    return Database(folder / "limits.sqlite")


def shared_database() -> Database | None:
    """Return the Postgres database that RAG_DATABASE_URL names, or else Dagster's.

    None where neither is named, or RAG_DATABASE_URL is `none`. Raises ConfigError for an address
    of anything else.
    """
    named = os.environ.get(VARIABLE)
    if named == _NONE:
        return None
    address = named or os.environ.get(_DAGSTERS)
    return _shared(address, VARIABLE if named else _DAGSTERS) if address else None


@cache
def _shared(address: str, variable: str) -> Database:
    try:
        url = make_url(address)
    except ArgumentError:
        raise ConfigError(f"{variable}: not an address; {_EXPECTED}") from None
    if url.get_backend_name() not in ("postgres", "postgresql"):
        raise ConfigError(f"{variable}: {url.drivername}://{url.host}: {_EXPECTED}")
    return Database(url.set(drivername="postgresql+psycopg2"))


_EXPECTED = f"name postgresql://user:password@host:5432/database, or {_NONE} for SQLite"
