import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rag_pipeline_tests.testing.bucket_proxy import Fault, proxy


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
