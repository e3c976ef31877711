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
