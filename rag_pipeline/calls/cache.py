"""Answers by key: what was asked once is never sent to a model again.

The key of a call is the SHA-256 of provider, model, parameters and input; its value is what came
back. Values are committed as they arrive, so a crash loses at most the calls in flight.
"""

import hashlib
import json
import sqlite3
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from rag_pipeline.calls.databases import (
    Connections,
    add_column,
    has_column,
    open_database,
    put_in_place,
    read_damaged,
    select,
)
from rag_pipeline.calls.segments import SharedRecord
from rag_pipeline.calls.sharing import Exchange, open_outbox, post
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import StoreError

FORMAT = 1
"""Format of the file, in its `user_version`; 0 did not record when an answer was last used."""
_NOTED_SECONDS = 86_400
"""An answer's last use is noted to the day, so that reading seldom has to write."""
_FREE_SHARE = 0.2
NO_USAGE: Mapping[bytes, Usage] = {}


@dataclass(slots=True)
class CallCounts:
    """Counts of the inputs sent to a model and of those answered from the cache."""

    made: int = 0
    saved: int = 0

    def add(self, other: "CallCounts") -> None:
        """Add another count to this one."""
        self.made += other.made
        self.saved += other.saved


def count_calls(
    keys: Sequence[bytes], answered: Container[bytes], sent: Sequence[bytes]
) -> CallCounts:
    """Return how many inputs were sent, and how many of the others were answered."""
    distinct = set(sent)
    return CallCounts(
        len(distinct), sum(k in answered for k in keys) - sum(k in answered for k in distinct)
    )


@dataclass(slots=True)
class CallCache:
    """Answers by key, in one SQLite file that threads and processes share.

    With an `exchange`, other machines get its answers and it gets theirs.
    """

    path: Path
    exchange: Exchange | None = None
    _local: Connections = field(default_factory=Connections)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the known answers of these keys, but not those that are not what was stored.

        Those that only other machines have are fetched.
        """
        answers = self._held(keys)
        if self.exchange is not None:
            fetched = self.exchange.fetch([key for key in keys if key not in answers])
            answers |= self._held(list(fetched))
        return answers

    def _held(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        answers: dict[bytes, bytes] = {}
        long_ago: list[bytes] = []
        rotten: list[bytes] = []
        day_before = int(time.time()) - _NOTED_SECONDS
        query = "SELECT key, value, used, hash FROM calls"
        for key, value, used, stored in self._select(query, keys):
            if not _is_whole(key, value, stored):
                rotten.append(key)
                continue
            answers[key] = value
            if used < day_before:
                long_ago.append(key)
        self.touch(long_ago)
        self._drop(rotten)
        return answers

    def rotten(self) -> list[bytes]:
        """Return the keys of the answers that are not what was stored; reads them all."""
        with self.connection() as connection:
            rows = connection.execute("SELECT key, value, hash FROM calls")
            return [row[0] for row in rows if not _is_whole(*row)]

    def forget_rotten(self) -> None:
        """Drop the answers that are not what was stored: they are asked for again when needed."""
        self._drop(self.rotten())

    def salvage(self) -> None:
        """Put what can be read of a damaged file in its place; stop all that use it before.

        Reads from either end as far as the damage. What is not the same as was stored is left out.
        """
        mended = CallCache(self.path.with_name(f".tmp-{self.path.name}"))
        mended.path.unlink(missing_ok=True)
        mended.put({})  # makes the file, also where no answer can be read
        self.close()
        for part in read_damaged(self.path, _answers_of):
            mended.put({key: value for key, value, h in part if _is_whole(key, value, h)})
        mended.close()
        put_in_place(mended.path, self.path)

    def close(self) -> None:
        """Close this thread's connection; the next call opens it again."""
        self._local.close()

    def _drop(self, keys: Sequence[bytes]) -> None:
        if keys:
            with self.connection() as connection:
                connection.executemany("DELETE FROM calls WHERE key = ?", ((k,) for k in keys))

    def touch(self, keys: Sequence[bytes]) -> None:
        """Note that these keys are used now."""
        if not keys:
            return
        now = int(time.time())
        with self.connection() as connection:
            connection.executemany(
                "UPDATE calls SET used = ? WHERE key = ?", ((now, key) for key in keys)
            )

    def __len__(self) -> int:
        """Return the number of answers."""
        with self.connection() as connection:
            (count,) = connection.execute("SELECT count(*) FROM calls").fetchone()
        return int(count)

    def unused(self, since: float) -> set[bytes]:
        """Return the keys of the answers that were last used before a time (Unix seconds)."""
        with self.connection() as connection:
            rows = connection.execute("SELECT key FROM calls WHERE used < ?", (since,))
            return {key for (key,) in rows}

    def prune(self, since: float) -> int:
        """Delete the answers last used before a time; return how many they were."""
        with self.connection() as connection:
            deleted = connection.execute("DELETE FROM calls WHERE used < ?", (since,)).rowcount
        with self.connection() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return int(deleted)

    def shrink(self) -> None:
        """Give the space of deleted answers back to the disk; waits for all other users."""
        with self.connection() as connection:
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if free > _FREE_SHARE * pages:
            with self.connection() as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of these keys have an answer, without reading the answers."""
        held = self.held(keys)
        if self.exchange is not None:
            held |= self.exchange.located([key for key in keys if key not in held])
        return held

    def held(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of these keys have an answer on this machine."""
        return {key for (key,) in self._select("SELECT key FROM calls", keys)}

    def claimed(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, float]]:
        """Return who claimed these keys and when (see `Claims`), of those that are claimed."""
        rows = self._select("SELECT key, owner, since FROM claims", keys)
        return {key: (owner, since) for key, owner, since in rows}

    def _select(self, query: str, keys: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        with self.connection() as connection:
            yield from select(connection, query, keys)

    def put(self, answers: Mapping[bytes, bytes], usage: Mapping[bytes, Usage] = NO_USAGE) -> None:
        """Store answers, durable against a killed process when this returns.

        `usage` is what each of them used, of those that don't tell it themselves.
        """
        told = {key: json.dumps(astuple(usage[key])) for key in answers if key in usage}
        with self.connection() as connection:
            now = int(time.time())
            connection.executemany(
                "INSERT OR REPLACE INTO calls (key, value, used, usage, hash) "
                "VALUES (?, ?, ?, ?, ?)",
                ((k, v, now, told.get(k), _hash(k, v)) for k, v in answers.items()),
            )
            connection.executemany(
                "DELETE FROM failures WHERE key = ?", ((key,) for key in answers)
            )
            if self.exchange is not None:
                post(connection, [SharedRecord("answer", *answer) for answer in answers.items()])
                post(
                    connection, [SharedRecord("usage", key, u.encode()) for key, u in told.items()]
                )
        if self.exchange is not None:
            self.exchange.posted(len(answers))

    def failures(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return in how many earlier runs these keys' calls have failed, of those that have."""
        return dict(self._select("SELECT key, runs FROM failures", keys))

    def fail(self, keys: Sequence[bytes]) -> None:
        """Note that these keys' calls have failed in this run; an answer forgets it."""
        with self.connection() as connection:
            connection.executemany(
                "INSERT INTO failures (key, runs) VALUES (?, 1) "
                "ON CONFLICT (key) DO UPDATE SET runs = runs + 1",
                ((key,) for key in keys),
            )

    def usage(self, keys: Sequence[bytes]) -> dict[bytes, Usage]:
        """Return what the answers of these keys used, of vectors and scores that tell it."""
        found = self._select("SELECT key, usage FROM calls", keys)
        return {key: Usage(*json.loads(usage)) for key, usage in found if usage is not None}

    kinds = frozenset({"answer", "usage"})

    def adopt(self, connection: sqlite3.Connection, records: Sequence[SharedRecord]) -> None:
        """Add another machine's answers, and what they used."""
        now = int(time.time())
        connection.executemany(
            "INSERT OR IGNORE INTO calls (key, value, used, hash) VALUES (?, ?, ?, ?)",
            ((r.key, r.value, now, _hash(r.key, r.value)) for r in records if r.kind == "answer"),
        )
        connection.executemany(
            "UPDATE calls SET usage = ? WHERE key = ? AND usage IS NULL",
            ((r.value.decode(), r.key) for r in records if r.kind == "usage"),
        )

    def refresh(self) -> None:
        """Take note of what other machines have learned, where there are any."""
        if self.exchange is not None:
            self.exchange.pull()

    def connection(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open this thread's connection for one transaction, or join the one it is in.

        Raises StoreError.
        """
        return self._local.transaction(f"{self.path}: call cache", self._connect)

    def _connect(self) -> sqlite3.Connection:
        connection = open_database(self.path)
        connection.execute("PRAGMA journal_size_limit=67108864")
        self._migrate(connection)
        # An earlier version minds neither what answers used nor their hashes.
        add_column(connection, "calls", "usage", "TEXT")
        add_column(connection, "calls", "hash", "BLOB")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS claims "
            "(key BLOB PRIMARY KEY, owner TEXT NOT NULL, since REAL NOT NULL)"
        )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS failures (key BLOB PRIMARY KEY, runs INTEGER NOT NULL)"
        )
        if self.exchange is not None:
            open_outbox(connection, "SELECT 'answer', key, value FROM calls")
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Create the table, or bring one of an older format to this one."""
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found == FORMAT:
            return
        if found > FORMAT:
            raise StoreError(
                f"{self.path}: the call cache has format {found}, this version reads up to "
                f"{FORMAT}; upgrade rag_pipeline, or name another store"
            )
        with connection:
            connection.execute("BEGIN IMMEDIATE")  # of several processes one migrates
            connection.execute(
                "CREATE TABLE IF NOT EXISTS calls (key BLOB PRIMARY KEY, value BLOB NOT NULL)"
            )
            if not has_column(connection, "calls", "used"):
                now = int(time.time())
                connection.execute(
                    f"ALTER TABLE calls ADD COLUMN used INTEGER NOT NULL DEFAULT {now}"
                )
            connection.execute("CREATE INDEX IF NOT EXISTS calls_used ON calls (used)")
            connection.execute(f"PRAGMA user_version = {FORMAT}")


def _answers_of(connection: sqlite3.Connection) -> str:
    stored = "hash" if has_column(connection, "calls", "hash") else "NULL"
    return f"SELECT key, value, {stored} FROM calls"


def _is_whole(key: object, value: object, stored: bytes | None) -> bool:
    """Return whether an answer is what was stored, as far as its version tells.

    One flipped bit makes another type of a value in SQLite.
    """
    if not isinstance(key, bytes) or not isinstance(value, bytes):
        return False
    return stored is None or stored == _hash(key, value)


def _hash(key: bytes, value: bytes) -> bytes:
    """Return what tells an answer under its key from one that has rotted on disk."""
    return hashlib.blake2b(key + b"\0" + value, digest_size=16).digest()


def call_key(kind: str, identity: str, text: str) -> bytes:
    """Return the key of a call: kind, provider with model and parameters, input."""
    digest = hashlib.sha256(f"{kind}\0{identity}\0".encode())
    digest.update(text.encode())
    return digest.digest()
