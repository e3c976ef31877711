"""A web service on loopback whose replies a test makes."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rag_pipeline_tests.testing.listening import listening


@dataclass
class Web:
    """A server on loopback; `asked` are the paths and bodies of the requests."""

    url: str
    asked: list[tuple[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of each request, by names in small letters."""

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")


Reply = Callable[[str, Any], tuple[int, dict[str, str], Any]]


@contextmanager
def web(reply: Reply) -> Iterator[Web]:
    """Serve what `reply` makes of a path and its parameters, JSON or bytes; a reply that is no
    bytes is sent as JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._answer(parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_json = "json" in self.headers.get("Content-Type", "")
            self._answer(self.path, json.loads(body) if is_json else body)

        def _answer(self, path: str, request: Any) -> None:
            server.asked.append((path, request))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, headers, body = reply(path, request)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that has read enough is no news."""

    with listening(Listener(("127.0.0.1", 0), Handler)) as address:
        server = Web(address.removesuffix("/v1"))
        yield server
