"""The SQLite files of the earlier build: their rows move once into the calls database.

The earlier build kept answers in `calls.sqlite`, charges in `costs.sqlite` and batches in
`batches.sqlite`. Paid answers stay known. The other two files are removed after the copy.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection

_CHARGE = (
    "time, corpus, asset, partition, configurations, kind, provider, model, "
    "input, cached, output, searches, batch, usd"
)


@contextmanager
def attached(connection: Connection, path: Path) -> Iterator[frozenset[str]]:
    """Attach `costs.sqlite` and `batches.sqlite`; yield the names of those that exist."""
    names = ("costs", "batches") if path.name == "calls.sqlite" else ()
    found = [name for name in names if path.with_name(f"{name}.sqlite").exists()]
    for name in found:
        connection.exec_driver_sql(f"ATTACH ? AS {name}", (str(path.with_name(f"{name}.sqlite")),))
    try:
        yield frozenset(found)
    finally:
        connection.rollback()
        for name in found:
            connection.exec_driver_sql(f"DETACH {name}")


def rename_answers(connection: Connection) -> None:
    """Rename the tables of answers and failures to those of the schema."""
    columns = _columns(connection, "main", "calls")
    if columns:
        connection.exec_driver_sql("ALTER TABLE calls RENAME TO rag_answers")
        added = {"used": "BIGINT NOT NULL DEFAULT 0", "usage": "TEXT", "hash": "BLOB",
                 "is_file": "BOOLEAN NOT NULL DEFAULT 0",
                 "store": "TEXT NOT NULL DEFAULT ''"}  # fmt: skip
        for name, kind in added.items():
            if name not in columns:
                connection.exec_driver_sql(f"ALTER TABLE rag_answers ADD COLUMN {name} {kind}")
    if _columns(connection, "main", "failures"):
        connection.exec_driver_sql("ALTER TABLE failures RENAME TO rag_failures")
    for name in ("claims", "outbox"):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")


def copy_charges(connection: Connection, files: frozenset[str]) -> None:
    """Copy charges, reservations, token counts and open batches."""
    charged = _columns(connection, "costs", "charges") if "costs" in files else []
    if charged:
        stored = "hash" if "hash" in charged else "NULL"
        connection.exec_driver_sql(
            f"INSERT OR IGNORE INTO rag_charges ({_CHARGE}, call_id, hash) "
            f"SELECT {_CHARGE}, coalesce(call_id, 'imported ' || id), {stored} "
            f"FROM costs.charges ORDER BY id"
        )
        if _columns(connection, "costs", "reservations"):
            connection.exec_driver_sql(
                "INSERT OR IGNORE INTO rag_reservations (id, corpus, usd, process) "
                "SELECT id, corpus, usd, '' FROM costs.reservations"
            )
        if _columns(connection, "costs", "token_counts"):
            connection.exec_driver_sql(
                "INSERT OR IGNORE INTO rag_token_counts SELECT * FROM costs.token_counts"
            )
    if "batches" in files and _columns(connection, "batches", "requests"):
        for name in ("batches", "requests"):
            connection.exec_driver_sql(
                f"INSERT OR IGNORE INTO rag_{name} SELECT * FROM batches.{name}"
            )


def remove_files(path: Path) -> None:
    """Remove the files of the earlier build beside `calls.sqlite`."""
    for name in ("costs.sqlite", "batches.sqlite", "exchange.sqlite"):
        for suffix in ("", "-wal", "-shm"):
            path.with_name(name + suffix).unlink(missing_ok=True)
    for name in ("batches.lock", "exchange.lock"):
        path.with_name(name).unlink(missing_ok=True)
    for name in ("calls.sqlite-runs", "costs.sqlite-runs"):
        with suppress(OSError):
            shutil.rmtree(path.with_name(name))


def _columns(connection: Connection, database: str, table: str) -> list[str]:
    rows = connection.exec_driver_sql(f"PRAGMA {database}.table_info({table})")
    return [row[1] for row in rows]
