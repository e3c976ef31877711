"""A webhook on this machine that keeps what is posted to it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

VARIABLE = "TINY_ALERTS_URL"


class Webhook(HTTPServer):
    """Answers every post with `status`."""

    status = 200
    received: list[dict[str, Any]]

    @property
    def address(self) -> str:
        """Return the address to post to."""
        return f"http://127.0.0.1:{self.server_port}/secret-path"


class _Handler(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(json.loads(body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening() -> Iterator[Webhook]:
    """Run a webhook for as long as the block lasts."""
    with Webhook(("127.0.0.1", 0), _Handler) as server:
        server.received = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
