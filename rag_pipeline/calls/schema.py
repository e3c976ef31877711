"""The tables of the calls database, the same in SQLite and in Postgres.

All names begin with `rag_`: in Postgres the tables may stand beside those of Dagster.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    false,
    text,
)

metadata = MetaData()


class _Blob(LargeBinary):
    """Bytes, taken by SQLite as they are: a damaged row may hold a text or a number."""

    def bind_processor(self, dialect: Dialect) -> Any:
        sqlite = dialect.name == "sqlite"
        return None if sqlite else super().bind_processor(dialect)  # type: ignore[no-untyped-call]

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        sqlite = dialect.name == "sqlite"
        return None if sqlite else super().result_processor(dialect, coltype)  # type: ignore[no-untyped-call]


_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only in a column of type INTEGER."""

answers = Table(
    "rag_answers",
    metadata,
    Column("key", _Blob, primary_key=True),
    # The answer, or the SHA-256 of the file in the bucket that has it.
    Column("value", _Blob, nullable=False),
    Column("is_file", Boolean, nullable=False, server_default=false()),
    # Unix seconds, to the day.
    Column("used", BigInteger, nullable=False, index=True),
    # The tokens that a vector or a score used, as JSON; replies have theirs in `value`.
    Column("usage", Text),
    # Tells a damaged row; NULL in rows that an earlier build wrote without one.
    Column("hash", _Blob),
)

# In how many runs the call of a key has failed.
failures = Table(
    "rag_failures",
    metadata,
    Column("key", _Blob, primary_key=True),
    Column("runs", Integer, nullable=False),
)

# The processes that claim keys or reserve money; see `processes`.
processes = Table(
    "rag_processes",
    metadata,
    Column("process", Text, primary_key=True),
    Column("machine", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started", Text, nullable=False),
    # Unix seconds by the database's clock.
    Column("seen", Float, nullable=False),
)

# The keys that a block of code is asking now.
claims = Table(
    "rag_claims",
    metadata,
    Column("key", _Blob, primary_key=True),
    Column("owner", Text, nullable=False, index=True),
    Column("process", Text, nullable=False),
)

charges = Table(
    "rag_charges",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    # The store's address in a database that several stores may share, else empty.
    Column("store", Text, nullable=False, server_default=text("''")),
    Column("time", Text, nullable=False),
    Column("corpus", Text, nullable=False),
    Column("asset", Text, nullable=False),
    Column("partition", Text, nullable=False),
    Column("configurations", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("input", BigInteger, nullable=False),
    Column("cached", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False),
    Column("searches", BigInteger, nullable=False),
    Column("batch", Integer, nullable=False),
    # NULL where the price is unknown.
    Column("usd", Float),
    Column("call_id", Text, nullable=False, unique=True),
    Column("hash", _Blob),
    Index("rag_charges_corpus", "store", "corpus", "id"),
    sqlite_autoincrement=True,
)

# The most that calls on their way may cost.
reservations = Table(
    "rag_reservations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("store", Text, nullable=False, server_default=text("''")),
    Column("corpus", Text, nullable=False),
    Column("usd", Float, nullable=False),
    # Empty where no process will tell any more what the call has cost.
    Column("process", Text, nullable=False),
)

# Estimated and charged tokens of a model, by alphabet; see `costs.learning`.
token_counts = Table(
    "rag_token_counts",
    metadata,
    Column("corpus", Text, primary_key=True),
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("alphabet", Text, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("estimated", BigInteger, nullable=False),
    Column("input", BigInteger, nullable=False),
)

# The state of a model's rate limits, as JSON; see `rate_limits`.
rate_limits = Table(
    "rag_rate_limits",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),
)

# A provider's batches, by the token in their metadata; see `models.batches`.
batches = Table(
    "rag_batches",
    metadata,
    Column("token", Text, primary_key=True),
    # NULL until the batch is submitted.
    Column("batch_id", Text),
)

# Which request is in which batch.
requests = Table(
    "rag_requests",
    metadata,
    Column("key", _Blob, primary_key=True),
    Column("token", Text, nullable=False, index=True),
)
