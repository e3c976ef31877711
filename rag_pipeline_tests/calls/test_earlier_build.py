"""The SQLite files of the build before: what was paid for in them stays known."""

import hashlib
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.calls.costs import Ledger
from rag_pipeline.calls.damage import damaged_answers, damaged_charges
from rag_pipeline.datamodels import Usage

CALLS = """
CREATE TABLE calls (key BLOB PRIMARY KEY, value BLOB NOT NULL,
  used INTEGER NOT NULL DEFAULT 1700000000, usage TEXT, hash BLOB);
CREATE INDEX calls_used ON calls (used);
CREATE TABLE claims (key BLOB PRIMARY KEY, owner TEXT NOT NULL, since REAL NOT NULL);
CREATE TABLE failures (key BLOB PRIMARY KEY, runs INTEGER NOT NULL);
PRAGMA user_version = 1;
"""
COSTS = """
CREATE TABLE charges (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time TEXT NOT NULL, corpus TEXT NOT NULL, asset TEXT NOT NULL, partition TEXT NOT NULL,
  configurations TEXT NOT NULL, kind TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
  input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
  searches INTEGER NOT NULL, batch INTEGER NOT NULL, usd REAL, call_id TEXT UNIQUE, hash BLOB);
"""
CHARGE = ("2026-11-01T00:00:00.000+00:00", "tiny", "answers", "all", '["one"]', "chat", "openai",
          "gpt-4o", 1, 0, 2, 0, False, 2.5)  # fmt: skip


def digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that the build before has left."""
    with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as calls, calls:
        calls.executescript(CALLS)
        insert = "INSERT INTO calls (key, value, usage, hash) VALUES (?, ?, ?, ?)"
        calls.execute(insert, (b"k", b"answer", "[3, 0, 0]", digest(b"k\0answer")))
        calls.execute(insert, (b"no hash", b"other", None, None))
        calls.execute("INSERT INTO claims VALUES (x'00', 'gone', 0)")
        calls.execute("INSERT INTO failures VALUES (x'01', 2)")
    with closing(sqlite3.connect(tmp_path / "costs.sqlite")) as costs, costs:
        costs.executescript(COSTS)
        stored = digest(json.dumps(CHARGE).encode())
        insert = f"INSERT INTO charges VALUES (NULL, {', '.join('?' * 16)})"
        costs.execute(insert, (*CHARGE, "batch:1", stored))
        costs.execute(insert, (*CHARGE, None, None))
    (tmp_path / "batches.sqlite").touch()
    (tmp_path / "calls.sqlite-runs").mkdir()
    return tmp_path


def test_answers_and_charges_are_taken_over_once(folder: Path) -> None:
    def opened(_: int) -> CallCache:
        cache = CallCache(Database(folder / "calls.sqlite"))
        assert cache.get([b"k", b"no hash"]) == {b"k": b"answer", b"no hash": b"other"}
        return cache

    with ThreadPoolExecutor(4) as threads:
        caches = list(threads.map(opened, range(4)))
    cache = caches[-1]
    assert cache.usage([b"k"]) == {b"k": Usage(3, 0, 0)}
    assert cache.failures([b"\x01"]) == {b"\x01": 2}
    ledger = Ledger(cache.database, "tiny", budget_usd=6.0)
    assert ledger.spent() == 5.0
    assert [charge.configurations for charge in ledger.charges()] == [("one",)] * 2
    assert damaged_answers(cache.database) == damaged_charges(cache.database) == []
    assert {path.name.partition("-")[0] for path in folder.iterdir()} == {"calls.sqlite"}
    cache.put({b"k": b"new"})
    assert cache.get([b"k"]) == {b"k": b"new"}
