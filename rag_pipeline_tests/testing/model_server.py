"""A server on loopback with the embedding and rerank protocols of OpenAI, Voyage, Cohere and Jina.

A text's vector is told by its content, so that a test can work out what must come back.
"""

import base64
import hashlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from rag_pipeline_tests.testing.listening import listening

DIMENSION = 8
Body = dict[str, Any]


@dataclass
class Status:
    """An HTTP error, or with 0 a connection that is cut."""

    status: int
    message: str = "injected"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Hang:
    """No answer for so long."""

    seconds: float


Change = Callable[[Body], Any]
"""From a right reply to the one that is sent instead: JSON, or bytes as they are."""
Fault = Status | Hang | Change | None
Faults = Callable[[str, Body], Fault]
"""From a request's path and body to what goes wrong, if anything."""


def faulty(seed: int, share: float = 0.3, hang_seconds: float = 0.6) -> Faults:
    """Fail a share of the requests, in every way by turns of chance."""
    chance = random.Random(seed)

    def garbled(reply: Body) -> Any:
        return b'{"data": [{"embed'

    def short(reply: Body) -> Any:
        return {**reply, "data": reply["data"][:-1], "results": reply.get("results", [])[:-1]}

    def too_many(reply: Body) -> Any:
        return {**reply, "data": reply["data"] * 2, "results": reply.get("results", []) * 2}

    ways: list[Fault] = [
        Status(429),
        Status(429, headers={"Retry-After": "0"}),
        Status(500),
        Status(503),
        Status(0),
        Hang(hang_seconds),
        garbled,
        short,
        too_many,
    ]

    def fault(path: str, body: Body) -> Fault:
        return chance.choice(ways) if chance.random() < share else None

    return fault


def vector_of(text: str, dimension: int = DIMENSION) -> np.ndarray:
    """The unit vector that the server has for a text."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
    made = np.random.default_rng(seed).normal(size=dimension)
    return (made / np.linalg.norm(made)).astype(np.float32)


def score_of(query: str, passage: str) -> float:
    """The share of the query's words that the passage has."""
    words = set(query.lower().split())
    return len(words & set(passage.lower().split())) / len(words)


@dataclass
class ModelServer:
    url: str
    requests: list[tuple[str, Body]] = field(default_factory=list)
    paid: list[str] = field(default_factory=list)
    """Every text that was answered, in order of arrival."""
    keys: set[str] = field(default_factory=set)
    most_at_once: int = 0


@contextmanager
def serving(faults: Faults = lambda path, body: None) -> Iterator[ModelServer]:
    lock = threading.Lock()
    running = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            nonlocal running
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.removeprefix("/v1/").removeprefix("/v2/")
            with lock:
                running += 1
                server.most_at_once = max(server.most_at_once, running)
                server.requests.append((path, body))
                server.keys.add(self.headers["Authorization"])
                fault = faults(path, body)
            try:
                self._answer(path, body, fault)
            finally:
                with lock:
                    running -= 1

        def _answer(self, path: str, body: Body, fault: Fault) -> None:
            if isinstance(fault, Hang):
                time.sleep(fault.seconds)
                self.close_connection = True
                return
            if isinstance(fault, Status):
                if fault.status == 0:
                    self.close_connection = True
                    return
                error = {"error": {"message": fault.message}, "detail": fault.message}
                self._send(fault.status, {**error, "message": fault.message}, fault.headers)
                return
            texts, reply = _REPLIES[path](body)
            if fault is not None:
                reply = fault(reply)
            else:
                with lock:
                    server.paid.extend(texts)
            self._send(200, reply, {})

        def _send(self, status: int, reply: Any, headers: dict[str, str]) -> None:
            content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that has given up is no news."""

    http = Listener(("127.0.0.1", 0), Handler)
    with listening(http) as address:
        server = ModelServer(address)
        yield server


def _tokens(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _embedding(body: Body, text: str, index: int) -> Body:
    length = body.get("dimensions") or body.get("output_dimension") or DIMENSION
    vector = vector_of(text, length)
    packed: Any = vector.tolist()
    if body.get("encoding_format") == "base64":
        packed = base64.b64encode(vector.tobytes()).decode()
    return {"object": "embedding", "index": index, "embedding": packed}


def _embeddings(body: Body) -> tuple[list[str], Body]:
    """OpenAI and Voyage agree on this one."""
    texts = body["input"]
    data = [_embedding(body, text, n) for n, text in enumerate(texts)]
    used = {"prompt_tokens": _tokens(texts), "total_tokens": _tokens(texts)}
    return texts, {"object": "list", "data": data, "model": body["model"], "usage": used}


def _contextualized(body: Body) -> tuple[list[str], Body]:
    """A chunk's vector is told by its whole document."""
    documents = body["inputs"]
    data = [
        {
            "object": "list",
            "index": n,
            "data": [
                _embedding(body, f"{chunk} in {' | '.join(chunks)}", i)
                for i, chunk in enumerate(chunks)
            ],
        }
        for n, chunks in enumerate(documents)
    ]
    texts = [chunk for chunks in documents for chunk in chunks]
    used = {"total_tokens": _tokens(texts)}
    return texts, {"object": "list", "data": data, "model": body["model"], "usage": used}


def _rerank(body: Body) -> tuple[list[str], Body]:
    """`data` for Voyage, `results` for Cohere and Jina; best first, as they do."""
    passages = body["documents"]
    found = [
        {"index": n, "relevance_score": score_of(body["query"], passage)}
        for n, passage in enumerate(passages)
    ]
    found.sort(key=lambda row: -row["relevance_score"])
    used = {"total_tokens": _tokens([body["query"], *passages])}
    units = {"billed_units": {"search_units": 1}}
    reply = {"object": "list", "data": found, "results": found, "usage": used, "meta": units}
    return [body["query"]], reply


_REPLIES = {
    "embeddings": _embeddings,
    "contextualizedembeddings": _contextualized,
    "rerank": _rerank,
}
