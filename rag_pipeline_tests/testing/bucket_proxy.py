"""A proxy before the bucket's server that refuses requests and cuts connections."""

import itertools
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rag_pipeline_tests.testing.listening import listening

SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"

Fault = Callable[[int, str], str]
"""From a request's number and its line, `PUT /bucket/key?query`, to what befalls it: "" for
nothing, "slow" (503), "cut" or "denied" (403)."""


@contextmanager
def proxy(target: str, fault: Fault) -> Iterator[str]:
    """Forward requests to `target`, except those that a fault befalls; yield the address."""
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement

        def forward(self) -> None:
            body = self.body()
            what = fault(next(numbers), f"{self.command} {self.path}")
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
                        self.answer(found.status, dict(found.headers), found.read(), what == "cut")
                except urllib.error.HTTPError as error:
                    self.answer(error.code, dict(error.headers), error.read())

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

    with listening(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield address.removesuffix("/v1")
