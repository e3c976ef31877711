"""Requests -> answers through a provider's batches, each request submitted once.

What is to be submitted is noted before it is: the requests' keys under a token that the batch
carries in its metadata. A killed run leaves either a note without a batch, whose token is then
looked for among the account's batches, or a note with one, which is waited for. Requests that
another run has submitted are waited for too.
"""

import hashlib
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, select, update

from rag_pipeline.calls import CallCache, Claims, Database
from rag_pipeline.calls.database import parts
from rag_pipeline.calls.grouping import groups
from rag_pipeline.calls.progress import advance
from rag_pipeline.calls.schema import batches, requests
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
        under_way = _submitted(waiting, request, client, notes, round_number, may_submit)
        for token, (batch, own, is_new) in under_way.items():
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
    found_batches: dict[str, tuple[Batch, set[bytes], bool]] = {}
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
            found_batches[token] = found, own, is_new
    return found_batches


def _token(keys: Sequence[bytes], round_number: int) -> str:
    """Return the same token for the same requests, so that another machine finds their batch."""
    digest = hashlib.sha256(b"".join(sorted(keys)))
    return f"{digest.hexdigest()[:32]}-{round_number}"


@dataclass(frozen=True, slots=True)
class BatchNotes:
    """Which request is in which batch, in the database of the call cache."""

    cache: CallCache

    @property
    def _database(self) -> Database:
        return self.cache.database

    def tokens(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, str | None]]:
        """Return the token and, once it is known, the batch of each key that has been noted."""
        query = select(requests, batches.c.batch_id).join_from(
            requests, batches, requests.c.token == batches.c.token
        )
        rows = self._database.read_keys(query, requests.c.key, keys)
        return {row.key: (row.token, row.batch_id) for row in rows}

    def keys(self, token: str) -> list[bytes]:
        """Return the requests of a batch."""
        query = select(requests.c.key).where(requests.c.token == token)
        return [row.key for row in self._database.read(query)]

    def add(self, token: str, keys: Sequence[bytes]) -> None:
        """Note requests that are about to be submitted."""
        batch = self._database.insert(batches).values(token=token, batch_id=None)
        request = self._database.insert(requests)
        rows = [{"key": key, "token": token} for key in keys]

        def work(connection: Connection) -> None:
            connection.execute(
                batch.on_conflict_do_update(index_elements=["token"], set_={"batch_id": None})
            )
            connection.execute(
                request.on_conflict_do_update(index_elements=["key"], set_={"token": token}), rows
            )

        self._database.write(work)

    def submitted(self, token: str, batch_id: str) -> None:
        """Note the batch of a token."""
        noted = update(batches).where(batches.c.token == token).values(batch_id=batch_id)
        self._database.write(lambda connection: connection.execute(noted))

    def keep(self, token: str, keys: Container[bytes]) -> None:
        """Forget the requests of a token that are not among these."""
        self.release(token, [key for key in self.keys(token) if key not in keys])

    def release(self, token: str, keys: Iterable[bytes] | None = None) -> None:
        """Forget requests of a batch, all by default, and the batch with its last one."""
        own = delete(requests).where(requests.c.token == token)
        gone = (
            [own] if keys is None else [own.where(requests.c.key.in_(p)) for p in parts(list(keys))]
        )
        empty = delete(batches).where(batches.c.token.not_in(select(requests.c.token)))

        def work(connection: Connection) -> None:
            for statement in (*gone, empty):
                connection.execute(statement)

        self._database.write(work)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process submit at a time; the lock of a killed process is free again."""
        with Claims(self.cache) as claims:
            while not claims.take([_SUBMITTING]):
                time.sleep(_LOCK_POLL_SECONDS)
            yield
