"""SQLite files that many threads and processes write at once."""

import sqlite3
import threading
import time
from pathlib import Path

_PATIENCE = 60.0
"""Maximum time in seconds to wait for a lock."""


class Connections(threading.local):
    """A thread's connection to a file, and the transaction that it is in."""

    connection: sqlite3.Connection | None = None
    transaction: sqlite3.Connection | None = None


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
