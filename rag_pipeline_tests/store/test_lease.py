"""The lease of a corpus in threads and on a bucket; see also `test_two_at_once`."""

import errno
import json
import os
import threading
import time
from contextlib import ExitStack
from queue import Queue

import pytest

from rag_pipeline.errors import BusyError
from rag_pipeline.store import Store
from rag_pipeline.store import bucket as buckets
from rag_pipeline.store.lease import FILE, at_work, lease

OTHER = {"since": "2026-01-05T08:00:00+00:00", "pid": 7, "host": "elsewhere"}


def held_elsewhere(store, seconds):
    store.write_json(FILE, {**OTHER, "until": time.time() + seconds})


def held_by_another(store):
    """Return a block that holds the lease as another process would: by a handle of its own."""
    return store.files.try_lock(FILE, OTHER)


def test_a_second_thread_of_a_waiting_process_does_not_pass(store):
    waits, entered = threading.Event(), threading.Event()

    def wait():
        with lease(store, wait=True, waiting=lambda said: waits.set()):
            entered.set()

    with held_by_another(store):
        first = threading.Thread(target=wait)
        first.start()
        assert waits.wait(300)
        with pytest.raises(BusyError, match="process 7 on elsewhere"), lease(store):
            pass
        assert not entered.is_set()
    first.join()
    assert entered.is_set()


def test_a_waiter_that_gives_up_leaves_the_lease_to_others(store):
    with held_by_another(store), pytest.raises(BusyError), lease(store):
        pass
    with lease(store), lease(store):
        assert store.files.try_lock(FILE, OTHER) is None


def test_on_a_full_disk_a_lease_is_held_without_a_name_and_given_back(store, monkeypatch):
    def full(handle, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with lease(store):
            assert held_by_another(store) is None
        assert at_work(store) is None
    with held_by_another(store):
        pass


def test_a_lease_lasts_until_the_last_block_of_its_process_ends(store):
    outer, inner = ExitStack(), ExitStack()
    outer.enter_context(lease(store))
    inner.enter_context(lease(store))
    outer.close()
    assert store.files.try_lock(FILE, OTHER) is None, "another block still works under it"
    inner.close()
    with held_by_another(store):
        pass


def test_a_lease_that_says_nothing_is_taken(bucket):
    store = Store(bucket, "tiny")
    for content in (b"", b"{}", b'{"until": null}'):
        store.write_bytes(FILE, content)
        with lease(store):
            assert store.read_json(FILE)["until"] > time.time()


def test_a_lease_on_a_bucket_is_told_and_ends_with_its_block(bucket):
    store = Store(bucket, "tiny")
    with lease(store):
        assert store.files.try_lock(FILE, OTHER) is None
        assert store.read_json(FILE)["until"] > time.time()
    assert store.read_json(FILE) is None
    held_elsewhere(store, 60)
    said = r"since 2026-01-05T08:00:00.*, process 7 on elsewhere"
    with pytest.raises(BusyError, match=said), lease(store):
        pass
    assert store.read_json(FILE)["pid"] == 7, "it is still the other's"


def test_a_lease_that_was_not_renewed_is_taken_by_one(bucket):
    store = Store(bucket, "tiny")
    held_elsewhere(store, -1)
    first, second = (store.files.try_lock(FILE, OTHER) for _ in range(2))
    assert first is not None
    assert second is None


def test_a_lease_on_a_bucket_is_renewed_while_it_is_held(bucket, monkeypatch):
    monkeypatch.setattr(buckets, "_RENEWED_SECONDS", 0.01)
    written: Queue[float] = Queue()
    put = buckets.BucketFiles._put

    def told(self, path, content, *condition):
        done = put(self, path, content, *condition)
        if done:
            written.put(json.loads(content)["until"])
        return done

    # The tests' bucket confuses simultaneous reads of an object, so the writes are observed.
    monkeypatch.setattr(buckets.BucketFiles, "_put", told)
    store = Store(bucket, "tiny")
    with lease(store):
        first, renewed = (written.get(timeout=900) for _ in range(2))
    assert renewed > first
    assert store.read_json(FILE) is None
