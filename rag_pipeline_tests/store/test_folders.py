"""Published folders on a bucket: copied once, held against their hashes, never half there."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import boto3
import pyarrow.fs as pafs
import pytest

from rag_pipeline.errors import StoreError
from rag_pipeline.store import Store, folders

PATH = "lexical/a/x"
KEY = f"prefix/tiny/{PATH}"


def publish(store, content="index of build 1"):
    folder = store.files.new_folder(PATH)
    (folder / "documents").mkdir()
    (folder / "index").write_text(content)
    (folder / "documents" / "names").write_text("names")
    store.publish_folder(folder, PATH)
    assert not folder.exists()


@pytest.fixture
def store(bucket):
    store = Store(bucket, "tiny")
    publish(store)
    return store


@pytest.fixture
def reads(monkeypatch):
    """Return the names of the files that are copied from the bucket, as they are."""
    seen = []
    copy = folders._copy

    def counted(files, source, target, entry, place):
        seen.append(target.name)
        copy(files, source, target, entry, place)

    monkeypatch.setattr(folders, "_copy", counted)
    return seen


def test_a_folder_is_listed_with_the_hash_of_every_file(store):
    listed = json.loads(
        boto3.client("s3").get_object(Bucket="bucket", Key=f"{KEY}/FILES.json")["Body"].read()
    )
    # printf names | sha256sum
    assert listed["files"]["documents/names"] == {
        "sha256": "aeb24056810d3d1f1e8afee61a0bc0028556eb0fb49a215ae5eb1b970cad0315",
        "bytes": 5,
    }
    assert sorted(listed["files"]) == ["documents/names", "index"]


def test_a_folder_is_copied_once(store, reads):
    first = store.local_folder(PATH)
    assert (first / "index").read_text() == "index of build 1"
    assert (first / "documents" / "names").read_text() == "names"
    assert store.local_folder(PATH) == first
    assert sorted(reads) == ["index", "names"]


def test_a_copy_that_was_damaged_is_fetched_again(store, reads):
    (store.local_folder(PATH) / "index").write_text("index of build 2")  # the same length
    assert (store.local_folder(PATH) / "index").read_text() == "index of build 1"
    assert len(reads) == 4


def test_what_differs_from_its_hash_is_refused_and_nothing_is_kept(store, tmp_path):
    boto3.client("s3").put_object(Bucket="bucket", Key=f"{KEY}/index", Body=b"INDEX of build 1")
    with pytest.raises(
        StoreError, match=r"lexical/a/x/index: its SHA-256 is .* incomplete or altered"
    ):
        store.local_folder(PATH)
    assert list((tmp_path / "cache" / "rag-pipeline" / "folders").iterdir()) == []


def test_a_missing_file_is_named(store):
    boto3.client("s3").delete_object(Bucket="bucket", Key=f"{KEY}/index")
    with pytest.raises(StoreError, match=r"a file is missing .*index"):
        store.local_folder(PATH)


def test_a_folder_without_its_list_is_not_there_yet(store):
    boto3.client("s3").delete_object(Bucket="bucket", Key=f"{KEY}/FILES.json")
    assert not store.files.has_folder(PATH)
    with pytest.raises(StoreError, match="lexical/a/x: no such folder; run `rag run` again"):
        store.local_folder(PATH)
    publish(store, "index of build 2")
    assert (store.local_folder(PATH) / "index").read_text() == "index of build 2"


@pytest.mark.parametrize("name", ["../../outside", "/etc/passwd"])
def test_a_list_that_leads_outside_is_refused(store, name):
    body = json.dumps({"files": {name: {"sha256": "0" * 64, "bytes": 1}}}).encode()
    boto3.client("s3").put_object(Bucket="bucket", Key=f"{KEY}/FILES.json", Body=body)
    with pytest.raises(StoreError, match="is not a file of this folder"):
        store.local_folder(PATH)


def test_many_fetch_at_once(store, bucket):
    stores = [Store(bucket, "tiny") for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        copies = set(pool.map(lambda s: s.local_folder(PATH), stores))
    (copy,) = copies
    assert (copy / "index").read_text() == "index of build 1"
    assert [p.name for p in copy.parent.iterdir()] == [copy.name], "no temporary copy is left"


def test_copies_that_nobody_used_for_a_month_are_dropped(store, tmp_path):
    cache = tmp_path / "cache" / "rag-pipeline" / "folders"
    old = cache / "old"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    copy = store.local_folder(PATH)
    assert list(cache.iterdir()) == [copy]


def test_the_list_of_a_local_folder_stands_beside_its_files(tmp_path):
    store = Store(str(tmp_path / "store"), "tiny")
    publish(store)
    folder = store.local_folder(PATH)
    listed = (folder / "FILES.json").read_bytes()
    copy = folders.fetch(
        pafs.LocalFileSystem(), str(folder), listed, PATH, tmp_path / "cache" / "x"
    )
    assert sorted(folders.read_list(listed, PATH)) == ["documents/names", "index"]
    assert (copy / "index").read_text() == "index of build 1"
