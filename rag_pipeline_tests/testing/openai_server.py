"""A server on loopback that speaks the OpenAI protocol, with answers made by a test's function."""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rag_pipeline_tests.testing.listening import listening


@dataclass
class Fault:
    """An answer that is an error: a status with headers and a body, a cut connection or none."""

    status: int
    body: bytes = b'{"error": {"message": "injected"}}'
    headers: dict[str, str] = field(default_factory=dict)


CUT, HANG = 0, -1
"""A Fault's status for a connection that is closed unanswered, and one that is kept so."""

Answer = Callable[[dict[str, Any]], str | Fault]
"""From a chat request's JSON to the reply's text."""


@dataclass
class OpenAIServer:
    url: str
    requests: list[dict[str, Any]]
    headers: list[dict[str, str]]

    @property
    def prompts(self) -> Sequence[str]:
        """Return the last message of each chat request, in order of arrival."""
        return [request["messages"][-1]["content"] for request in self.requests]


def completed(text: str, body: dict[str, Any], call_id: str, cached: int = 0) -> dict[str, Any]:
    """Return a completion with usage: a token a word."""
    words = sum(len(m["content"].split()) for m in body["messages"])
    return {
        "id": call_id,
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {
            "prompt_tokens": words,
            "completion_tokens": len(text.split()),
            "total_tokens": words + len(text.split()),
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


@contextmanager
def serving(answer: Answer) -> Iterator[OpenAIServer]:
    requests: list[dict[str, Any]] = []
    headers: list[dict[str, str]] = []
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            headers.append(dict(self.headers))
            made = answer(body)
            if isinstance(made, Fault):
                if made.status in (CUT, HANG):
                    if made.status == HANG:
                        stopped.wait()
                    self.close_connection = True
                    return
                self._send(made.status, made.body, made.headers)
                return
            completion = completed(made, body, f"chatcmpl-{len(requests)}")
            self._send(200, json.dumps(completion).encode(), {})

        def _send(self, status: int, body: bytes, more: dict[str, str]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that was killed or has given up is no news; a failing answer is."""
            if not isinstance(sys.exc_info()[1], ConnectionError | json.JSONDecodeError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with listening(server) as address:
        try:
            yield OpenAIServer(address, requests, headers)
        finally:
            stopped.set()
