"""Every paid call goes through here: what was asked once is never sent to a model again.

The key of a call is the SHA-256 of provider, model, parameters and input; its value is what came
back. Values are committed request by request, so a crash loses at most the calls in flight.
"""

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rag_pipeline.errors import StoreError

_KEYS_PER_QUERY = 500


@dataclass(slots=True)
class CallCounts:
    """How many inputs were sent to a model, and how many were answered from the cache."""

    made: int = 0
    saved: int = 0

    def add(self, other: "CallCounts") -> None:
        """Add another count to this one."""
        self.made += other.made
        self.saved += other.saved


@dataclass(slots=True)
class CallCache:
    """Answers by key, in one SQLite file that threads and processes share."""

    path: Path
    _local: threading.local = field(default_factory=threading.local)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the known answers of these keys."""
        known: dict[bytes, bytes] = {}
        with self._connection() as connection:
            for first in range(0, len(keys), _KEYS_PER_QUERY):
                part = keys[first : first + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(part))
                known.update(
                    connection.execute(f"SELECT key, value FROM calls WHERE key IN ({marks})", part)
                )
        return known

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of these keys have an answer, without reading the answers."""
        found: set[bytes] = set()
        with self._connection() as connection:
            for first in range(0, len(keys), _KEYS_PER_QUERY):
                part = keys[first : first + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(part))
                rows = connection.execute(f"SELECT key FROM calls WHERE key IN ({marks})", part)
                found.update(key for (key,) in rows)
        return found

    def put(self, answers: Mapping[bytes, bytes]) -> None:
        """Store answers, durable against a killed process when this returns."""
        with self._connection() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO calls (key, value) VALUES (?, ?)", answers.items()
            )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = getattr(self._local, "connection", None)
            if connection is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(self.path, timeout=60)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS calls (key BLOB PRIMARY KEY, value BLOB NOT NULL)"
                )
                self._local.connection = connection
            with connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: call cache: {error}") from None


def call_key(kind: str, identity: str, text: str) -> bytes:
    """Return the key of a call: kind, provider with model and parameters, input."""
    digest = hashlib.sha256(f"{kind}\0{identity}\0".encode())
    digest.update(text.encode())
    return digest.digest()
