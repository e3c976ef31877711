"""S3 behind a proxy that refuses and cuts connections: retries win, or one clear error."""

import itertools
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pyarrow as pa
import pytest

from rag_pipeline import indexing
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import QUARANTINE_SCHEMA, rows_of
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.store import Store
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.conftest import write_file

SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"

Fault = Callable[[int, str], str]
"""From a request's number and path to what befalls it: "", "slow", "cut" or "denied"."""


@contextmanager
def proxy(target: str, fault: Fault) -> Iterator[str]:
    """Forward requests to `target`, except those that a fault befalls; yield the address."""
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.body()
            what = fault(next(numbers), self.path)
            if what == "slow":
                self.answer(503, {}, SLOW_DOWN)
            elif what == "denied":
                self.answer(403, {}, DENIED)
            else:
                hop = ("connection", "transfer-encoding", "expect")
                headers = {k: v for k, v in self.headers.items() if k.lower() not in hop}
                headers.setdefault("Content-Type", "application/octet-stream")  # not a form
                request = urllib.request.Request(
                    target + self.path, body or None, headers, method=self.command
                )
                try:
                    with urllib.request.urlopen(request) as found:
                        self.answer(found.status, found.headers, found.read(), what == "cut")
                except urllib.error.HTTPError as error:
                    self.answer(error.code, error.headers, error.read())

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def answer(
            self, status: int, headers: Mapping[str, str], body: bytes, cut: bool = False
        ) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = headers.get("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection = cut

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def behind(bucket, monkeypatch):
    """Return a function that puts a fault between the bucket and everything."""
    direct = os.environ["AWS_ENDPOINT_URL"]

    @contextmanager
    def faulty(fault: Fault) -> Iterator[None]:
        with proxy(direct, fault) as address, monkeypatch.context() as patched:
            patched.setenv("AWS_ENDPOINT_URL", address)
            yield

    return faulty


def every(nth: int, what: str) -> Fault:
    return lambda number, path: what if number % nth == 0 else ""


@pytest.mark.parametrize("fault", [every(3, "slow"), every(3, "cut")])
def test_passing_faults_are_retried(behind, bucket, tmp_path, fault):
    for name in "abcdef":
        boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{name}.txt", Body=b"text " * 50)
    raw = {"s3": "s3://bucket/raw"}
    with behind(fault):
        store = Store(bucket, "tiny")
        for number in range(3):
            assert store.write_json_if("a.json", number, store.read_tagged_json("a.json")[1])
        assert store.read_json("a.json") == 2
        folder = store.building_folder("lexical/x")
        (folder / "index").write_text("index" * 100)
        store.publish_folder(folder, "lexical/x")
        assert (store.local_folder("lexical/x") / "index").read_text() == "index" * 100
        workspace = Workspace(load_config(write_file(tmp_path, queries=None, documents=raw)))
        assert indexing.update_documents(workspace).documents == 6


def test_tables_are_read_and_written_through_passing_faults(behind, bucket):
    columns = {name: ["x"] for name in QUARANTINE_SCHEMA.names}
    with behind(every(4, "slow")):
        table = Store(bucket, "tiny").table("quarantine.x", QUARANTINE_SCHEMA)
        table.ensure()
        for _ in range(3):
            table.replace(["x"], [rows_of(columns, QUARANTINE_SCHEMA)])
        assert table.count() == 1
        assert isinstance(table.open().to_arrow(), pa.Table)


def test_a_lasting_refusal_is_one_line(behind, bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    raw = {"s3": "s3://bucket/raw"}
    workspace = Workspace(load_config(write_file(tmp_path, queries=None, documents=raw)))
    with behind(every(1, "slow")):
        with pytest.raises(StoreError, match=r"^documents.s3: s3://bucket/raw: .*SlowDown") as told:
            indexing.update_documents(workspace)
        assert "\n" not in str(told.value)
        with pytest.raises(StoreError, match=r"cannot read a\.json"):
            Store(bucket, "tiny").read_json("a.json")
    with behind(every(1, "denied")):
        with pytest.raises(ConfigError, match=r"AccessDenied.*the credentials in use may not"):
            indexing.update_documents(workspace)
        with pytest.raises(ConfigError, match=r"^s3://bucket/prefix/tiny/a.json: .*AccessDenied"):
            Store(bucket, "tiny").write_json_if("a.json", 1, None)


def test_one_object_that_may_not_be_read_is_quarantined(behind, bucket, tmp_path):
    for name in ("good", "secret"):
        boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{name}.txt", Body=b"text")
    raw = {"s3": "s3://bucket/raw"}
    workspace = Workspace(load_config(write_file(tmp_path, queries=None, documents=raw)))

    def secret(number: int, path: str) -> str:
        return "denied" if "secret" in path else ""

    with behind(secret):
        report = indexing.update_documents(workspace)
    assert report.documents == 1
    assert report.quarantined == {"secret.txt": "cannot read the object: 403"}
    assert indexing.update_documents(workspace).documents == 1, "it is tried again"
    assert workspace.quarantine("documents").count() == 0
