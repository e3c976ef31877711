"""OpenAI's Files and Batch APIs, for the model server of tests."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rag_pipeline_tests.testing.model_faults import CUT, EXPIRED, Fault
from rag_pipeline_tests.testing.model_replies import Body

Line = Callable[[Body], Body | bytes | Fault]
"""From the request of a batch's line to what stands in the results: bytes as they are."""


@dataclass
class Batches:
    """Files and batches; a batch ends when it has been looked at `looks` times."""

    looks: int = 2
    final_status: str = "completed"
    files: dict[str, bytes] = field(default_factory=dict)
    made: dict[str, Body] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    @property
    def submitted(self) -> list[Body]:
        """Return every line of every batch that was created."""
        names = [batch["input_file_id"] for batch in self.made.values()]
        return [json.loads(line) for name in names for line in self.files[name].splitlines()]

    def reply(
        self, method: str, path: str, given: Body | bytes, kind: str, line: Line
    ) -> tuple[int, Any]:
        """Return the status and the reply to a request of either API."""
        place, _, name = path.partition("/")
        if method == "POST" and isinstance(given, bytes):
            return 200, self._upload(given, kind)
        if method == "POST" and path == "batches" and isinstance(given, dict):
            return 200, self._create(given)
        if path == "batches":
            newest = sorted(self.made.values(), key=lambda batch: -batch["created_at"])
            return 200, {"object": "list", "data": newest, "has_more": False}
        if place == "batches" and name in self.made:
            return 200, self._look(name, line)
        if place == "files" and (content := self.files.get(name.removesuffix("/content"))):
            return 200, content
        return 404, {"error": {"message": "gone"}}

    def _upload(self, content: bytes, kind: str) -> Body:
        boundary = kind.split("boundary=")[1].encode()
        (part,) = (p for p in content.split(b"--" + boundary) if b'name="file"' in p)
        name = f"file-{len(self.files)}"
        self.files[name] = part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
        return {"id": name, "object": "file", "purpose": "batch", "filename": "x"}

    def _create(self, body: Body) -> Body:
        number = len(self.made) + 1
        batch = {"id": f"batch_{number}", "object": "batch", "created_at": number}
        batch |= {"status": "validating", "errors": None, **body}
        self.made[f"batch_{number}"] = batch
        return batch

    def _look(self, batch_id: str, line: Line) -> Body:
        batch = self.made[batch_id]
        self.seen[batch_id] = self.seen.get(batch_id, 0) + 1
        if self.seen[batch_id] < self.looks:
            batch["status"] = "in_progress"
        elif batch["status"] != self.final_status:
            batch["status"] = self.final_status
            if self.final_status == "failed":
                batch["errors"] = {"object": "list", "data": [{"message": "too many tokens"}]}
            else:
                self._end(batch, line)
        return batch

    def _end(self, batch: Body, line: Line) -> None:
        found: dict[str, list[bytes]] = {"output_file_id": [], "error_file_id": []}
        for asked in self.files[batch["input_file_id"]].splitlines():
            request = json.loads(asked)
            made = line(request["body"])
            if made is CUT:
                continue
            fine = not isinstance(made, Fault)
            # In another order than asked: answers are known by their custom_id.
            found["output_file_id" if fine else "error_file_id"].insert(
                0, _line(request["custom_id"], made)
            )
        completed, failed = map(len, found.values())
        counts = {"completed": completed, "failed": failed, "total": completed + failed}
        batch["request_counts"] = counts
        for name, lines in found.items():
            if lines:
                self.files[f"{name}-{batch['id']}"] = b"\n".join(lines)
                batch[name] = f"{name}-{batch['id']}"


def _line(custom_id: str, made: Body | bytes | Fault) -> bytes:
    if isinstance(made, bytes):
        return made
    beside: Body = {"response": {"status_code": 200, "body": made}, "error": None}
    if made is EXPIRED:
        error = {"code": "batch_expired", "message": "expired"}
        beside = {"response": None, "error": error}
    elif isinstance(made, Fault):
        beside["response"] = {"status_code": made.status, "body": made.content}
    return json.dumps({"custom_id": custom_id, **beside}).encode()
