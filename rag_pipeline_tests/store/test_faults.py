"""S3 behind a proxy that refuses and cuts connections: retries win, or one clear error."""

import boto3
import pyarrow as pa
import pytest

from rag_pipeline import indexing
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.store import Store
from rag_pipeline.store.schemas import QUARANTINE_SCHEMA, rows_of
from rag_pipeline_tests.testing.bucket_proxy import Fault


def every(nth: int, what: str) -> Fault:
    return lambda number, line: what if number % nth == 0 else ""


@pytest.mark.parametrize("fault", [every(3, "slow"), every(3, "cut")])
def test_passing_faults_are_retried(behind, bucket, of_objects, fault):
    for name in "abcdef":
        boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{name}.txt", Body=b"text " * 50)
    with behind(fault):
        store = Store(bucket, "tiny")
        for number in range(3):
            assert store.write_json_if("a.json", number, store.read_tagged_json("a.json")[1])
        assert store.read_json("a.json") == 2
        folder = store.files.new_folder("lexical/x")
        (folder / "index").write_text("index" * 100)
        store.publish_folder(folder, "lexical/x")
        assert (store.local_folder("lexical/x") / "index").read_text() == "index" * 100
        assert indexing.update_documents(of_objects).documents == 6


def test_tables_are_read_and_written_through_passing_faults(behind, bucket):
    columns = {name: ["x"] for name in QUARANTINE_SCHEMA.names}
    with behind(every(4, "slow")):
        table = Store(bucket, "tiny").table("quarantine.x", QUARANTINE_SCHEMA)
        table.ensure()
        for _ in range(3):
            table.replace(["x"], [rows_of(columns, QUARANTINE_SCHEMA)])
        assert table.count() == 1
        assert isinstance(table.open().to_arrow(), pa.Table)


def test_a_lasting_refusal_is_one_line(behind, bucket, of_objects, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    with behind(every(1, "slow")):
        with pytest.raises(StoreError, match=r"^documents.s3: s3://bucket/raw: .*SlowDown") as told:
            indexing.update_documents(of_objects)
        assert "\n" not in str(told.value)
        with pytest.raises(StoreError, match=r"cannot read a\.json"):
            Store(bucket, "tiny").read_json("a.json")
    with behind(every(1, "denied")):
        with pytest.raises(ConfigError, match=r"AccessDenied.*the credentials in use may not"):
            indexing.update_documents(of_objects)
        with pytest.raises(ConfigError, match=r"^s3://bucket/prefix/tiny/a.json: .*AccessDenied"):
            Store(bucket, "tiny").write_json_if("a.json", 1, None)


def test_one_object_that_may_not_be_read_is_quarantined(behind, of_objects):
    for name in ("good", "secret"):
        boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{name}.txt", Body=b"text")

    def secret(number: int, line: str) -> str:
        return "denied" if "secret" in line else ""

    with behind(secret):
        report = indexing.update_documents(of_objects)
    assert report.documents == 1
    assert report.quarantined == {"secret.txt": "cannot read the object: 403"}
    assert indexing.update_documents(of_objects).documents == 1, "it is tried again"
    assert of_objects.quarantine("documents").count() == 0
