"""Find damaged rows of a calls database by their hashes, and salvage damaged files."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from typing import Any

from rag_pipeline.calls import cache, sql
from rag_pipeline.calls.costs import ledger
from rag_pipeline.calls.database import KEYS_AT_ONCE, Database

_TEMPORARY = (sql.claims, sql.processes, sql.rate_limits)


def damaged_answers(database: Database) -> list[bytes]:
    """Read all answers, and return the keys of the damaged answers."""
    columns = (sql.answers.c[name] for name in ("key", "value", "hash"))
    return [row.key for row in database.read(sql.select(*columns)) if not cache.is_whole(*row)]


def damaged_charges(database: Database) -> list[int]:
    """Return the ids of the damaged charges."""
    columns = (sql.charges.c[name] for name in ("id", "hash", *ledger.COLUMNS))
    rows = database.read(sql.select(*columns))
    return [number for number, stored, *values in rows if not ledger.is_whole(values, stored)]


def salvage(database: Database) -> None:
    """Replace a damaged SQLite file with a file of its intact rows.

    The caller must stop all runs first. Each table is read from both ends up to the damage.
    """
    path = database.path
    database.close()
    mended = Database(path.with_name(f".tmp-{path.name}"))
    mended.path.unlink(missing_ok=True)
    len(cache.CallCache(mended))  # creates the file, even if no row can be read
    for table in sql.metadata.sorted_tables:
        insert = mended.upsert(table)
        for rows in _read_damaged(database, table) if table not in _TEMPORARY else ():
            if kept := [row for row in rows if _is_whole(table, row)]:
                mended.write(lambda connection, i=insert, k=kept: connection.execute(i, k))  # type: ignore[misc]
    mended.close()
    for suffix in ("-wal", "-shm"):
        for old in (path, mended.path):
            old.with_name(old.name + suffix).unlink(missing_ok=True)
    mended.path.replace(path)


def _is_whole(table: sql.Table, row: dict[str, Any]) -> bool:
    if table is sql.answers:
        return cache.is_whole(row["key"], row["value"], row["hash"])
    if table is sql.charges:
        return ledger.is_whole([row[name] for name in ledger.COLUMNS], row["hash"])
    return True


def _read_damaged(database: Database, table: sql.Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the readable rows of a table in lists. A row may come twice."""
    names = table.columns.keys()
    query = f"SELECT {', '.join(names)} FROM {table.name} ORDER BY rowid"
    for order in ("", " DESC"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(database.path)) as connection:
            rows = connection.execute(query + order)
            while part := list(islice(_readable(rows), KEYS_AT_ONCE)):
                yield [dict(zip(names, row, strict=True)) for row in part]


def _readable(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error):
        yield from rows
