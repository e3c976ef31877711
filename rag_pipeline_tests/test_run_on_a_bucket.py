"""The same run on a bucket, served on loopback: store and documents."""

import boto3
import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_corpus


def rows(file):
    workspace = Workspace(load_config(file))
    for context in ("none", "structural"):
        table = workspace.vector_index(f"recursive_150.{context}.minilm")
        yield sorted(repr(row) for row in table.open().to_arrow().to_pylist())


def metrics(file):
    board = Corpus.load(file).leaderboard()["configurations"]
    return {row["name"]: row["metrics"] for row in board}


@pytest.mark.long
def test_a_run_on_a_bucket_equals_the_local_run(tmp_path, bucket, released, run_all):
    local = released.config.file
    for name, text in DOCUMENTS.items():
        boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{name}", Body=text.encode())
    raw = {"s3": "s3://bucket/raw/"}
    remote = write_corpus(tmp_path / "remote", store=bucket, documents=raw)
    run_all(remote)
    assert list(rows(remote)) == list(rows(local))
    assert not any(result.ran for result in run_all(remote))
    query = "When is a doctor's note needed?"
    assert Corpus.load(remote).search(query) == Corpus.load(local).search(query)
    assert metrics(remote) == metrics(local)
