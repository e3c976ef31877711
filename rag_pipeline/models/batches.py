"""Requests -> answers through a provider's batches, each request submitted once.

What is to be submitted is noted before it is: the requests' keys under a token that the batch
carries in its metadata. A killed run leaves either a note without a batch, whose token is then
looked for among the account's batches, or a note with one, which is waited for. Requests that
another run has submitted are waited for too.
"""

import fcntl
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag_pipeline.calls.databases import select
from rag_pipeline.calls.grouping import groups
from rag_pipeline.calls.progress import advance
from rag_pipeline.calls.segments import SharedRecord
from rag_pipeline.calls.sharing import Exchange, open_outbox, post
from rag_pipeline.errors import CallsStoppedError, ProviderError, StoreError, TransientError
from rag_pipeline.models.providers.batching import (
    MOST_BYTES,
    MOST_REQUESTS,
    Batch,
    Batches,
    batch_line,
)

_MOST_SUBMISSIONS = 3

Done = Callable[[bytes, dict[str, Any], str], None]
"""Called with a request's key, the body of its answer, and an id of this one answer.

Raises ProviderError for an answer that is a refusal, TransientError for what is no answer.
"""
MaySubmit = Callable[[Sequence[bytes], bool], Sequence[bytes]]
"""Called with the requests that would be submitted now; returns the first ones, those that may.

The others are submitted when the batch of these has ended. With True it waits until there are
some. Raises where none ever may.
"""


def run_batches(
    keys: Sequence[bytes],
    request: Callable[[bytes], Mapping[str, Any]],
    client: Batches,
    notes: "BatchNotes",
    done: Done,
    poll_seconds: float,
    may_submit: MaySubmit = lambda keys, wait: keys,
    ended: Callable[[Iterable[bytes]], None] = lambda keys: None,
) -> dict[bytes, ProviderError]:
    """Submit requests that are in no batch yet, wait, and hand over every answer.

    `request` returns the body of a key's request; it is asked when a file is written, so that
    thousands of requests that each repeat a document are never in memory together. `ended` is
    called with the requests of a batch that brings no more answers.

    Lines that failed in a way that may pass, that are no answer, or that the batch's day was too
    short for are submitted again, up to three times by this run. A batch of an earlier run is
    looked at, but what it lacks is submitted anew. Returns those that failed. Raises
    CallsStoppedError when a batch as a whole is refused, and whatever `may_submit` does.
    """
    failed: dict[bytes, ProviderError] = {}
    submissions = dict.fromkeys(keys, 0)
    reasons: dict[bytes, ProviderError] = {}
    round_number = 0
    while waiting := [k for k in submissions if submissions[k] < _MOST_SUBMISSIONS]:
        round_number += 1
        again: dict[bytes, ProviderError] = {}
        batches = _submitted(waiting, request, client, notes, round_number, may_submit)
        for token, (batch, own, is_new) in batches.items():
            while not batch.ended:
                is_new = True  # nobody has seen its end yet
                time.sleep(poll_seconds)
                batch = client.get(batch.batch_id) or replace(batch, status="cancelled")
            if batch.status == "failed":
                notes.release(token)
                ended(own)
                reason = "; ".join(batch.errors) or "no reason given"
                raise CallsStoppedError(f"batch {batch.batch_id} was refused: {reason}")
            for key in own:
                again[key] = ProviderError(f"batch {batch.batch_id} ended without an answer")
                submissions[key] += is_new
            _collect(batch, client, own, done, failed, again)
            notes.release(token, own)
            ended(own)
            for key in own - again.keys() | own & failed.keys():
                del submissions[key]
        reasons |= again
    failed.update({key: reasons[key] for key in submissions})
    return failed


def _collect(
    batch: Batch,
    client: Batches,
    own: set[bytes],
    done: Done,
    failed: dict[bytes, ProviderError],
    again: dict[bytes, ProviderError],
) -> None:
    for line in client.answers(batch):
        key = _key_of(line)
        if key not in own or key not in again:
            continue  # not one of ours, or told twice
        response = _mapping(line, "response")
        body = _mapping(response, "body")
        status = response.get("status_code")
        status = status if isinstance(status, int) else 0
        if status == 200:
            try:
                done(key, body, f"{batch.batch_id}:{line['custom_id']}")
            except TransientError as error:
                again[key] = error
                continue
            except ProviderError as error:
                failed[key] = error
            del again[key]
            advance("calls", 1)
            continue
        fault = _mapping(line, "error") or _mapping(body, "error")
        reason = ProviderError(
            f"batch {batch.batch_id}: {fault.get('message') or fault.get('code') or 'failed'}"
            + (f" (HTTP {status})" if status else "")
        )
        if status in (0, 408, 409, 429) or status >= 500:
            again[key] = reason
        else:
            failed[key] = reason
            del again[key]


def _key_of(line: Any) -> bytes | None:
    """Return the key of a batch's line, None of one that names none of ours."""
    try:
        return bytes.fromhex(line["custom_id"])
    except (ValueError, TypeError, KeyError):
        return None


def _mapping(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _submitted(
    keys: Sequence[bytes],
    request: Callable[[bytes], Mapping[str, Any]],
    client: Batches,
    notes: "BatchNotes",
    round_number: int,
    may_submit: MaySubmit,
) -> dict[str, tuple[Batch, set[bytes], bool]]:
    """Return the batches by token with their share of the keys; submit keys that are in none.

    Also tells whether a batch is new: submitted now.
    """
    batches: dict[str, tuple[Batch, set[bytes], bool]] = {}
    wanted = set(keys)
    # One process at a time: whoever holds the lock knows that a note without a batch is of a
    # process that was killed, as the lock goes with its owner.
    with notes.locked():
        noted = notes.tokens(keys)
        new = [key for key in keys if key not in noted]
        if new:
            # The end of what is noted, which this run waits for, may make room for the rest.
            new = list(may_submit(new, not noted))
        sizes = (len(batch_line(key.hex(), request(key)).encode()) + 1 for key in new)
        for positions in groups(sizes, MOST_REQUESTS, MOST_BYTES):
            part = [new[position] for position in positions]
            notes.add(_token(part, round_number), part)
        placed = notes.tokens(keys)
        for token, batch_id in dict.fromkeys(placed.values()):
            found = client.get(batch_id) if batch_id is not None else client.find(token)
            is_new = found is None
            if found is None:
                # Only what is wanted now can be asked; forget the rest of a killed run's note.
                notes.keep(token, wanted)
                lines = (batch_line(key.hex(), request(key)) for key in notes.keys(token))
                found = client.submit(lines, token)
            notes.submitted(token, found.batch_id)
            own = {key for key in placed if placed[key][0] == token}
            batches[token] = found, own, is_new
    return batches


def _token(keys: Sequence[bytes], round_number: int) -> str:
    """Return the same token for the same requests, so that another machine finds their batch."""
    digest = hashlib.sha256(b"".join(sorted(keys)))
    return f"{digest.hexdigest()[:32]}-{round_number}"


@dataclass(frozen=True, slots=True)
class BatchNotes:
    """Which request is in which batch, in a SQLite file that processes share.

    With an `exchange`, other machines are told of each batch when it is submitted, and when it is
    done with.
    """

    path: Path
    exchange: Exchange | None = None

    def tokens(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, str | None]]:
        """Return the token and, once it is known, the batch of each key that has been noted."""
        query = "SELECT key, token, batch_id FROM requests JOIN batches USING (token)"
        with self.connection() as connection:
            rows = select(connection, query, keys)
            return {key: (token, batch_id) for key, token, batch_id in rows}

    def keys(self, token: str) -> list[bytes]:
        """Return the requests of a batch."""
        with self.connection() as connection:
            rows = connection.execute("SELECT key FROM requests WHERE token = ?", (token,))
            return [key for (key,) in rows]

    def add(self, token: str, keys: Sequence[bytes]) -> None:
        """Note requests that are about to be submitted."""
        with self.connection() as connection:
            connection.execute("INSERT OR REPLACE INTO batches VALUES (?, NULL)", (token,))
            connection.executemany(
                "INSERT OR REPLACE INTO requests VALUES (?, ?)", ((key, token) for key in keys)
            )

    def submitted(self, token: str, batch_id: str) -> None:
        """Note the batch of a token."""
        with self.connection() as connection:
            row = (batch_id, token)
            changed = connection.execute(
                "UPDATE batches SET batch_id = ?1 WHERE token = ?2 AND batch_id IS NOT ?1", row
            ).rowcount
            if changed and self.exchange is not None:
                found = connection.execute("SELECT key FROM requests WHERE token = ?", (token,))
                note = {"batch_id": batch_id, "keys": [key.hex() for (key,) in found]}
                post(connection, [SharedRecord("batch", token.encode(), json.dumps(note).encode())])
        if changed and self.exchange is not None:
            self.exchange.push_if_possible()

    def keep(self, token: str, keys: Container[bytes]) -> None:
        """Forget the requests of a token that are not among these."""
        self.release(token, [key for key in self.keys(token) if key not in keys])

    def release(self, token: str, keys: Iterable[bytes] | None = None) -> None:
        """Forget requests of a batch, all by default, and the batch with its last one."""
        with self.connection() as connection:
            if keys is None:
                if self.exchange is not None:
                    found = connection.execute(
                        "SELECT batch_id FROM batches WHERE token = ?", (token,)
                    ).fetchone()
                    value = ((found and found[0]) or "").encode()
                    post(connection, [SharedRecord("batch done", token.encode(), value)])
                connection.execute("DELETE FROM requests WHERE token = ?", (token,))
            else:
                connection.executemany(
                    "DELETE FROM requests WHERE token = ? AND key = ?", ((token, k) for k in keys)
                )
            connection.execute(
                "DELETE FROM batches WHERE token NOT IN (SELECT token FROM requests)"
            )

    kinds = frozenset({"batch", "batch done"})

    def adopt(self, connection: sqlite3.Connection, records: Sequence[SharedRecord]) -> None:
        """Add other machines' batches, in the order in which they were noted.

        A batch that is done with is forgotten only if it failed as a whole: asked again, any
        other one tells its answers again, which costs nothing.
        """
        for record in records:
            token, value = record.key.decode(), record.value.decode()
            if record.kind == "batch done":
                connection.execute(
                    "DELETE FROM requests WHERE token IN "
                    "(SELECT token FROM batches WHERE token = ? AND batch_id = ?)",
                    (token, value),
                )
                continue
            note = json.loads(value)
            connection.execute(
                "INSERT INTO batches VALUES (?1, ?2) "
                "ON CONFLICT (token) DO UPDATE SET batch_id = coalesce(batch_id, ?2)",
                (token, note["batch_id"]),
            )
            connection.executemany(
                "INSERT OR IGNORE INTO requests VALUES (?, ?)",
                ((bytes.fromhex(key), token) for key in note["keys"]),
            )
        connection.execute("DELETE FROM batches WHERE token NOT IN (SELECT token FROM requests)")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock that only one process has; it is free again when its holder is killed."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction. Raises StoreError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
                connection.executescript(
                    "CREATE TABLE IF NOT EXISTS batches (token TEXT PRIMARY KEY, batch_id TEXT);"
                    "CREATE TABLE IF NOT EXISTS requests (key BLOB PRIMARY KEY, token TEXT);"
                )
                if self.exchange is not None:
                    open_outbox(connection, "SELECT '', x'', x'' WHERE FALSE")
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: batches: {error}") from None
