"""Limits of requests a minute hold for all processes together, and never longer than they say."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from rag_pipeline.serving.rates import Buckets


def test_processes_count_together(tmp_path):
    first, second = Buckets(tmp_path / "rates"), Buckets(tmp_path / "rates")
    # A tenth of a minute's 20 requests may come at once. The third waits three seconds for its own.
    assert [first.wait("token", 20), second.wait("token", 20)] == [0.0, 0.0]
    assert 2.0 < first.wait("token", 20) <= 3.0
    assert 2.0 < second.wait("token", 20) <= 3.0
    assert second.wait("another", 20) == 0.0


def test_writers_that_meet_count_together(tmp_path):
    """A short lock of another writer is no reason to count alone."""
    started, both = time.monotonic(), threading.Barrier(2)

    def ask() -> int:
        buckets = Buckets(tmp_path / "rates")
        both.wait(60)
        return sum(not buckets.wait("client", 600) for _ in range(300))

    with ThreadPoolExecutor(2) as pool:
        passed = sum(one.result() for one in [pool.submit(ask), pool.submit(ask)])
    # 60 at once, then 10 a second. Counted alone, each would let 60 pass.
    assert 60 <= passed <= 65 + 10 * (time.monotonic() - started)


def test_a_locked_file_stops_neither_the_process_nor_its_limits(tmp_path):
    buckets, other = Buckets(tmp_path / "rates"), sqlite3.connect(tmp_path / "rates")
    assert buckets._rows.execute("PRAGMA busy_timeout").fetchall() == [(20,)]
    other.execute("BEGIN IMMEDIATE")
    assert [buckets.wait("token", 20), buckets.wait("token", 20)] == [0.0, 0.0]
    assert 2.0 < buckets.wait("token", 20) <= 3.0, "counted in memory"
    other.rollback()
    assert [buckets.wait("token", 20), buckets.wait("token", 20)] == [0.0, 0.0]
    assert 2.0 < buckets.wait("token", 20) <= 3.0, "counted in the file again"


def test_a_client_that_asks_too_often_gets_its_rate(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    buckets = Buckets()
    assert [buckets.wait("a", 60) for _ in range(7)] == [0.0] * 6 + [1.0]
    passed = []
    for half in range(1, 21):
        now = 1000.0 + half / 2
        if not buckets.wait("a", 60):
            passed.append(now)
    assert passed == [1000.0 + second for second in range(1, 11)]
    assert len(buckets._rows.execute("SELECT * FROM buckets").fetchall()) == 1
    now += 61
    buckets.wait("b", 60)
    names = buckets._rows.execute("SELECT name FROM buckets").fetchall()
    assert names == [("b",)], "full buckets are forgotten"
