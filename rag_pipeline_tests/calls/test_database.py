import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier, Thread

import pytest
from sqlalchemy import make_url, text

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.calls.database import connect_sqlite, shared_database
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline_tests.testing import servers
from rag_pipeline_tests.testing.databases import opened


def test_many_that_open_a_new_file_at_once_all_get_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            file, together = tmp_path / f"{number}" / "new.sqlite", Barrier(8)

            def write(row: int, file: Path = file, together: Barrier = together) -> str:
                together.wait()
                with closing(connect_sqlite(file)) as connection, connection:
                    connection.execute("CREATE TABLE IF NOT EXISTS t (row INTEGER)")
                    connection.execute("INSERT INTO t VALUES (?)", (row,))
                    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])

            assert set(threads.map(write, range(8))) == {"wal"}
            with closing(sqlite3.connect(file)) as connection:
                rows = {row for (row,) in connection.execute("SELECT row FROM t")}
            assert rows == set(range(8))


def test_many_that_open_a_new_database_at_once_all_use_it(database_place: str) -> None:
    together = Barrier(8)

    def write(n: int) -> None:
        together.wait()
        CallCache(opened(database_place)).put({bytes([n]): b"v"})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    assert len(CallCache(opened(database_place))) == 8


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    path.write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(StoreError, match=r"calls\.sqlite: calls: file is not a database"):
        CallCache(Database(path)).get([b"k"])


def test_a_file_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreError, match="format 9, this version reads 2"):
        CallCache(Database(path)).get([b"k"])


def test_the_shared_database_is_named_by_its_own_variable_or_dagsters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shared_database() is None
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "postgresql+psycopg2://a:secret@dagster/db")
    found = shared_database()
    assert found is not None
    assert found.place == "postgresql://dagster/db"
    monkeypatch.setenv("RAG_DATABASE_URL", "postgresql://a:secret@own:5432/calls")
    found = shared_database()
    assert found is not None
    assert found.place == "postgresql://own:5432/calls"
    monkeypatch.setenv("RAG_DATABASE_URL", "none")
    assert shared_database() is None
    for wrong in ("mysql://user:secret@host/db", "//secret"):
        monkeypatch.setenv("RAG_DATABASE_URL", wrong)
        with pytest.raises(ConfigError, match=r"RAG_DATABASE_URL: .*use postgresql://") as error:
            shared_database()
        assert "secret" not in str(error.value)


def test_a_server_that_was_never_there_is_an_error_at_once_without_its_password() -> None:
    url = f"postgresql+psycopg2://u:secret@127.0.0.1:{servers.free_port()}/calls"
    with pytest.raises(
        StoreError, match=r"start the database, or change RAG_DATABASE_URL"
    ) as error:
        Database(make_url(url)).read(text("SELECT 1"))
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_restarted_server_is_waited_for(tmp_path: Path) -> None:
    with servers.postgres(tmp_path) as server:
        cache = CallCache(opened(f"postgresql+psycopg2://dagster@127.0.0.1:{server.port}/postgres"))
        cache.put({b"before": b"answer"})
        server.stop()
        waiting = Thread(target=cache.put, args=[{b"meanwhile": b"answer"}])
        waiting.start()
        server.start()
        waiting.join()
        assert cache.known([b"before", b"meanwhile"]) == {b"before", b"meanwhile"}
        cache.database.close()
