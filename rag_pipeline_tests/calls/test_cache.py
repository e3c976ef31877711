import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag_pipeline.calls import CallCache, CallCounts, call_key
from rag_pipeline.errors import StoreError


def test_what_was_put_is_found_and_the_rest_is_not(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    keys = [call_key("embed", "model", str(n)) for n in range(1200)]
    cache.put({key: str(n).encode() for n, key in enumerate(keys[:1000])})
    found = cache.get(keys)
    assert len(found) == 1000
    assert found[keys[999]] == b"999"
    assert cache.known(keys) == set(keys[:1000])


def test_keys_differ_by_kind_model_and_input():
    assert len({call_key(k, m, t) for k in "ab" for m in "ab" for t in "ab"}) == 8


def test_threads_share_one_cache(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")

    def write(n: int) -> None:
        cache.put({call_key("k", "m", f"{n}-{i}"): b"v" for i in range(50)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    keys = [call_key("k", "m", f"{n}-{i}") for n in range(8) for i in range(50)]
    assert cache.known(keys) == set(keys)


def test_a_put_outlives_a_killed_process(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from rag_pipeline.calls import CallCache\n"
        "CallCache(Path(sys.argv[1])).put({b'k': b'v'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "calls.sqlite"
    killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert killed.returncode == -9
    assert CallCache(path).get([b"k"]) == {b"k": b"v"}


def test_a_file_that_is_no_cache_is_named(tmp_path):
    path = tmp_path / "calls.sqlite"
    path.write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(StoreError, match=r"calls\.sqlite: call cache: file is not a database"):
        CallCache(path).get([b"k"])


def test_a_store_without_room_is_reported(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    cache.put({b"k": b"v"})
    limit = sqlite3.connect(tmp_path / "calls.sqlite")
    limit.close()
    connection = cache._local.connection
    connection.execute("PRAGMA max_page_count=4")
    with pytest.raises(StoreError, match="full"):
        cache.put({bytes([n]): b"v" * 4096 for n in range(10)})
    assert cache.get([b"k"]) == {b"k": b"v"}


def test_counts_add_up():
    counts = CallCounts(1, 2)
    counts.add(CallCounts(made=3, saved=4))
    assert counts == CallCounts(4, 6)


def test_answers_that_nothing_has_used_for_long_are_pruned(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    cache.put({bytes([n]): b"answer" for n in range(4)})
    with sqlite3.connect(cache.path) as connection:
        connection.execute("UPDATE calls SET used = 1000 WHERE key != ?", (b"\x03",))
    assert cache.unused(2000) == {b"\x00", b"\x01", b"\x02"}
    assert len(cache) == 4
    assert cache.get([b"\x00"]) == {b"\x00": b"answer"}  # asked for
    cache.touch([b"\x01"])  # needed
    assert cache.prune(2000) == 1
    assert cache.known([bytes([n]) for n in range(4)]) == {b"\x00", b"\x01", b"\x03"}


def test_a_pruned_cache_gives_its_space_back(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    cache.put({n.to_bytes(2): bytes(10_000) for n in range(200)})
    cache.prune(1e12)
    cache.shrink()
    assert cache.path.stat().st_size < 100_000


def test_a_cache_from_before_uses_were_noted_keeps_its_answers(tmp_path):
    path = tmp_path / "calls.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE calls (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        connection.execute("INSERT INTO calls VALUES (?, ?)", (b"k", b"old"))
    cache = CallCache(path)
    assert cache.get([b"k"]) == {b"k": b"old"}
    assert not cache.unused(1e9), "what was there counts as used when it was migrated"
    cache.put({b"n": b"new"})
    assert CallCache(path).known([b"k", b"n"]) == {b"k", b"n"}


def test_a_cache_of_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "calls.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreError, match="call cache has format 9, this version reads up to 1"):
        CallCache(path).get([b"k"])
