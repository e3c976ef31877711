"""The lease of a corpus on a bucket; in a folder, see `test_two_at_once`."""

import time

import pytest

from rag_pipeline.errors import BusyError
from rag_pipeline.store import Store
from rag_pipeline.store import bucket as buckets
from rag_pipeline.store.lease import FILE, lease

OTHER = {"since": "2026-01-05T08:00:00+00:00", "pid": 7, "host": "elsewhere"}


def held_elsewhere(store, seconds):
    store.write_json(FILE, {**OTHER, "until": time.time() + seconds})


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
    store = Store(bucket, "tiny")
    with lease(store):
        first = store.read_json(FILE)["until"]
        while store.read_json(FILE)["until"] == first:
            pass
    assert store.read_json(FILE) is None
