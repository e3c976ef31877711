"""A model server on loopback that bills as providers do and fails as a test tells it to.

It speaks OpenAI's chat completions, embeddings, files and batches, Voyage's embeddings,
contextualized embeddings and rerank, and the rerank of Cohere and Jina. A text's vector and a
passage's score follow from their content, so that a test can work out what must come back.

python -m rag_pipeline_tests.testing.model_server MILLISECONDS   (a server with that latency)
"""

import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from rag_pipeline_tests.testing.listening import listening
from rag_pipeline_tests.testing.model_batches import Batches
from rag_pipeline_tests.testing.model_faults import (
    CUT,
    CUT_REPLY,
    HANG,
    SHUFFLED,
    Echo,
    Failure,
    Fault,
    Faults,
    Late,
    none,
)
from rag_pipeline_tests.testing.model_replies import Body, items_of, reply_to

Answer = Callable[[Body], str | Failure]
"""From a chat request's JSON to the reply's text, or to what goes wrong."""


class Request(NamedTuple):
    """`path` is below the API's version: `chat/completions`."""

    path: str
    body: Body
    headers: Message


@dataclass
class ModelServer:
    """What a server was asked, and what its provider would bill."""

    url: str
    batches: Batches
    requests: list[Request] = field(default_factory=list)
    billed: Counter[str] = field(default_factory=Counter)
    """How often the model has worked on each prompt, text or query, whatever became of it."""
    answered: list[str] = field(default_factory=list)
    """The prompts, texts and queries whose right reply was sent, in order of arrival."""
    most_at_once: int = 0

    @property
    def bodies(self) -> list[Body]:
        return [request.body for request in self.requests]

    @property
    def prompts(self) -> list[str]:
        """Return the last message of each chat request, in order of arrival."""
        return [body["messages"][-1]["content"] for body in self.bodies]

    @property
    def keys(self) -> set[str | None]:
        return {request.headers.get("Authorization") for request in self.requests}

    @property
    def wasted(self) -> Counter[str]:
        """Return what was billed beyond the right replies: cut, late, short or garbled ones."""
        return self.billed - Counter(self.answered)


def shout(body: Body) -> str:
    return str(body["messages"][-1]["content"]).upper()


@contextmanager
def serving(
    answer: Answer = shout,
    faults: Faults = none,
    batches: Batches | None = None,
    latency_seconds: float = 0.0,
) -> Iterator[ModelServer]:
    """Serve on loopback; `answer` replies to chats, single ones and those of batches alike."""
    lock = threading.RLock()
    stopped = threading.Event()
    running = 0

    def failure_of(path: str, body: Body) -> Failure:
        with lock:
            return faults(path, body)

    def worked(path: str, body: Body, right: bool) -> None:
        with lock:
            server.billed.update(items_of(path, body))
            if right:
                server.answered.extend(items_of(path, body))

    def line_of(body: Body) -> Body | bytes | Fault:
        """Return what stands in a batch's results for a line."""
        made: str | Failure = failure_of("batch/chat/completions", body) or answer(body)
        if isinstance(made, Echo):
            return Fault(made.status, json.dumps(body))
        if isinstance(made, Fault):
            return made
        worked("chat/completions", body, right=isinstance(made, str))
        reply = reply_to("chat/completions", body, made if isinstance(made, str) else shout(body))
        return made(reply) if callable(made) else reply

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            path = re.sub(r"^/v\d+/", "", self.path)
            self._take(path, content if path == "files" else json.loads(content))

        def do_GET(self) -> None:
            self._take(re.sub(r"^/v\d+/|\?.*", "", self.path), {})

        def _take(self, path: str, given: Body | bytes) -> None:
            nonlocal running
            body = given if isinstance(given, dict) else {}
            if latency_seconds:
                time.sleep(latency_seconds)
            with lock:
                running += 1
                server.most_at_once = max(server.most_at_once, running)
                if self.command == "POST" and not path.startswith(("files", "batches")):
                    server.requests.append(Request(path, body, self.headers))
            try:
                failure = failure_of(path, body)
                if isinstance(failure, Fault):
                    self._fail(path, body, failure)
                elif isinstance(failure, Echo):
                    told = f"{dict(self.headers)} {json.dumps(body)}"
                    self._fail(path, body, Fault(failure.status, told))
                else:
                    self._answer(path, given, failure)
            finally:
                with lock:
                    running -= 1

        def _answer(self, path: str, given: Body | bytes, failure: Failure) -> None:
            if path.startswith(("files", "batches")):
                kind = self.headers.get("Content-Type", "")
                with lock:
                    found = server.batches.reply(self.command, path, given, kind, line_of)
                if isinstance(failure, Late):
                    stopped.wait(failure.seconds)
                elif callable(failure):
                    found = found[0], failure(found[1])
                self._send(*found, cut=failure is CUT_REPLY)
                return
            assert isinstance(given, dict)
            text = ""
            if path == "chat/completions":
                made = answer(given)
                if isinstance(made, Fault):
                    self._fail(path, given, made)
                    return
                text = made if isinstance(made, str) else shout(given)
                failure = failure if isinstance(made, str) else made
            reply: Any = reply_to(path, given, text)
            worked(path, given, right=failure in (None, SHUFFLED))
            if isinstance(failure, Late):
                stopped.wait(failure.seconds)
            elif failure is SHUFFLED:
                reply = {key: _turned(value) for key, value in reply.items()}
            elif callable(failure):
                reply = failure(reply)
            self._send(200, reply, cut=failure is CUT_REPLY)

        def _fail(self, path: str, body: Body, fault: Fault) -> None:
            if fault.status == 200:
                worked(path, body, right=False)
            if fault.status in (CUT.status, HANG.status):
                if fault.status == HANG.status:
                    stopped.wait()
                self.close_connection = True
            else:
                self._send(fault.status, fault.content, fault.headers)

        def _send(
            self, status: int, reply: Any, headers: Mapping[str, str] | None = None,
            *, cut: bool = False,
        ) -> None:  # fmt: skip
            content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
            self.close_connection = self.close_connection or cut

        def log_message(self, *args: Any) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that was killed or has given up is no news; a failing answer is."""
            if not isinstance(sys.exc_info()[1], ConnectionError | json.JSONDecodeError):
                super().handle_error(request, client_address)

    with listening(Listener(("127.0.0.1", 0), Handler)) as address:
        server = ModelServer(address, batches or Batches())
        try:
            yield server
        finally:
            stopped.set()


def _turned(value: Any) -> Any:
    return value[::-1] if isinstance(value, list) else value


if __name__ == "__main__":
    with serving(lambda body: "This chunk is about notice.",
                 latency_seconds=int(sys.argv[1]) / 1000) as made:  # fmt: skip
        sys.stdout.write(f"{made.url}\n")
        sys.stdout.flush()
        threading.Event().wait()
