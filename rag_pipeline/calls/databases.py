"""SQLite files that many threads and processes write at once."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rag_pipeline.errors import StoreError

KEYS_AT_ONCE = 500
"""Number of keys that one query asks for."""
_PATIENCE = 60.0
"""Maximum time in seconds to wait for a lock."""


class Connections(threading.local):
    """A thread's connection to a file, and the transaction that it is in."""

    connection: sqlite3.Connection | None = None
    _joined: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the connection; the next transaction opens it again."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def transaction(
        self, what: str, connect: Callable[[], sqlite3.Connection]
    ) -> Iterator[sqlite3.Connection]:
        """Open the connection for one transaction, or join the one that the thread is in.

        Raises StoreError, which begins with `what`.
        """
        if self._joined is not None:
            yield self._joined
            return
        try:
            if self.connection is None:
                self.connection = connect()
            self._joined = self.connection
            with self.connection:
                yield self.connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{what}: {error}") from None
        finally:
            self._joined = None


def open_database(path: Path) -> sqlite3.Connection:
    """Open a file, with its folder, in write-ahead mode; raise sqlite3.Error or OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_PATIENCE)
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
    return connection


def select(
    connection: sqlite3.Connection, query: str, keys: Sequence[bytes]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query, without its WHERE, whose `key` is one of any number of keys."""
    for first in range(0, len(keys), KEYS_AT_ONCE):
        part = keys[first : first + KEYS_AT_ONCE]
        yield from connection.execute(f"{query} WHERE key IN ({','.join('?' * len(part))})", part)


def has_column(connection: sqlite3.Connection, table: str, name: str) -> bool:
    """Tell whether a table has a column."""
    return name in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def add_column(connection: sqlite3.Connection, table: str, name: str, kind: str) -> None:
    """Give a table of an earlier version a column that it lacks."""
    if has_column(connection, table, name):
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")  # of several processes one adds it
        if not has_column(connection, table, name):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def read_damaged(
    path: Path, query: Callable[[sqlite3.Connection], str]
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield what a query reads of a damaged file, in parts: from either end as far as the damage.

    Rows may come twice.
    """
    for order in ("", " DESC"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as damaged:
            rows = damaged.execute(f"{query(damaged)} ORDER BY rowid{order}")
            while part := list(islice(_readable(rows), KEYS_AT_ONCE)):
                yield part


def _readable(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error):  # no further
        yield from rows


def put_in_place(mended: Path, path: Path) -> None:
    """Replace a damaged file, which nobody has open."""
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    mended.replace(path)
