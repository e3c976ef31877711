import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import pytest

from rag_pipeline.calls.databases import open_database


def test_many_that_open_a_new_file_at_once_all_get_it(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        for number in range(40):
            file, together = tmp_path / f"{number}" / "new.sqlite", Barrier(8)

            def write(row: int, file=file, together=together) -> str:
                together.wait()
                with closing(open_database(file)) as connection, connection:
                    connection.execute("CREATE TABLE IF NOT EXISTS t (row INTEGER)")
                    connection.execute("INSERT INTO t VALUES (?)", (row,))
                    return connection.execute("PRAGMA journal_mode").fetchone()[0]

            assert set(threads.map(write, range(8))) == {"wal"}
            with closing(sqlite3.connect(file)) as connection:
                rows = {row for (row,) in connection.execute("SELECT row FROM t")}
            assert rows == set(range(8))


def test_what_no_waiting_helps_is_raised_at_once(tmp_path):
    file = tmp_path / "no.sqlite"
    file.write_bytes(b"this is no database" * 100)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        open_database(file)
