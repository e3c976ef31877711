"""Answers by key: what was asked once is never sent to a model again.

The key of a call is the SHA-256 of provider, model, parameters and input. Answers are committed
as they arrive, so a crash loses at most the calls in flight.
"""

import hashlib
import json
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection, delete, func, select, update

from rag_pipeline.calls.database import Database, parts
from rag_pipeline.calls.schema import answers, failures
from rag_pipeline.datamodels import Usage

FILE_BYTES = 1 << 18
"""An answer above this size is a file in the bucket, where the database is shared."""
_USED_SECONDS = 86_400
"""The last use of an answer is stored to the day, so that few reads have to write."""
_FREE_SHARE = 0.2
NO_USAGE: Mapping[bytes, Usage] = {}


class AnswerFiles(Protocol):
    """Files that all machines of a shared database can read."""

    def read_bytes(self, path: str) -> bytes | None:
        """Return the content of a file, None if there is none."""

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file as a whole."""

    def remove_file(self, path: str) -> None:
        """Delete a file, if it is there."""


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
    """Answers by key, in a database that threads and processes share."""

    database: Database
    own: "CallCache | None" = None
    """This machine's own cache, where other machines use `database` too.

    It has the answers of local models, which cost less to make than to fetch, and those from
    before the database was shared.
    """
    files: AnswerFiles | None = None
    """Holds large answers, where other machines use `database` too."""

    def of_local_models(self) -> "CallCache":
        """Return the cache for answers that are made on this machine."""
        return self if self.own is None else self.own

    # --- reading ---

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the known answers of these keys; a damaged answer is deleted instead."""
        found = self._read(keys)
        missing = [key for key in keys if key not in found]
        if self.own is not None and missing and (mine := self.own.get(missing)):
            self._share(mine, self.own)
            found |= mine
        return found

    def _share(self, found: Mapping[bytes, bytes], own: "CallCache") -> None:
        """Give other machines the answers that only this machine has."""
        self.put(found, own.usage(list(found)))

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        unused: list[bytes] = []
        damaged: list[bytes] = []
        day_before = int(time.time()) - _USED_SECONDS
        for row in self.database.read_keys(select(answers), answers.c.key, keys):
            value = self._content(row)
            if value is None:
                damaged.append(row.key)
                continue
            found[row.key] = value
            if row.used < day_before:
                unused.append(row.key)
        self.touch(unused)
        self._delete(damaged)
        return found

    def _content(self, row: Any) -> bytes | None:
        """Return the answer of a row, None where it is not what was stored."""
        if not is_whole(row.key, row.value, row.hash):
            return None
        value: bytes = row.value
        if not row.is_file:
            return value
        content = self.files.read_bytes(_file(value)) if self.files is not None else None
        whole = content is not None and hashlib.sha256(content).digest() == value
        return content if whole else None

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of these keys have an answer, without reading the answers."""
        rows = self.database.read_keys(select(answers.c.key), answers.c.key, keys)
        found = {row.key for row in rows}
        if self.own is not None:
            found |= self.own.known([key for key in keys if key not in found])
        return found

    def usage(self, keys: Sequence[bytes]) -> dict[bytes, Usage]:
        """Return what the answers of these keys used, of vectors and scores that tell it."""
        query = select(answers.c.key, answers.c.usage).where(answers.c.usage.is_not(None))
        rows = self.database.read_keys(query, answers.c.key, keys)
        return {row.key: Usage(*json.loads(row.usage)) for row in rows}

    def __len__(self) -> int:
        """Return the number of answers."""
        return int(self.database.read(select(func.count()).select_from(answers))[0][0])

    # --- writing ---

    def put(self, new: Mapping[bytes, bytes], usage: Mapping[bytes, Usage] = NO_USAGE) -> None:
        """Store answers; they outlive the process when this returns.

        `usage` is what each answer used, where the answer does not tell it itself.
        """
        if not new:
            return
        now = int(time.time())
        # In order: two transactions that write the same keys must not wait for each other.
        rows = [self._row(key, new[key], usage.get(key), now) for key in sorted(new)]
        insert = self.database.insert(answers)
        changed = {name: insert.excluded[name] for name in rows[0] if name != "key"}
        insert = insert.on_conflict_do_update(index_elements=["key"], set_=changed)

        def work(connection: Connection) -> None:
            connection.execute(insert, rows)
            for part in parts([row["key"] for row in rows]):
                connection.execute(delete(failures).where(failures.c.key.in_(part)))

        self.database.write(work)

    def _row(self, key: bytes, value: bytes, used: Usage | None, now: int) -> dict[str, Any]:
        is_file = self.files is not None and len(value) > FILE_BYTES
        if is_file and self.files is not None:
            digest = hashlib.sha256(value).digest()
            self.files.write_bytes(_file(digest), value)
            value = digest
        return {
            "key": key, "value": value, "is_file": is_file, "used": now,
            "usage": None if used is None else json.dumps(astuple(used)),
            "hash": _hash(key, value),
        }  # fmt: skip

    def failures(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return in how many earlier runs the calls of these keys have failed."""
        rows = self.database.read_keys(select(failures), failures.c.key, keys)
        return {row.key: row.runs for row in rows}

    def fail(self, keys: Sequence[bytes]) -> None:
        """Count a run in which the calls of these keys have failed; an answer resets the count."""
        if not keys:
            return
        insert = self.database.insert(failures).on_conflict_do_update(
            index_elements=["key"], set_={"runs": failures.c.runs + 1}
        )
        rows = [{"key": key, "runs": 1} for key in sorted(keys)]
        self.database.write(lambda connection: connection.execute(insert, rows))

    # --- cleanup ---

    def touch(self, keys: Sequence[bytes]) -> None:
        """Note that these answers are used now."""
        used = update(answers).values(used=int(time.time()))
        for part in parts(sorted(keys)):
            changed = used.where(answers.c.key.in_(part))
            self.database.write(lambda connection, q=changed: connection.execute(q))  # type: ignore[misc]
        if self.own is not None:
            self.own.touch(keys)

    def unused(self, since: float) -> set[bytes]:
        """Return the keys of the answers that were last used before a time (Unix seconds)."""
        query = select(answers.c.key).where(answers.c.used < int(since))
        found = {row.key for row in self.database.read(query)}
        return found if self.own is None else found | self.own.unused(since)

    def bytes_of(self, keys: Sequence[bytes]) -> int:
        """Return the size of these answers in the database."""
        query = select(func.coalesce(func.sum(func.length(answers.c.value)), 0))
        size = sum(row[0] for row in self.database.read_keys(query, answers.c.key, keys))
        return int(size) + (0 if self.own is None else self.own.bytes_of(keys))

    def prune(self, keys: Sequence[bytes]) -> None:
        """Delete these answers."""
        self._delete(keys)
        if self.own is not None:
            self.own.prune(keys)

    def _delete(self, keys: Sequence[bytes]) -> None:
        query = select(answers.c.value).where(answers.c.is_file)
        read = partial(self.database.read_keys, query)
        digests = {r.value for r in read(answers.c.key, keys)} if self.files is not None else set()
        for part in parts(sorted(keys, key=repr)):
            gone = delete(answers).where(answers.c.key.in_(part))
            self.database.write(lambda connection, q=gone: connection.execute(q))  # type: ignore[misc]
        for digest in digests - {row.value for row in read(answers.c.value, list(digests))}:
            if self.files is not None:
                self.files.remove_file(_file(digest))

    def shrink(self) -> None:
        """Give the space of deleted answers back to the disk; waits for all other users."""
        (self if self.own is None else self.own).database.shrink(_FREE_SHARE)


def is_whole(key: object, value: object, stored: object) -> bool:
    """Tell whether an answer is what was stored; earlier builds stored some without a hash."""
    try:
        return stored is None or stored == _hash(key, value)  # type: ignore[arg-type]
    except TypeError:  # one flipped bit makes bytes a text
        return False


def _hash(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + b"\0" + value, digest_size=16).digest()


def call_key(kind: str, identity: str, text: str) -> bytes:
    """Return the key of a call: kind, provider with model and parameters, input."""
    digest = hashlib.sha256(f"{kind}\0{identity}\0".encode())
    digest.update(text.encode())
    return digest.digest()


def _file(digest: bytes) -> str:
    return f"answers/{digest.hex()}"
