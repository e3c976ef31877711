"""Documents from a bucket: listed by key and ETag, only changed objects fetched."""

import json
import os

import boto3
import pytest

from rag_pipeline import indexing
from rag_pipeline.errors import ConfigError
from rag_pipeline.indexing import listing_digest, loads
from rag_pipeline.indexing.documents import plan_documents
from rag_pipeline.loading import bucket as objects
from rag_pipeline.loading.parsers import PARSER_VERSIONS
from rag_pipeline_tests.testing.corpora import write_documents
from rag_pipeline_tests.testing.scanning import workspace_of

TEXTS = {"nda/acme.txt": "The Acme agreement.", "policy/leave.md": "# Leave\n\nSixteen weeks."}
RECORDS = [{"id": "r1", "text": "The first record."}, {"id": "r2", "text": "The second record."}]


def put(key, body):
    body = body if isinstance(body, bytes) else body.encode()
    boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{key}", Body=body)


def delete(key):
    boto3.client("s3").delete_object(Bucket="bucket", Key=f"raw/{key}")


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def workspace(bucket, tmp_path):
    for key, text in TEXTS.items():
        put(key, text)
    return workspace_of(tmp_path, s3="s3://bucket/raw")


@pytest.fixture
def fetched(monkeypatch):
    """Return the keys that are fetched, as they are."""
    keys = []
    copy = objects._copy

    def counted(source, listed, target):
        keys.append(listed.relative)
        copy(source, listed, target)

    monkeypatch.setattr(objects, "_copy", counted)
    return keys


def rows(workspace, without=("origin",)):
    found = workspace.documents().open().to_arrow().drop_columns(list(without)).to_pylist()
    return sorted(found, key=lambda row: row["document_id"])


def test_objects_give_the_same_rows_as_files(workspace, tmp_path):
    put("records.jsonl", lines(*RECORDS))
    write_documents(tmp_path / "documents", {**TEXTS, "records.jsonl": lines(*RECORDS)})
    (tmp_path / "local").mkdir()
    local = workspace_of(tmp_path / "local", path=str(tmp_path / "documents"))
    indexing.update_documents(workspace)
    indexing.update_documents(local)
    assert rows(workspace) == rows(local)
    assert [row["document_id"] for row in rows(workspace)] == [
        "nda/acme.txt",
        "policy/leave.md",
        "r1",
        "r2",
    ]


def test_only_changed_objects_are_fetched_and_deletions_are_seen(workspace, fetched):
    put("records.jsonl", lines(*RECORDS))
    assert indexing.plan_documents(workspace).stale == (*TEXTS, "records.jsonl")
    assert fetched == [], "planning fetches nothing"
    assert indexing.update_documents(workspace).documents == 4
    assert fetched == [*TEXTS, "records.jsonl"]
    assert indexing.plan_documents(workspace).is_current
    assert indexing.update_documents(workspace).documents == 0

    fetched.clear()
    put("nda/acme.txt", "The Acme agreement, amended.")
    put("records.jsonl", lines(RECORDS[1]))
    delete("policy/leave.md")
    plan = indexing.plan_documents(workspace)
    assert plan.stale == ("nda/acme.txt", "records.jsonl")
    assert plan.orphaned == ("policy/leave.md",)
    report = indexing.update_documents(workspace)
    assert fetched == ["nda/acme.txt", "records.jsonl"]
    assert (report.documents, report.dropped) == (2, 2)
    assert [row["document_id"] for row in rows(workspace)] == ["nda/acme.txt", "r2"]
    assert indexing.plan_documents(workspace).is_current


def test_the_same_bytes_uploaded_in_parts_change_nothing_downstream(workspace, fetched):
    indexing.update_documents(workspace)
    before = rows(workspace)
    s3, place = boto3.client("s3"), {"Bucket": "bucket", "Key": "raw/nda/acme.txt"}
    upload = s3.create_multipart_upload(**place)["UploadId"]
    part = s3.upload_part(
        **place, UploadId=upload, PartNumber=1, Body=TEXTS["nda/acme.txt"].encode()
    )
    s3.complete_multipart_upload(
        **place,
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )
    assert "-1" in s3.head_object(**place)["ETag"], "not the hash of the content"
    fetched.clear()
    indexing.update_documents(workspace)
    assert fetched == ["nda/acme.txt"]
    assert rows(workspace) == before
    assert indexing.plan_documents(workspace).is_current


def test_a_load_that_was_killed_between_two_records_reads_the_object_again(
    workspace, fetched, monkeypatch
):
    put("records.jsonl", lines(*RECORDS))
    seen, wait = [], loads._wait

    def killed(*started):
        seen.append(started)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return wait(*started)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(loads, "MAX_SHARD_DOCUMENTS", 3)
        patched.setattr(loads, "_wait", killed)
        indexing.update_documents(workspace)
    assert [row["document_id"] for row in rows(workspace)] == [*TEXTS, "r1"]
    assert indexing.plan_documents(workspace).stale == ("records.jsonl",)
    indexing.update_documents(workspace)
    assert [row["document_id"] for row in rows(workspace)] == [*TEXTS, "r1", "r2"]


def test_unusable_objects_are_quarantined_once(workspace, fetched):
    put("empty.txt", b"")
    put("binary.txt", b"\x00\x01\x02")
    put("odd//name.txt", "text")
    indexing.update_documents(workspace)
    reasons = {
        row["document_id"]: row["reason"]
        for row in workspace.quarantine("documents").open().to_arrow().to_pylist()
    }
    assert reasons["empty.txt"] == "empty: 0 bytes"
    assert reasons["odd//name.txt"] == "the key has an empty, '.' or '..' part; rename it"
    assert len(reasons) == 3
    fetched.clear()
    assert indexing.plan_documents(workspace).is_current
    indexing.update_documents(workspace)
    assert fetched == []


def test_the_sensor_sees_changes_in_the_listing(workspace):
    digest = listing_digest(workspace.config)
    assert listing_digest(workspace.config) == digest
    put("nda/acme.txt", "The Acme agreemenT.")
    changed = listing_digest(workspace.config)
    assert changed != digest
    delete("policy/leave.md")
    assert listing_digest(workspace.config) not in (digest, changed)


def test_globs_and_a_prefix_choose_objects(workspace, tmp_path):
    put("policy/.draft.md", "hidden")
    boto3.client("s3").put_object(Bucket="bucket", Key="rawest/x.md", Body=b"not below raw/")
    source = workspace_of(tmp_path, s3="s3://bucket/raw", include=["**/*.md"]).config.documents
    assert [listed.relative for listed in objects.list_bucket(source)] == ["policy/leave.md"]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({"s3": "s3://bucket/nothing"}, "documents.s3: no documents in s3://bucket/nothing"),
        ({"s3": "s3://elsewhere/raw"}, "NoSuchBucket.*create the bucket or check its name"),
        ({"s3": "s3://bucket/raw", "include": ["*.pdf"]}, r"none of the 2 objects in s3://bucket"),
    ],
)
def test_an_empty_place_is_named(workspace, tmp_path, documents, message):
    indexing.update_documents(workspace)
    broken = workspace_of(tmp_path, **documents)
    with pytest.raises(ConfigError, match=message):
        indexing.update_documents(broken)
    assert broken.documents().count() == 2, "a wrong address empties nothing"


def test_missing_credentials_are_one_line(workspace, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="Unable to locate credentials; set AWS_ACCESS_KEY_ID"):
        objects.list_bucket(workspace.config.documents)


def test_endpoint_and_keys_may_come_from_a_profile(workspace, tmp_path, monkeypatch):
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    profile = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region": "us-east-1"}
    text = "".join(f"{k} = {v}\n" for k, v in {**profile, "endpoint_url": endpoint}.items())
    (tmp_path / "aws").write_text(f"[profile team]\n{text}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws"))
    monkeypatch.setenv("AWS_PROFILE", "team")
    assert len(objects.list_bucket(workspace.config.documents)) == 2


def test_an_object_is_read_again_after_its_parser_changed(workspace, monkeypatch):
    put("page.html", "<p>Rent is due on the first day of the month.</p>")
    indexing.update_documents(workspace)
    assert plan_documents(workspace).why == ""
    monkeypatch.setitem(PARSER_VERSIONS, ".html", 1_000)
    assert plan_documents(workspace).stale == ("page.html",)
    indexing.update_documents(workspace)
    assert plan_documents(workspace).is_current


def test_a_line_about_an_object_brings_it_up_to_date(workspace, tmp_path):
    indexing.update_documents(workspace)
    sidecar = tmp_path / "documents.csv"
    sidecar.write_text("document_id,access\nnda/acme.txt,legal\n")
    described = workspace_of(tmp_path, s3="s3://bucket/raw", metadata=str(sidecar))
    assert plan_documents(described).stale == ("nda/acme.txt",)
    assert plan_documents(described).why == ""
    indexing.update_documents(described)
    by_id = {row["document_id"]: json.loads(row["metadata"]) for row in rows(described)}
    assert by_id["nda/acme.txt"]["access"] == "legal"
    assert plan_documents(described).is_current
