"""Export names of SQLAlchemy, and define the tables of the calls database.

SQLite and Postgres have the same tables. The first use of a name imports this module, because a
search with packaged models opens no database. All table names begin with `rag_`, because the tables
may be in Dagster's Postgres database.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import URL as URL
from sqlalchemy import BigInteger, Boolean, Dialect, Float, Integer, Text
from sqlalchemy import Column as Column
from sqlalchemy import Connection as Connection
from sqlalchemy import Engine as Engine
from sqlalchemy import Executable as Executable
from sqlalchemy import Select as Select
from sqlalchemy import Table as Table
from sqlalchemy import bindparam as bindparam
from sqlalchemy import create_engine as create_engine
from sqlalchemy import delete as delete
from sqlalchemy import func as func
from sqlalchemy import make_url as make_url
from sqlalchemy import select as select
from sqlalchemy import text as text
from sqlalchemy import update as update
from sqlalchemy.exc import ArgumentError as ArgumentError
from sqlalchemy.exc import DBAPIError as DBAPIError
from sqlalchemy.exc import SQLAlchemyError as SQLAlchemyError
from sqlalchemy.pool import QueuePool as QueuePool

metadata = sa.MetaData()


class _Blob(sa.LargeBinary):
    """A column of bytes. A damaged row of SQLite may return a text or a number."""

    def bind_processor(self, dialect: Dialect) -> Any:
        sqlite = dialect.name == "sqlite"
        return None if sqlite else super().bind_processor(dialect)  # type: ignore[no-untyped-call]

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        sqlite = dialect.name == "sqlite"
        return None if sqlite else super().result_processor(dialect, coltype)  # type: ignore[no-untyped-call]


def _columns(kind: Any, names: str, **options: Any) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False, **options) for name in names.split()]


answers = Table(
    "rag_answers",
    metadata,
    *_columns(_Blob, "key", primary_key=True),
    # The answer, or the SHA-256 of the file in the bucket that holds it.
    *_columns(_Blob, "value"),
    *_columns(Boolean, "is_file", server_default=sa.false()),
    # Time of the last use in Unix seconds, exact to a day.
    *_columns(BigInteger, "used", index=True),
    # Tokens that a vector or a score used, as JSON. Replies name theirs in `value`.
    Column("usage", Text),
    # Detects a damaged row. NULL in some rows of earlier versions.
    Column("hash", _Blob),
    # Address of the store that asked first, in a database that several stores share.
    *_columns(Text, "store", server_default=sa.text("''")),
)

# `runs` counts the runs in which the call of a key has failed.
failures = Table(
    "rag_failures", metadata, *_columns(_Blob, "key", primary_key=True), *_columns(Integer, "runs")
)

# Processes that claim keys or reserve money; see `processes`.
processes = Table(
    "rag_processes",
    metadata,
    *_columns(Text, "process", primary_key=True),
    *_columns(Text, "machine started"),
    *_columns(BigInteger, "pid"),
    # Unix seconds by the clock of the database.
    *_columns(Float, "seen"),
)

# Keys of the calls that a process makes now.
claims = Table(
    "rag_claims",
    metadata,
    *_columns(_Blob, "key", primary_key=True),
    *_columns(Text, "owner", index=True),
    *_columns(Text, "process"),
)

charges = Table(
    "rag_charges",
    metadata,
    # SQLite numbers rows only in a column of type INTEGER.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    # Address of the store in a database that several stores share, otherwise empty.
    *_columns(Text, "store", server_default=sa.text("''")),
    *_columns(Text, "time corpus asset partition configurations kind provider model"),
    *_columns(BigInteger, "input cached output searches batch"),
    # NULL if the price is unknown.
    Column("usd", Float),
    *_columns(Text, "call_id", unique=True),
    Column("hash", _Blob),
    sa.Index("rag_charges_corpus", "store", "corpus", "id"),
    sqlite_autoincrement=True,
)

# The highest possible costs of calls in flight.
reservations = Table(
    "rag_reservations",
    metadata,
    *_columns(Text, "id", primary_key=True),
    *_columns(Text, "store", server_default=sa.text("''")),
    *_columns(Text, "corpus"),
    *_columns(Float, "usd"),
    # Empty if the cost of the call stays unknown.
    *_columns(Text, "process"),
)

# Estimated and charged tokens of a model by alphabet; see `costs.ledger`.
token_counts = Table(
    "rag_token_counts",
    metadata,
    *_columns(Text, "corpus provider model kind alphabet", primary_key=True),
    *_columns(BigInteger, "calls estimated input"),
)

# State of the rate limits of a model, as JSON; see `rate_limits`.
rate_limits = Table(
    "rag_rate_limits", metadata, *_columns(Text, "name", primary_key=True), *_columns(Text, "state")
)

# Batches of a provider by the token in their metadata; see `models.batches`.
batches = Table(
    "rag_batches",
    metadata,
    *_columns(Text, "token", primary_key=True),
    # NULL until the batch is submitted.
    Column("batch_id", Text),
)

# The batch of each request.
requests = Table(
    "rag_requests",
    metadata,
    *_columns(_Blob, "key", primary_key=True),
    *_columns(Text, "token", index=True),
)
