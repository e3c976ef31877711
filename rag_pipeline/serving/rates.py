"""Limit the requests per minute of an address or token to all processes of a server."""

import sqlite3
import time
from pathlib import Path

_FULL_SECONDS = 60.0
"""After this many seconds, every bucket is full again, so its row can be deleted."""


class Buckets:
    """A token bucket for each name.

    Its capacity is a tenth of the requests allowed per minute, but at least one request. The
    buckets are in a SQLite file, or in memory if `file` is None. If the file is locked for 20 ms
    or cannot be written, this process counts alone, because a wait would stop its event loop.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._rows, self._alone = _opened(file or ":memory:"), _opened(":memory:")

    def wait(self, name: str, per_minute: int) -> float:
        """Take a request from a name's bucket and return 0.0, or return the seconds to wait."""
        try:
            return _take(self._rows, name, per_minute)
        except sqlite3.Error:
            return _take(self._alone, name, per_minute)


def _opened(file: Path | str) -> sqlite3.Connection:
    rows = sqlite3.connect(file, isolation_level=None)
    rows.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"
        "CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, held REAL, since REAL);"
        "CREATE INDEX IF NOT EXISTS by_time ON buckets (since); PRAGMA busy_timeout=20"
    )
    return rows


def _take(rows: sqlite3.Connection, name: str, per_minute: int) -> float:
    per_second, size = per_minute / 60, max(per_minute / 10, 1.0)
    now = time.monotonic()  # all processes of a machine share this clock
    with rows:
        rows.execute("BEGIN IMMEDIATE")
        rows.execute("DELETE FROM buckets WHERE since < ?", [now - _FULL_SECONDS])
        found = rows.execute("SELECT held, since FROM buckets WHERE name = ?", [name])
        before, since = found.fetchone() or (size, now)
        held = min(size, before + (now - since) * per_second)
        row = name, held - 1 if held >= 1 else held, now
        rows.execute("REPLACE INTO buckets VALUES (?, ?, ?)", row)
    return max(0.0, 1 - held) / per_second
