"""Databases of calls in SQLite and in Postgres, for tests and for processes that they start."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine, make_url, text

from rag_pipeline.calls import Database


def opened(place: str | Path) -> Database:
    """Return the database of a file or an address, with connections of its own."""
    text_of = str(place)
    return Database(make_url(text_of) if "://" in text_of else Path(text_of))


@contextmanager
def new_database(port: int) -> Iterator[str]:
    """Create an empty database in a Postgres server; yield its address, and drop it."""
    server = f"postgresql+psycopg2://dagster@127.0.0.1:{port}"
    name = f"calls_{uuid4().hex}"
    engine = create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield f"{server}/{name}"
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()
