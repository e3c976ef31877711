"""Move the rows of an earlier version's SQLite files into the calls database, once.

The earlier version kept answers in `calls.sqlite` and charges in `costs.sqlite`. This module moves
their rows. It removes the other files, which hold reservations and unfinished batches.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_pipeline.calls import sql

_CHARGE = (
    "time, corpus, asset, partition, configurations, kind, provider, model, "
    "input, cached, output, searches, batch, usd"
)
_ADDED = {
    "used": "BIGINT NOT NULL DEFAULT 0",
    "usage": "TEXT",
    "hash": "BLOB",
    "is_file": "BOOLEAN NOT NULL DEFAULT 0",
    "store": "TEXT NOT NULL DEFAULT ''",
}
"""Columns of answers. Files of the earlier version lack some of these columns."""


@contextmanager
def attached(connection: "sql.Connection", path: Path) -> Iterator[bool]:
    """Attach `costs.sqlite` to the connection, and yield whether this file exists."""
    costs = path.with_name("costs.sqlite")
    exists = path.name == "calls.sqlite" and costs.exists()
    if exists:
        connection.exec_driver_sql("ATTACH ? AS costs", (str(costs),))
    try:
        yield exists
    finally:
        connection.rollback()
        if exists:
            connection.exec_driver_sql("DETACH costs")


def rename_answers(connection: "sql.Connection") -> None:
    """Give the tables of answers and failures the names of the schema, and add missing columns."""
    if columns := _columns(connection, "main", "calls"):
        connection.exec_driver_sql("ALTER TABLE calls RENAME TO rag_answers")
        for name in _ADDED.keys() - set(columns):
            connection.exec_driver_sql(f"ALTER TABLE rag_answers ADD COLUMN {name} {_ADDED[name]}")
    if _columns(connection, "main", "failures"):
        connection.exec_driver_sql("ALTER TABLE failures RENAME TO rag_failures")
    for name in ("claims", "outbox"):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")


def copy_charges(connection: "sql.Connection") -> None:
    """Copy the charges of an attached `costs.sqlite`."""
    if columns := _columns(connection, "costs", "charges"):
        stored = "hash" if "hash" in columns else "NULL"
        connection.exec_driver_sql(
            f"INSERT OR IGNORE INTO rag_charges ({_CHARGE}, call_id, hash) "
            f"SELECT {_CHARGE}, coalesce(call_id, 'imported ' || id), {stored} "
            f"FROM costs.charges ORDER BY id"
        )


def remove_files(path: Path) -> None:
    """Remove the files of the earlier version beside `calls.sqlite`."""
    for pattern in ("costs.sqlite*", "batches.*", "exchange.*", "calls.sqlite-runs"):
        for file in path.parent.glob(pattern):
            if file.is_dir():
                shutil.rmtree(file, ignore_errors=True)
            else:
                file.unlink(missing_ok=True)


def _columns(connection: "sql.Connection", database: str, table: str) -> list[str]:
    return [row[1] for row in connection.exec_driver_sql(f"PRAGMA {database}.table_info({table})")]
