"""Store the answers to calls by key. No call with a stored answer is sent again.

The key of a call is the SHA-256 of provider, model, parameters and input. Answers are committed
when they arrive, so a crash loses only the calls in flight.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Protocol

from rag_pipeline.calls import sql
from rag_pipeline.calls.database import Database
from rag_pipeline.datamodels import Usage

FILE_BYTES = 1 << 18
"""In a shared database, a larger answer (in bytes) is a file in the bucket."""
_USED_SECONDS = 86_400
"""The last use of an answer is exact to a day, because most reads should write nothing."""
_FREE_SHARE = 0.2
NO_USAGE: Mapping[bytes, Usage] = {}


class AnswerFiles(Protocol):
    """Files that all machines with a shared database can read."""

    def read_bytes(self, path: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file atomically. A reader sees the old or the new content."""

    def remove_file(self, path: str) -> None:
        """Delete a file if it exists."""


@dataclass(slots=True)
class CallCounts:
    """The numbers of inputs sent to a model (`made`) and answered from the cache (`saved`)."""

    made: int = 0
    saved: int = 0

    def add(self, other: "CallCounts") -> None:
        """Add another count to this one."""
        self.made += other.made
        self.saved += other.saved


@dataclass(slots=True)
class CallCache:
    """Answers by key, in a database that threads and processes share."""

    database: Database
    own: "CallCache | None" = None
    """The cache of this machine alone, if other machines share `database`.

    It holds the answers of local models, because these are cheaper to make than to fetch. It also
    holds the answers from before the database was shared.
    """
    files: AnswerFiles | None = None
    """The files with large answers, if other machines share `database`."""
    store: str = ""
    """The address of the store, or "" if only one store uses the database."""

    def of_local_models(self) -> "CallCache":
        """Return the cache for answers of models that run on this machine."""
        return self if self.own is None else self.own

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the known answers by key, and delete damaged answers."""
        found = self._read(keys)
        missing = [key for key in keys if key not in found]
        if self.own is not None and missing and (mine := self.own.get(missing)):
            self._share(mine, self.own)
            found |= mine
        return found

    def _share(self, found: Mapping[bytes, bytes], own: "CallCache") -> None:
        """Copy answers of this machine into the shared database."""
        self.put(found, own.usage(list(found)))

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        rows = list(self.database.read_keys(sql.select(sql.answers), sql.answers.c.key, keys))
        contents = {row.key: self._content(row) for row in rows}
        found = {key: content for key, content in contents.items() if content is not None}
        day_before = int(time.time()) - _USED_SECONDS
        self.touch([row.key for row in rows if row.key in found and row.used < day_before])
        self.prune([key for key in contents if key not in found])
        return found

    def _content(self, row: Any) -> bytes | None:
        """Return the answer of a row, or None if it is damaged."""
        value: bytes = row.value
        if not is_whole(row.key, value, row.hash):
            return None
        if not row.is_file:
            return value
        content = self.files.read_bytes(_file(value)) if self.files is not None else None
        whole = content is not None and hashlib.sha256(content).digest() == value
        return content if whole else None

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return the keys that have an answer, without reading the answers."""
        rows = self.database.read_keys(sql.select(sql.answers.c.key), sql.answers.c.key, keys)
        found = {row.key for row in rows}
        if self.own is not None:
            found |= self.own.known([key for key in keys if key not in found])
        return found

    def usage(self, keys: Sequence[bytes]) -> dict[bytes, Usage]:
        """Return by key the tokens that vectors and scores used. Chat replies contain their own."""
        key, usage = sql.answers.c.key, sql.answers.c.usage
        query = sql.select(key, usage).where(usage.is_not(None))
        rows = self.database.read_keys(query, key, keys)
        return {row.key: Usage(*json.loads(row.usage)) for row in rows}

    def __len__(self) -> int:
        """Return the number of answers."""
        return int(self.database.read(sql.select(sql.func.count()).select_from(sql.answers))[0][0])

    def put(self, new: Mapping[bytes, bytes], usage: Mapping[bytes, Usage] = NO_USAGE) -> None:
        """Store answers, and the tokens (`usage`) of vectors and scores, in one transaction."""
        if not new:
            return
        now = int(time.time())
        # Transactions with the same keys block each other if their orders differ.
        rows = [self._row(key, new[key], usage.get(key), now) for key in sorted(new)]
        upsert = self.database.upsert(sql.answers, "value", "is_file", "used", "usage", "hash")

        def work(connection: "sql.Connection") -> None:
            connection.execute(upsert, rows)
            is_answered = sql.failures.c.key == sql.bindparam("answered")
            answered = [{"answered": row["key"]} for row in rows]
            connection.execute(sql.delete(sql.failures).where(is_answered), answered)

        self.database.write(work)

    def _row(self, key: bytes, value: bytes, used: Usage | None, now: int) -> dict[str, Any]:
        is_file = self.files is not None and len(value) > FILE_BYTES
        if is_file and self.files is not None:
            digest = hashlib.sha256(value).digest()
            self.files.write_bytes(_file(digest), value)
            value = digest
        usage = None if used is None else json.dumps(astuple(used))
        stored = {"key": key, "value": value, "is_file": is_file, "used": now, "usage": usage}
        return {**stored, "hash": _hash(key, value), "store": self.store}

    def failures(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return by key the number of runs in which each failed call has failed."""
        rows = self.database.read_keys(sql.select(sql.failures), sql.failures.c.key, keys)
        return {row.key: row.runs for row in rows}

    def fail(self, keys: Sequence[bytes]) -> None:
        """Add a failed run to the count of each call. An answer deletes the count."""
        if not keys:
            return
        insert = self.database.insert(sql.failures).on_conflict_do_update(
            index_elements=["key"], set_={"runs": sql.failures.c.runs + 1}
        )
        rows = [{"key": key, "runs": 1} for key in sorted(keys)]
        self.database.write(lambda connection: connection.execute(insert, rows))

    def touch(self, keys: Sequence[bytes]) -> None:
        """Set the last use of these answers to the present time."""
        is_found = sql.answers.c.key == sql.bindparam("found")
        used = sql.update(sql.answers).where(is_found).values(used=int(time.time()))
        if keys:
            rows = [{"found": key} for key in sorted(keys)]
            self.database.write(lambda connection: connection.execute(used, rows))
        if self.own is not None:
            self.own.touch(keys)

    def unused(self, since: float) -> set[bytes]:
        """Return the keys of this store's answers that no run has used since `since` (Unix s)."""
        old = sql.answers.c.used < int(since)
        query = sql.select(sql.answers.c.key).where(old, sql.answers.c.store == self.store)
        found = {row.key for row in self.database.read(query)}
        return found if self.own is None else found | self.own.unused(since)

    def bytes_of(self, keys: Sequence[bytes]) -> int:
        """Return the size of these answers in the database, in bytes."""
        query = sql.select(sql.func.sum(sql.func.length(sql.answers.c.value)))
        size = sum(row[0] or 0 for row in self.database.read_keys(query, sql.answers.c.key, keys))
        return int(size) + (0 if self.own is None else self.own.bytes_of(keys))

    def prune(self, keys: Sequence[bytes]) -> None:
        """Delete these answers."""
        if not keys:
            return
        of = sql.answers.c
        read = partial(self.database.read_keys, sql.select(of.value).where(of.is_file))
        files = {row.value for row in read(of.key, keys)} if self.files is not None else ()
        self.database.delete(of.key, keys)
        self.database.checkpoint()
        still_used = {row.value for row in read(of.value, list(files))}
        for digest in files:
            if self.files is not None and digest not in still_used:
                self.files.remove_file(_file(digest))
        if self.own is not None:
            self.own.prune(keys)

    def shrink(self) -> None:
        """Free the space of deleted answers if it exceeds 20 % of the file.

        Wait for all other users of the file.
        """
        self.of_local_models().database.shrink(_FREE_SHARE)


def is_whole(key: object, value: object, stored: object) -> bool:
    """Return whether an answer matches its hash, or has none, as in earlier versions."""
    try:
        return stored is None or stored == _hash(key, value)  # type: ignore[arg-type]
    except TypeError:  # one changed bit can turn bytes into a text
        return False


def _hash(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + b"\0" + value, digest_size=16).digest()


def call_key(kind: str, identity: str, text: str) -> bytes:
    """Return the key of a call: a hash of its kind, its model's identity and its input."""
    digest = hashlib.sha256(f"{kind}\0{identity}\0".encode())
    digest.update(text.encode())
    return digest.digest()


def _file(digest: bytes) -> str:
    return f"answers/{digest.hex()}"
