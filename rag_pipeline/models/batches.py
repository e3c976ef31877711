"""Requests -> answers through a provider's batches; each request is submitted once.

A run notes the requests' keys before it submits them, under a token that the batch carries in its
metadata. A killed run leaves a note without a batch, which is searched for by its token, or a note
with one, which is waited for. A run also waits for the batches of other runs.
"""

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlalchemy import Connection, delete, select, update

from rag_pipeline.calls import CallCache, Claims, Database, schema
from rag_pipeline.calls.database import parts
from rag_pipeline.calls.grouping import groups
from rag_pipeline.errors import CallsStoppedError, ProviderError, TransientError
from rag_pipeline.models.providers.batching import (
    MOST_BYTES,
    MOST_REQUESTS,
    Batch,
    Batches,
    batch_line,
)

_MOST_SUBMISSIONS = 3
_SUBMITTING = b"submitting a batch"
"""The key that a process claims while it submits batches."""
_LOCK_POLL_SECONDS = 0.2
_BATCHES, _REQUESTS = schema.batches, schema.requests


class Requests(Protocol):
    """The requests of a run by key, their budget and the reader of their answers."""

    def body(self, key: bytes) -> Mapping[str, Any]:
        """Return the body of a request. Bodies are large, so they are made one by one."""

    def admit(self, keys: Sequence[bytes], wait: bool) -> Sequence[bytes]:
        """Return the first requests that may be submitted now; with `wait`, wait for at least one.

        The others follow when the batch of these has ended. Raises if none ever may.
        """

    def accept(self, key: bytes, body: dict[str, Any], answer_id: str) -> None:
        """Read an answer. Raise ProviderError for a refusal, TransientError for no answer."""

    def finished(self, keys: Iterable[bytes]) -> None:
        """Learn that the batch of these requests brings no further answers."""


def run_batches(
    keys: Sequence[bytes],
    requests: Requests,
    client: Batches,
    notes: "BatchNotes",
    poll_seconds: float,
) -> dict[bytes, ProviderError]:
    """Submit requests that are in no batch yet, wait, and hand over every answer.

    Lines with a transient error, without an answer, or that expired are submitted again, up to
    three times by this run. Requests that a batch of an earlier run lacks are submitted once more.
    Returns the failed requests. Raises CallsStoppedError if a whole batch is refused, and the
    errors of `admit`.
    """
    failed: dict[bytes, ProviderError] = {}
    submissions = dict.fromkeys(keys, 0)
    reasons: dict[bytes, ProviderError] = {}
    round_number = 0
    while waiting := [k for k in submissions if submissions[k] < _MOST_SUBMISSIONS]:
        round_number += 1
        under_way = _submitted(waiting, requests, client, notes, round_number)
        for token, (batch, own, is_new) in under_way.items():
            while not batch.ended:
                is_new = True  # no other run has seen its end
                time.sleep(poll_seconds)
                batch = client.get(batch.batch_id) or replace(batch, status="cancelled")
            if batch.status == "failed":
                notes.release(token, notes.keys(token))
                requests.finished(own)
                reason = "; ".join(batch.errors) or "no reason given"
                raise CallsStoppedError(f"batch {batch.batch_id} was refused: {reason}")
            refused, again = _collect(batch, client, own, requests)
            failed |= refused
            reasons |= again
            notes.release(token, own)
            requests.finished(own)
            for key in own:
                submissions[key] += is_new
                if key not in again:
                    del submissions[key]
    return failed | {key: reasons[key] for key in submissions}


def _collect(
    batch: Batch, client: Batches, own: set[bytes], requests: Requests
) -> tuple[dict[bytes, ProviderError], dict[bytes, ProviderError]]:
    """Hand over the answers of an ended batch; return refused requests and those to repeat."""
    refused: dict[bytes, ProviderError] = {}
    again = dict.fromkeys(own, ProviderError(f"batch {batch.batch_id} ended without an answer"))
    for line in client.answers(batch):
        key = _key_of(line)
        if key is None or key not in again:
            continue  # a foreign line, or a repeated one
        response = _mapping(line, "response")
        body = _mapping(response, "body")
        status = response.get("status_code")
        status = status if isinstance(status, int) else 0
        if status == 200:
            try:
                requests.accept(key, body, f"{batch.batch_id}:{line['custom_id']}")
            except TransientError as error:
                again[key] = error
                continue
            except ProviderError as error:
                refused[key] = error
            del again[key]
            continue
        fault = _mapping(line, "error") or _mapping(body, "error")
        reason = ProviderError(
            f"batch {batch.batch_id}: {fault.get('message') or fault.get('code') or 'failed'}"
            + (f" (HTTP {status})" if status else "")
        )
        if status in (0, 408, 409, 429) or status >= 500:
            again[key] = reason
        else:
            refused[key] = reason
            del again[key]
    return refused, again


def _key_of(line: Any) -> bytes | None:
    try:
        return bytes.fromhex(line["custom_id"])
    except (ValueError, TypeError, KeyError):
        return None


def _mapping(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _submitted(
    keys: Sequence[bytes],
    requests: Requests,
    client: Batches,
    notes: "BatchNotes",
    round_number: int,
) -> dict[str, tuple[Batch, set[bytes], bool]]:
    """Submit requests that are in no batch; return by token each batch, its keys, and if it is new.

    Only keys of this run are returned.
    """
    found_batches: dict[str, tuple[Batch, set[bytes], bool]] = {}
    wanted = set(keys)
    # One process submits at a time. Its lock ends with it, so a note without a batch is that of
    # a killed process.
    with notes.locked():
        noted = notes.tokens(keys)
        new = [key for key in keys if key not in noted]
        if new:
            # The end of a noted batch, which this run waits for, may free budget for the others.
            new = list(requests.admit(new, not noted))
        sizes = (len(batch_line(key.hex(), requests.body(key)).encode()) + 1 for key in new)
        for positions in groups(sizes, MOST_REQUESTS, MOST_BYTES):
            part = [new[position] for position in positions]
            notes.add(_token(part, round_number), part)
        placed = notes.tokens(keys)
        for token, batch_id in dict.fromkeys(placed.values()):
            found = client.get(batch_id) if batch_id is not None else client.find(token)
            is_new = found is None
            if found is None:
                # This run has the bodies of its own requests only: forget the others of the note.
                notes.release(token, set(notes.keys(token)) - wanted)
                lines = (batch_line(key.hex(), requests.body(key)) for key in notes.keys(token))
                found = client.submit(lines, token)
            notes.submitted(token, found.batch_id)
            own = {key for key in placed if placed[key][0] == token}
            found_batches[token] = found, own, is_new
    return found_batches


def _token(keys: Sequence[bytes], round_number: int) -> str:
    """Return one token for the same requests, by which another machine finds their batch."""
    digest = hashlib.sha256(b"".join(sorted(keys)))
    return f"{digest.hexdigest()[:32]}-{round_number}"


@dataclass(frozen=True, slots=True)
class BatchNotes:
    """The batch of each request, in the database of the call cache."""

    cache: CallCache

    @property
    def _database(self) -> Database:
        return self.cache.database

    def tokens(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, str | None]]:
        """Return the token of each noted key and its batch, None before it is submitted."""
        query = select(_REQUESTS, _BATCHES.c.batch_id).join_from(
            _REQUESTS, _BATCHES, _REQUESTS.c.token == _BATCHES.c.token
        )
        rows = self._database.read_keys(query, _REQUESTS.c.key, keys)
        return {row.key: (row.token, row.batch_id) for row in rows}

    def keys(self, token: str) -> list[bytes]:
        """Return the requests of a batch."""
        query = select(_REQUESTS.c.key).where(_REQUESTS.c.token == token)
        return [row.key for row in self._database.read(query)]

    def add(self, token: str, keys: Sequence[bytes]) -> None:
        """Note requests that are about to be submitted."""
        rows = [{"key": key, "token": token} for key in keys]

        def work(connection: Connection) -> None:
            batch = self._database.upsert(_BATCHES, "batch_id")
            connection.execute(batch, {"token": token, "batch_id": None})
            connection.execute(self._database.upsert(_REQUESTS, "token"), rows)

        self._database.write(work)

    def submitted(self, token: str, batch_id: str) -> None:
        """Note the batch of a token."""
        noted = update(_BATCHES).where(_BATCHES.c.token == token).values(batch_id=batch_id)
        self._database.write(lambda connection: connection.execute(noted))

    def release(self, token: str, keys: Collection[bytes]) -> None:
        """Forget requests of a batch, and a batch without requests."""
        empty = delete(_BATCHES).where(_BATCHES.c.token.not_in(select(_REQUESTS.c.token)))

        def work(connection: Connection) -> None:
            for part in parts(list(keys)):
                own = _REQUESTS.c.token == token, _REQUESTS.c.key.in_(part)
                connection.execute(delete(_REQUESTS).where(*own))
            connection.execute(empty)

        self._database.write(work)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process submit at a time; a killed process loses the lock."""
        with Claims(self.cache) as claims:
            while not claims.take([_SUBMITTING]):
                time.sleep(_LOCK_POLL_SECONDS)
            yield
