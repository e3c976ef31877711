import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.store import Store
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.bucket_proxy import Fault, proxy
from rag_pipeline_tests.testing.corpora import write_file


@pytest.fixture
def store(tmp_path) -> Store:
    """Return an empty store in a folder."""
    return Store(str(tmp_path / "store"), "tiny")


@pytest.fixture(params=["folder", "bucket"])
def any_store(request, tmp_path) -> Store:
    """Return an empty store in a folder, and one in a bucket."""
    folder = str(tmp_path / "store")
    return Store(folder if request.param == "folder" else request.getfixturevalue("bucket"), "tiny")


@pytest.fixture
def of_objects(bucket, tmp_path) -> Workspace:
    """Return a corpus of the objects below `raw/` of the bucket, with a store in a folder."""
    raw = {"s3": "s3://bucket/raw"}
    return Workspace(load_config(write_file(tmp_path, queries=None, documents=raw)))


@pytest.fixture
def behind(bucket, monkeypatch):
    """Return a function that puts a fault between the bucket and everything."""
    direct = os.environ["AWS_ENDPOINT_URL"]

    @contextmanager
    def faulty(fault: Fault) -> Iterator[None]:
        befell: set[str] = set()

        def noted(number: int, line: str) -> str:
            befell.add(what := fault(number, line))
            return what

        with proxy(direct, noted) as address, monkeypatch.context() as patched:
            patched.setenv("AWS_ENDPOINT_URL", address)
            yield
        assert any(befell), "no request met the fault"

    return faulty
