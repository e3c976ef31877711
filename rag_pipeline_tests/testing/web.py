"""A web service on loopback whose replies a test makes."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from rag_pipeline_tests.testing.listening import listening


@dataclass
class Web:
    """A server on loopback; `asked` are the paths and bodies of the requests."""

    url: str
    asked: list[tuple[str, dict]]


Reply = Callable[[str, dict], tuple[int, dict[str, str], bytes]]


@contextmanager
def web(reply: Reply) -> Iterator[Web]:
    """Serve what `reply` makes of a path and its parameters or JSON body."""
    asked: list[tuple[str, dict]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._answer(parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(self.path, json.loads(body))

        def _answer(self, path: str, request: dict) -> None:
            asked.append((path, request))
            status, headers, body = reply(path, request)
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with listening(server) as address:
        yield Web(address.removesuffix("/v1"), asked)
