"""Limit the requests per minute of an address or token to all processes of a server."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path

_FULL_SECONDS = 60.0
"""After this many seconds, every bucket is full again, so its row can be deleted."""


class Buckets:
    """A token bucket for each name.

    Its capacity is a tenth of the requests allowed per minute, but at least one request. The
    buckets are in a SQLite file, or in memory if `file` is None. If the file cannot be written,
    nothing is limited.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._rows = sqlite3.connect(file or ":memory:", isolation_level=None)
        self._rows.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"
            "CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, held REAL, since REAL);"
            "CREATE INDEX IF NOT EXISTS by_time ON buckets (since)"
        )

    def wait(self, name: str, per_minute: int) -> float:
        """Take a request from a name's bucket and return 0.0, or return the seconds to wait."""
        per_second, size = per_minute / 60, max(per_minute / 10, 1.0)
        now, held = time.monotonic(), 1.0  # all processes of a machine share this clock
        with suppress(sqlite3.Error), self._rows:
            self._rows.execute("BEGIN IMMEDIATE")
            self._rows.execute("DELETE FROM buckets WHERE since < ?", [now - _FULL_SECONDS])
            found = self._rows.execute("SELECT held, since FROM buckets WHERE name = ?", [name])
            before, since = found.fetchone() or (size, now)
            held = min(size, before + (now - since) * per_second)
            row = name, held - 1 if held >= 1 else held, now
            self._rows.execute("REPLACE INTO buckets VALUES (?, ?, ?)", row)
        return max(0.0, 1 - held) / per_second
