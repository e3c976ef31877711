"""Damaged rows and files of a calls database: found by hashes, deleted, or salvaged."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import Any

from sqlalchemy import Column, Table, delete, select

from rag_pipeline.calls import cache, schema
from rag_pipeline.calls.costs import ledger
from rag_pipeline.calls.database import KEYS_AT_ONCE, Database, parts

_IsWhole = Callable[[Any], bool]
_ANSWER = [schema.answers.c[name] for name in ("key", "value", "hash")]
_CHARGE = [schema.charges.c[name] for name in (*ledger.COLUMNS, "hash")]


def damaged_answers(database: Database) -> list[bytes]:
    """Return the keys of the answers that are not what was stored; reads them all."""
    rows = database.read(select(*_ANSWER))
    return [row.key for row in rows if not cache.is_whole(*row)]


def damaged_charges(database: Database) -> list[int]:
    """Return the ids of the charges that are not what was stored."""
    rows = database.read(select(schema.charges.c.id, *_CHARGE))
    return [number for number, *values, stored in rows if not ledger.is_whole(values, stored)]


def delete_rows(database: Database, column: Column[Any], values: Sequence[Any]) -> None:
    """Delete the rows of a table in which a column has one of these values."""
    for part in parts(values):
        gone = delete(column.table).where(column.in_(part))
        database.write(lambda connection, q=gone: connection.execute(q))  # type: ignore[misc]


def salvage(database: Database) -> None:
    """Replace a damaged SQLite file by what can be read of it; stop all runs before.

    Each table is read from either end as far as the damage. Damaged rows are left out.
    """
    path = database.path
    database.close()
    mended = Database(path.with_name(f".tmp-{path.name}"))
    mended.path.unlink(missing_ok=True)
    whole: dict[Table, _IsWhole] = {
        schema.answers: lambda row: cache.is_whole(row["key"], row["value"], row["hash"]),
        schema.charges: lambda row: ledger.is_whole(
            [row[name] for name in ledger.COLUMNS], row["hash"]
        ),
    }
    passing = (schema.claims, schema.processes, schema.rate_limits)
    for table in schema.metadata.sorted_tables:
        if table in passing:
            continue
        insert = mended.insert(table).on_conflict_do_nothing()
        for rows in _read_damaged(database, table):
            kept = [row for row in rows if whole.get(table, lambda row: True)(row)]
            if kept:
                mended.write(lambda connection, i=insert, k=kept: connection.execute(i, k))  # type: ignore[misc]
    mended.read(select(schema.answers.c.key).limit(1))  # makes the file where nothing was kept
    mended.close()
    for suffix in ("-wal", "-shm"):
        for old in (path, mended.path):
            old.with_name(old.name + suffix).unlink(missing_ok=True)
    mended.path.replace(path)


def _read_damaged(database: Database, table: Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows that can be read of a table, in parts; rows may come twice."""
    names = [column.name for column in table.columns]
    query = f"SELECT {', '.join(names)} FROM {table.name} ORDER BY rowid"
    for order in ("", " DESC"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(database.path)) as connection:
            rows = connection.execute(query + order)
            while part := list(islice(_readable(rows), KEYS_AT_ONCE)):
                yield [dict(zip(names, row, strict=True)) for row in part]


def _readable(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error):  # no further
        yield from rows
