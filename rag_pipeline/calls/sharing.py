"""What one machine learns -> all machines of a store: answers, charges and batches, by a bucket.

Each machine works on SQLite files of its own. What is added to one of them is put into its
`outbox` in the same transaction. `Exchange.push` writes the outboxes as one segment, a Parquet
file that is named by its content and never changed. `Exchange.pull` adopts the charges and batches
of the segments that are new here, and notes which answers they hold; `Exchange.fetch` adopts those
that are needed. Adopting twice changes nothing, so that a process may be killed between any two
steps: it loses nothing, for an outbox is emptied only after its segment is in the bucket.
"""

import fcntl
import hashlib
import io
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rag_pipeline.calls.registers import Register
from rag_pipeline.calls.segments import Places, SharedRecord, first_part, pack, some_parts, unpack
from rag_pipeline.calls.shared_claims import SharedClaims
from rag_pipeline.errors import RagPipelineError, StoreError

PUSH_SECONDS = 10.0
"""Maximum time in seconds that new records wait for their segment while a process works."""
PUSH_RECORDS = 2000
"""Number of records that fill a segment; a full segment is written at once."""
PULL_SECONDS = 2.0
"""Maximum age in seconds of a pull before the next caller pulls again."""
MOST_SEGMENTS = 64
SMALL_BYTES = 16 << 20
"""Segments above this are never merged again, so that a record is rewritten a few times at most."""
_FOLDER = "segments"
_Found = TypeVar("_Found")

_log = logging.getLogger(__name__)


class SharedFiles(Protocol):
    """The bucket's folder that segments are in."""

    def address(self, path: str) -> str:
        """Return where a file stands, for people."""

    def list(self, path: str) -> Sequence[str]:
        """Return the names in a folder, sorted."""

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's content, None if there is none."""

    def open_file(self, path: str) -> Any:
        """Open a file to read parts of it; raise FileNotFoundError if there is none."""

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file as a whole."""

    def remove_file(self, path: str) -> None:
        """Delete a file, if it is there."""


class Shelf(Protocol):
    """A SQLite file whose rows are shared."""

    kinds: frozenset[str]

    def connection(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a transaction."""

    def adopt(self, connection: sqlite3.Connection, records: Sequence[SharedRecord]) -> None:
        """Add another machine's rows; those that are here already change nothing."""


def cache_folder() -> Path:
    """Return this user's folder on this machine for what can be had again."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "rag-pipeline"


def open_outbox(connection: sqlite3.Connection, existing: str) -> None:
    """Create the outbox if it is not there, with what a SELECT of (kind, key, value) finds."""
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'outbox'").fetchone()
    if row is not None:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'outbox'").fetchone()
        if row is None:
            connection.execute(
                "CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, "
                "kind TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL)"
            )
            connection.execute(f"INSERT INTO outbox (kind, key, value) {existing}")


def post(connection: sqlite3.Connection, records: Sequence[SharedRecord]) -> None:
    """Put rows into the outbox, in the transaction that adds them."""
    connection.executemany("INSERT INTO outbox (kind, key, value) VALUES (?, ?, ?)", records)


@dataclass(slots=True)
class Exchange:
    """One machine's exchange with the others: `files` in the bucket, `folder` on this machine."""

    files: SharedFiles
    folder: Path
    shelves: Sequence[Shelf] = ()
    register: Register | None = None
    """What tells the machines what each of them is asking; None where they may ask the same."""
    claims: SharedClaims | None = field(init=False, default=None)
    _timer: threading.Timer | None = None
    _posted: int = 0
    _pulled: float = float("-inf")
    _torn: set[str] = field(default_factory=set)
    _read_parts: dict[str, set[int]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        if self.register is not None:
            self.claims = SharedClaims(self.register, lambda: self.pull(0.0))

    def posted(self, count: int) -> None:
        """Note that rows wait in an outbox: their segment is written soon, in the background."""
        with self._lock:
            self._posted += count
            full = self._posted >= PUSH_RECORDS
            if self._timer is not None and not full:
                return
            if self._timer is not None:
                self._timer.cancel()
            if full:
                self._posted = 0
            self._timer = threading.Timer(0.0 if full else PUSH_SECONDS, self._in_background)
            self._timer.daemon = True
            self._timer.start()

    def push(self) -> None:
        """Write what waits as segments. Raises StoreError; then all of it still waits."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._posted = None, 0
        with self._alone():
            while self._push_segment():
                pass

    def push_if_possible(self) -> None:
        """Write what waits; where the bucket can't be reached, warn, and let it wait."""
        try:
            self.push()
        except RagPipelineError as error:
            _log.warning("%s; what was learned is kept here and shared by the next run", error)

    def pull(self, at_most_every: float = PULL_SECONDS) -> None:
        """Take what other machines have learned since. Raises StoreError.

        Charges and batches are adopted; of answers it is noted where they are.
        """
        with self._lock:
            if time.monotonic() - self._pulled < at_most_every:
                return
            self._pulled = time.monotonic()
        with self._alone(), self._places() as places:
            present, known = self._segments(), places.segments()
            places.forget(known.keys() - set(present))
            for name in present:
                if name not in known and name not in self._torn:
                    self._take(name, places)
            known = places.segments()
            small = [n for n in present if n in known and known[n][0] < SMALL_BYTES]
            if len(small) > MOST_SEGMENTS:
                self._compact(small, places)

    def located(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of these keys' answers the segments seen so far hold. Raises StoreError."""
        with self._places() as places:
            return {key for key, _, _ in places.of(keys)}

    def fetch(self, keys: Sequence[bytes]) -> set[bytes]:
        """Adopt the answers of these keys that are in the segments seen so far.

        Returns the keys of those found. Raises StoreError.
        """
        records, are_gone = self._fetch(keys)
        if are_gone:  # merged into others meanwhile
            self.pull(0.0)
            records += self._fetch(keys)[0]
        self._adopt(records)
        found = {record.key for record in records if record.kind == "answer"} & set(keys)
        if missed := self.located([key for key in keys if key not in found]):
            with self._places() as places:
                places.forget_keys(missed)
        return found

    def _fetch(self, keys: Sequence[bytes]) -> tuple[list[SharedRecord], bool]:
        """Return the parts that hold these keys, and whether one could not be read."""
        wanted: dict[str, set[int]] = {}
        with self._places() as places:
            for _, name, part in places.of(keys):
                wanted.setdefault(name, set()).add(part)
        records: list[SharedRecord] = []
        are_gone = False
        for name, parts in wanted.items():
            read = self._read_parts.setdefault(name, set())
            found = self._open(name, partial(some_parts, parts=parts, read=read))
            are_gone |= found is None
            records += found or []
        return records, are_gone

    def prune(
        self, before: float, keep: Callable[[Sequence[bytes]], set[bytes]], dry_run: bool = False
    ) -> tuple[int, int]:
        """Drop answers from the segments known here since before a time (Unix seconds).

        `keep` returns those of some keys whose answers stay; what is no answer always stays. A
        segment that loses some is written anew before it is deleted. Returns how many answers and
        about how many bytes were dropped, or would be. Raises StoreError.
        """
        answers = freed = 0
        with self._alone(), self._places() as places:
            for name, (_, since) in places.segments().items():
                found = self._read(name) if since < before else None
                if found is None:
                    continue
                records, size = found
                kept_keys = keep([r.key for r in records if r.kind == "answer"])
                kept = [r for r in records if r.kind != "answer" or r.key in kept_keys]
                if len(kept) == len(records):
                    continue
                answers += len(records) - len(kept)
                freed += size - len(pack(kept)[0]) if kept else size
                if not dry_run:
                    if kept:
                        self._write(kept, places)
                    self._remove([name], places)
        return answers, freed

    def _in_background(self) -> None:
        with self._lock:
            if self._timer is threading.current_thread():
                self._timer = None
        self.push_if_possible()
        try:
            self.pull()  # the others' charges count towards the budget
        except RagPipelineError as error:
            _log.warning("%s; what other machines do is not seen meanwhile", error)

    def _segments(self) -> list[str]:
        try:
            names = self.files.list(_FOLDER)
        except OSError as error:
            raise StoreError(f"{self.files.address(_FOLDER)}: cannot list: {error}") from None
        return [name for name in names if name.endswith(".parquet")]

    def _push_segment(self) -> bool:
        """Write one segment of what waits; return whether there may be more."""
        taken: list[tuple[Shelf, int]] = []
        records: list[SharedRecord] = []
        for shelf in self.shelves:
            with shelf.connection() as connection:
                rows = connection.execute(
                    "SELECT id, kind, key, value FROM outbox ORDER BY id LIMIT ?", (PUSH_RECORDS,)
                ).fetchall()
            if rows:
                taken.append((shelf, rows[-1][0]))
                records += [SharedRecord(*row[1:]) for row in rows]
        if not records:
            return False
        with self._places() as places:
            self._write(records, places)
        for shelf, last in taken:
            with shelf.connection() as connection:
                connection.execute("DELETE FROM outbox WHERE id <= ?", (last,))
        if self.claims is not None:
            self.claims.written([record.key for record in records if record.kind == "answer"])
        return True

    def _write(self, records: Sequence[SharedRecord], places: Places) -> None:
        content, parts = pack(records)
        # The time first: by name, what was learned earlier comes earlier.
        name = f"{time.time_ns() // 1_000_000:013d}-{_digest(content)}.parquet"
        self.files.write_bytes(f"{_FOLDER}/{name}", content)
        places.add(name, len(content), parts)

    def _remove(self, names: Collection[str], places: Places) -> None:
        for name in names:
            self.files.remove_file(f"{_FOLDER}/{name}")
        places.forget(names)

    def _content(self, name: str) -> bytes | None:
        """Return a segment's content; None, and a warning, if it is not whole."""
        content = self.files.read_bytes(f"{_FOLDER}/{name}")
        if content is None:  # merged into another meanwhile
            return None
        if not name.endswith(f"-{_digest(content)}.parquet"):
            self._torn.add(name)
            _log.warning(
                "%s is not what was written (%d bytes); ignored: what it held may be asked "
                "again; delete it",
                self.files.address(f"{_FOLDER}/{name}"), len(content),
            )  # fmt: skip
            return None
        return content

    def _read(self, name: str) -> tuple[list[SharedRecord], int] | None:
        content = self._content(name)
        return None if content is None else (unpack(io.BytesIO(content)), len(content))

    def _open(self, name: str, read: Callable[[Any], _Found]) -> _Found | None:
        """Read parts of a segment; None, with a warning unless it is gone, if that fails."""
        import pyarrow as pa

        try:
            with self.files.open_file(f"{_FOLDER}/{name}") as file:
                return read(file)
        except (OSError, ValueError, pa.ArrowException):  # gone, torn, or the bucket is away
            content = None if name in self._torn else self._content(name)
        return None if content is None else read(pa.BufferReader(content))

    def _take(self, name: str, places: Places) -> None:
        found = self._open(name, lambda file: (*first_part(file), file.size()))
        if found is not None:
            records, parts, size = found
            self._adopt(records)
            places.add(name, size, parts)

    def _adopt(self, records: Sequence[SharedRecord]) -> None:
        for shelf in self.shelves:
            mine = [record for record in records if record.kind in shelf.kinds]
            if mine:
                with shelf.connection() as connection:
                    shelf.adopt(connection, mine)

    def _compact(self, names: Sequence[str], places: Places) -> None:
        """Merge small segments; the merged one is there before any of them is deleted."""
        merged: dict[SharedRecord, None] = {}
        gone: list[str] = []
        size = 0
        for name in names:
            found = self._read(name)
            if found is None:
                continue
            gone.append(name)
            merged.update(dict.fromkeys(found[0]))
            size += found[1]
            if size >= 2 * SMALL_BYTES:
                break
        if merged:
            self._write(list(merged), places)
        self._remove(gone, places)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process and thread of this machine exchange at a time."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "exchange.lock").open("w")
        except OSError as error:
            raise StoreError(f"{self.folder}: {error}") from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _places(self) -> AbstractContextManager[Places]:
        return Places.opened(self.folder / "exchange.sqlite")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
