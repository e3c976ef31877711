"""The same run on a bucket, served on loopback."""

import boto3
import pytest
from moto.server import ThreadedMotoServer

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.conftest import write_corpus


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    boto3.client("s3").create_bucket(Bucket="bucket")
    yield "s3://bucket/prefix"
    server.stop()


def rows(file):
    workspace = Workspace(load_config(file))
    for context in ("none", "structural"):
        table = workspace.vector_index(f"recursive_150.{context}.minilm")
        yield sorted(repr(row) for row in table.open().to_arrow().to_pylist())


def test_a_run_on_a_bucket_equals_the_local_run(tmp_path, bucket, run_all):
    local = write_corpus(tmp_path / "local")
    remote = write_corpus(tmp_path / "remote", store=bucket)
    run_all(local)
    run_all(remote)
    assert list(rows(remote)) == list(rows(local))
    assert not any(result.ran for result in run_all(remote))
    query = "When is a doctor's note needed?"
    assert Corpus.load(remote).search(query) == Corpus.load(local).search(query)
    assert Corpus.load(remote).leaderboard() == Corpus.load(local).leaderboard()
