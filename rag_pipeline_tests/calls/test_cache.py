import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import update

from rag_pipeline.calls import CallCache, Database, call_key
from rag_pipeline.calls.cache import FILE_BYTES
from rag_pipeline.calls.sql import answers
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import StoreError
from rag_pipeline.store import SHARED_CALLS, Store
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline_tests.testing.forked import Forked


@pytest.fixture
def stored(database_place: str) -> CallCache:
    return CallCache(opened(database_place))


def test_what_was_put_is_found_and_the_rest_is_not(stored: CallCache) -> None:
    keys = [call_key("embed", "model", str(n)) for n in range(1200)]
    stored.put({key: str(n).encode() for n, key in enumerate(keys[:1000])}, {keys[1]: Usage(3, 4)})
    found = stored.get(keys)
    assert len(found) == len(stored) == 1000
    assert found[keys[999]] == b"999"
    assert stored.known(keys) == set(keys[:1000])
    assert stored.usage(keys) == {keys[1]: Usage(3, 4)}


def test_failures_are_counted_by_run_until_there_is_an_answer(stored: CallCache) -> None:
    stored.fail([b"one", b"two"])
    stored.fail([b"two"])
    assert stored.failures([b"one", b"two", b"three"]) == {b"one": 1, b"two": 2}
    stored.put({b"two": b"answer"})
    assert stored.failures([b"one", b"two"]) == {b"one": 1}


def test_keys_differ_by_kind_model_and_input() -> None:
    assert len({call_key(k, m, t) for k in "ab" for m in "ab" for t in "ab"}) == 8


def test_threads_that_put_the_same_keys_in_any_order_share_one_cache(stored: CallCache) -> None:
    keys = [call_key("k", "m", str(n)) for n in range(200)]

    def write(n: int) -> None:
        for _ in range(5):
            stored.put(dict.fromkeys(Random(n).sample(keys, 100), b"v"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert stored.known(keys) == set(stored.get(keys))
    assert len(stored) > 190


def test_a_put_outlives_a_killed_process(database_place: str) -> None:
    script = (
        "import os, signal, sys\n"
        "from rag_pipeline.calls import CallCache\n"
        "from rag_pipeline_tests.testing.databases import opened\n"
        "CallCache(opened(sys.argv[1])).put({b'k': b'v'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert Forked(script, database_place).wait() == -9
    assert CallCache(opened(database_place)).get([b"k"]) == {b"k": b"v"}


def test_a_store_without_room_is_reported(cache: CallCache) -> None:
    cache.put({b"k": b"v"})
    cache.database.close()
    with closing(sqlite3.connect(cache.database.path)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()

    def write(connection):
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 1}")

    cache.database.write(write)
    with pytest.raises(StoreError, match="full"):
        cache.put({bytes([n]): b"v" * 4096 for n in range(10)})
    assert cache.get([b"k"]) == {b"k": b"v"}


def test_answers_that_nothing_has_used_for_long_are_pruned(stored: CallCache) -> None:
    keys = [bytes([n]) for n in range(4)]
    stored.put(dict.fromkeys(keys, b"answer"))
    old = update(answers).where(answers.c.key != b"\x03").values(used=1000)
    stored.database.write(lambda connection: connection.execute(old))
    assert stored.unused(2000) == set(keys[:3])
    assert stored.get([b"\x00"]) == {b"\x00": b"answer"}, "asked for, so used"
    stored.touch([b"\x01"])
    assert stored.unused(2000) == {b"\x02"}
    assert CallCache(stored.database, store="s3://other").unused(2000) == set()
    assert stored.bytes_of([b"\x02"]) == len(b"answer")
    stored.prune([b"\x02"])
    assert stored.known(keys) == {b"\x00", b"\x01", b"\x03"}


def test_a_pruned_cache_gives_its_space_back(cache: CallCache) -> None:
    answered = {n.to_bytes(2): bytes(10_000) for n in range(200)}
    cache.put(answered)
    cache.prune(list(answered))
    cache.shrink()
    assert cache.database.path.stat().st_size < 150_000


# --- where machines share a database ---


def test_answers_of_local_models_and_from_before_stay_on_the_machine_until_wanted(
    tmp_path: Path, postgres_url: str
) -> None:
    one, two = (
        CallCache(opened(postgres_url), CallCache(Database(tmp_path / name / "calls.sqlite")))
        for name in ("one", "two")
    )
    one.of_local_models().put({b"local": b"vector"})
    assert one.own is not None
    one.own.put({b"before": b"answer"}, {b"before": Usage(5)})
    assert two.get([b"local", b"before"]) == {}
    assert one.known([b"before"]) == {b"before"}
    assert one.get([b"before"]) == {b"before": b"answer"}
    assert two.get([b"local", b"before"]) == {b"before": b"answer"}, "shared when it is wanted"
    assert two.usage([b"before"]) == {b"before": Usage(5)}


def test_a_large_answer_is_a_file_of_the_bucket(
    tmp_path: Path, postgres_url: str, bucket: str
) -> None:
    files = Store(bucket, SHARED_CALLS)
    one, two = (CallCache(opened(postgres_url), files=files) for _ in range(2))
    large = Random(0).randbytes(FILE_BYTES + 1)
    one.put({b"large": large, b"same": large, b"small": b"answer"})
    (file,) = files.list("answers")
    assert two.get([b"large", b"small"]) == {b"large": large, b"small": b"answer"}
    assert two.bytes_of([b"large"]) == 32
    one.prune([b"large"])
    assert two.get([b"same"]) == {b"same": large}, "another answer has the same content"
    files.write_bytes(f"answers/{file}", b"damaged")
    assert two.get([b"same"]) == {}
    assert two.known([b"same"]) == set()
    assert files.list("answers") == []
