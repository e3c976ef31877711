"""A server on loopback that speaks OpenAI's Files and Batch APIs."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rag_pipeline_tests.testing.listening import listening
from rag_pipeline_tests.testing.openai_server import completed


@dataclass
class BatchServer:
    """Files and batches; a batch ends when it has been looked at `looks` times."""

    answer: Callable[[dict[str, Any]], dict[str, Any]]
    """From a line's body to what stands beside its custom_id: a response or an error."""
    looks: int = 2
    final_status: str = "completed"
    create_fault: str = ""
    """`cut`: the batch is created and the connection cut before the answer."""
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    creates: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    @property
    def submitted(self) -> list[dict[str, Any]]:
        """Return every line of every batch that was created."""
        names = [batch["input_file_id"] for batch in self.batches.values()]
        return [json.loads(line) for name in names for line in self.files[name].splitlines()]

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        self.creates += 1
        batch_id = f"batch_{len(self.batches) + 1}"
        self.batches[batch_id] = {
            "id": batch_id,
            "object": "batch",
            "created_at": len(self.batches) + 1,
            "status": "validating",
            "errors": None,
            **body,
        }
        return self.batches[batch_id]

    def look(self, batch_id: str) -> dict[str, Any] | None:
        batch = self.batches.get(batch_id)
        if batch is None:
            return None
        self.seen[batch_id] = self.seen.get(batch_id, 0) + 1
        if self.seen[batch_id] < self.looks:
            batch["status"] = "in_progress"
        elif batch["status"] != self.final_status:
            batch["status"] = self.final_status
            if self.final_status == "failed":
                batch["errors"] = {"object": "list", "data": [{"message": "too many tokens"}]}
            else:
                self._end(batch)
        return batch

    def _end(self, batch: dict[str, Any]) -> None:
        good: list[str] = []
        bad: list[str] = []
        for line in self.files[batch["input_file_id"]].splitlines():
            request = json.loads(line)
            made = {"custom_id": request["custom_id"], **self.answer(request["body"])}
            fine = (made.get("response") or {}).get("status_code") == 200
            # In another order than asked: answers are known by their custom_id.
            (good if fine else bad).insert(0, json.dumps(made))
        for name, lines in (("output_file_id", good), ("error_file_id", bad)):
            if lines:
                self.files[f"{name}-{batch['id']}"] = "\n".join(lines).encode()
                batch[name] = f"{name}-{batch['id']}"


def answered(text: str, body: dict[str, Any], cached: int = 0) -> dict[str, Any]:
    """Return a line's answer with usage: a token a word."""
    completion = completed(text, body, "chatcmpl", cached)
    return {"response": {"status_code": 200, "body": completion}, "error": None}


def refused(status: int, message: str) -> dict[str, Any]:
    body = {"error": {"message": message}}
    return {"response": {"status_code": status, "body": body}, "error": None}


@contextmanager
def serving_batches(server: BatchServer) -> Iterator[BatchServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/files":
                boundary = self.headers["Content-Type"].split("boundary=")[1].encode()
                parts = content.split(b"--" + boundary)
                (part,) = (p for p in parts if b'name="file"' in p)
                name = f"file-{len(server.files)}"
                server.files[name] = part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
                self._send({"id": name, "object": "file", "purpose": "batch", "filename": "x"})
            elif self.path == "/v1/batches":
                made = server.create(json.loads(content))
                if server.create_fault == "cut":
                    self.close_connection = True
                    return
                self._send(made)
            elif self.path == "/v1/chat/completions":
                body = json.loads(content)
                self._send(server.answer(body)["response"]["body"])
            else:
                self._send({"error": {"message": "no such path"}}, 404)

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path == "/v1/batches":
                newest = sorted(server.batches.values(), key=lambda b: -b["created_at"])
                self._send({"object": "list", "data": newest, "has_more": False})
            elif found := re.fullmatch(r"/v1/batches/(\w+)", path):
                batch = server.look(found[1])
                self._send(batch or {"error": {"message": "gone"}}, 200 if batch else 404)
            elif found := re.fullmatch(r"/v1/files/([\w-]+)/content", path):
                self._send_bytes(server.files[found[1]])

        def _send(self, value: Any, status: int = 200) -> None:
            self._send_bytes(json.dumps(value).encode(), status)

        def _send_bytes(self, content: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    with listening(http) as server.url:
        yield server
