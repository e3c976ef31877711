"""Records -> a segment, a Parquet file of which a reader fetches the parts that it needs.

The first row group has the charges and batches, and the part of each answer's key; every other one
is a part: some answers, with what they used. Segments of an earlier version are one row group.
"""

import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rag_pipeline.calls.databases import select
from rag_pipeline.calls.grouping import groups
from rag_pipeline.errors import StoreError

PART_KEYS, PART_BYTES = 256, 1 << 18
"""Maximum number of answers in a part, and of their bytes."""
_IN_PARTS = frozenset({"answer", "usage"})
_PART = "part"


class SharedRecord(NamedTuple):
    """One row of a segment: what it is (`answer`, `charge`, `batch` …), its key and its value."""

    kind: str
    key: bytes
    value: bytes


def pack(records: Sequence[SharedRecord]) -> tuple[bytes, dict[bytes, int]]:
    """Return a segment's content, and in which part the answer of each key is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    answers: dict[bytes, list[SharedRecord]] = {}
    first: list[SharedRecord] = []
    for record in records:
        if record.kind in _IN_PARTS:
            answers.setdefault(record.key, []).append(record)
        else:
            first.append(record)
    keys = list(answers)
    sizes = (sum(len(record.value) for record in answers[key]) for key in keys)
    parts: list[list[SharedRecord]] = []
    places: dict[bytes, int] = {}
    for part, positions in enumerate(groups(sizes, PART_KEYS, PART_BYTES)):
        places |= dict.fromkeys((keys[i] for i in positions), part)
        parts.append([record for i in positions for record in answers[keys[i]]])
    first += [SharedRecord(_PART, key, str(part).encode()) for key, part in places.items()]
    schema = pa.schema([("kind", pa.string()), ("key", pa.binary()), ("value", pa.large_binary())])
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, schema, compression="zstd", use_dictionary=["kind"],
        write_statistics=False, write_page_checksum=True,
    ) as writer:  # fmt: skip
        for group in [first, *parts]:
            rows = [record._asdict() for record in group]
            writer.write_table(pa.Table.from_pylist(rows, schema), len(rows))
    return bytes(sink.getvalue().to_pybytes()), places


def unpack(file: Any) -> list[SharedRecord]:
    """Return all records of a segment. Raises OSError or ArrowException for what is not whole."""
    found = _parquet(file)
    return [r for r in _records(found, range(found.num_row_groups)) if r.kind != _PART]


def first_part(file: Any) -> tuple[list[SharedRecord], dict[bytes, int]]:
    """Return what all machines need, and the part of each answer's key; raises as `unpack`."""
    found = _parquet(file)
    records = _records(found, [0])
    parts = {r.key: int(r.value) for r in records if r.kind == _PART}
    if found.num_row_groups != 1 + len(set(parts.values())):  # written by an earlier version
        records, parts = _records(found, range(found.num_row_groups)), {}
    return [r for r in records if r.kind != _PART], parts


def some_parts(file: Any, parts: set[int], read: set[int]) -> list[SharedRecord]:
    """Return the records of some parts, and add these to those that were `read`.

    All that are left come at once when a quarter has been wanted: that many requests cost more
    than the rest. Raises as `unpack`.
    """
    found = _parquet(file)
    count = found.num_row_groups - 1
    parts = parts if len(parts | read) * 4 < count else set(range(count)) - (read - parts)
    read |= parts
    return _records(found, [part + 1 for part in sorted(parts)])


def _parquet(file: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(file, pre_buffer=True, page_checksum_verification=True)


def _records(found: Any, row_groups: Sequence[int]) -> list[SharedRecord]:
    table = found.read_row_groups(list(row_groups))
    columns = (table.column(name).to_pylist() for name in SharedRecord._fields)
    return [SharedRecord(*row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class Places:
    """The segments that this machine has seen, and in which part of which an answer is."""

    connection: sqlite3.Connection

    @staticmethod
    @contextmanager
    def opened(path: Path) -> Iterator["Places"]:
        """Open the file, or create it. Raises StoreError."""
        try:
            with closing(sqlite3.connect(path, timeout=60)) as connection:
                _create(connection)
                yield Places(connection)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from None

    def segments(self) -> dict[str, tuple[int, float]]:
        """Return the bytes of each segment, and since when it is known here (Unix seconds)."""
        rows = self.connection.execute("SELECT name, bytes, since FROM adopted")
        return {name: (size, since) for name, size, since in rows}

    def add(self, name: str, size: int, parts: Mapping[bytes, int]) -> None:
        """Note a segment whose first part is on this machine, and where its answers are."""
        with self.connection:
            self.connection.execute(
                "INSERT OR IGNORE INTO adopted (name, bytes, since) VALUES (?, ?, ?)",
                (name, size, time.time_ns() / 1e9),
            )
            query = "SELECT rowid FROM adopted WHERE name = ?"
            (segment,) = self.connection.execute(query, (name,)).fetchone()
            self.connection.executemany(
                "INSERT OR IGNORE INTO places VALUES (?, ?, ?)",
                ((key, segment, part) for key, part in parts.items()),
            )

    def forget(self, names: Collection[str]) -> None:
        """Forget segments that are gone."""
        with self.connection:
            for name in names:
                self.connection.execute(
                    "DELETE FROM places WHERE segment ="
                    " (SELECT rowid FROM adopted WHERE name = ?)", (name,)
                )  # fmt: skip
                self.connection.execute("DELETE FROM adopted WHERE name = ?", (name,))

    def forget_keys(self, keys: Collection[bytes]) -> None:
        """Forget where answers should be that were not found there."""
        with self.connection:
            query = "DELETE FROM places WHERE key = ?"
            self.connection.executemany(query, ((key,) for key in keys))

    def of(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, str, int]]:
        """Return these keys' segments and parts; of some there are several, of some none."""
        query = "SELECT key, name, part FROM places JOIN adopted ON adopted.rowid = segment"
        return select(self.connection, query, keys)


def _create(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0]:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")  # of several processes one creates it
        if connection.execute("PRAGMA user_version").fetchone()[0]:
            return
        # The version before noted these two columns, of segments that it adopted as a whole.
        connection.execute(
            "CREATE TABLE IF NOT EXISTS adopted (name TEXT PRIMARY KEY, bytes INTEGER)"
        )
        connection.execute(f"ALTER TABLE adopted ADD COLUMN since REAL DEFAULT {time.time()}")
        connection.execute(
            "CREATE TABLE places (key BLOB, segment INTEGER, part INTEGER, "
            "PRIMARY KEY (key, segment)) WITHOUT ROWID"
        )
        connection.execute("PRAGMA user_version = 1")
