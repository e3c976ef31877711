"""Parsing in processes of its own, which a hostile document may hang, or blow up, alone.

A process is started where none is idle, reused, and replaced when it has died. It parses one
document at a time and ends itself when one takes too long: the clock is its own, so that no hang,
and no death of the process that started it, leaves it behind.
"""

import atexit
import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.formats import Parsed
from rag_pipeline.loading.limits import limit_memory
from rag_pipeline.loading.parsers import parse

_MAX_PARSERS = 4
_MEMORY = {".pdf": 500 << 20}
_MAX_MEMORY = 2 << 30
"""Maximum growth in bytes of the parser's process with one document; `_MEMORY` by suffix."""
_LARGE_BLOCK = 256 << 10
_CHILD = "from rag_pipeline.loading.parser_process import serve; serve()"
_OUT_OF_MEMORY = (-signal.SIGABRT, -signal.SIGTRAP, -signal.SIGILL)
"""Exit codes of C libraries that run out of memory."""
_started: dict[int, "_Parsers"] = {}
"""This process's parsers by this process's id: a fork must not share its parent's."""


@dataclass(slots=True)
class _Parsers:
    idle: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    busy: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> "subprocess.Popen[bytes]":
        with self.lock:
            while self.idle:
                process = self.idle.pop()
                if process.poll() is None:
                    break
                process.communicate()
            else:
                process = _start()
            self.busy.append(process)
            return process

    def give_back(self, process: "subprocess.Popen[bytes]") -> None:
        with self.lock:
            self.busy.remove(process)
            if process.poll() is None:
                self.idle.append(process)


@atexit.register
def _end_idle() -> None:
    """End the idle parsers at the end of this process; those at a document end themselves."""
    for process in _parsers().idle:
        process.kill()
        process.communicate()


def parsers_here() -> int:
    """Return how many files this machine parses at once unless it is told otherwise."""
    return min(len(os.sched_getaffinity(0)), _MAX_PARSERS)


def stop_parsers() -> None:
    """End the parsers that are at a document, whose callers get a DocumentError."""
    parsers = _parsers()
    with parsers.lock:
        for process in parsers.busy:
            process.kill()


def _parsers() -> _Parsers:
    return _started.setdefault(os.getpid(), _Parsers())


def parse_apart(document_id: str, raw: bytes, suffix: str, settings: DocumentsSource) -> Parsed:
    """Parse one file as `parsers.parse` does, within `settings.parse_seconds`.

    Raises DocumentError also for a document that takes longer, and for one that the parser's
    process does not survive.
    """
    asked = {"id": document_id, "suffix": suffix, "max_bytes": settings.max_bytes}
    said = Parsed(**_asked(asked, raw, settings))
    packed = said.page_map
    return said._replace(page_map=None if packed is None else base64.b64decode(packed))


def render_apart(document_id: str, raw: bytes, page: int, settings: DocumentsSource) -> bytes:
    """Return a page of a PDF as PNG, within `settings.parse_seconds`; page 1 is the first.

    Raises DocumentError for what can't be shown.
    """
    said = _asked({"id": document_id, "suffix": ".pdf", "page": page}, raw, settings)
    return base64.b64decode(said["image"])


def _asked(asked: dict[str, Any], raw: bytes, settings: DocumentsSource) -> dict[str, Any]:
    document_id, answer = asked["id"], b""
    asked |= {"seconds": settings.parse_seconds, "bytes": len(raw)}
    parsers = _parsers()
    process = parsers.take()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.write(raw)
        process.stdin.flush()
        answer = process.stdout.readline()
    except BrokenPipeError:
        answer = b""
    except BaseException:  # interrupted: what it would still answer is of no later document
        process.kill()
        raise
    finally:
        if not answer.endswith(b"\n"):
            process.communicate()
        parsers.give_back(process)
    if not answer.endswith(b"\n"):
        raise DocumentError(document_id, _last_words(asked, process.returncode))
    said: dict[str, Any] = json.loads(answer)
    if "reason" in said:
        raise DocumentError(document_id, said["reason"])
    return said


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            # Large blocks go back to the system when they are freed, or what recognition takes
            # for a moment stays taken.
            "MALLOC_MMAP_THRESHOLD_": str(_LARGE_BLOCK),
        },
    )


def _last_words(asked: Mapping[str, Any], status: int) -> str:
    suffix = asked["suffix"]
    if status == -signal.SIGALRM:
        return f"{suffix} takes longer to parse than documents.parse_seconds, {asked['seconds']:g}"
    if status == -signal.SIGKILL:
        return f"the parser of {suffix} was killed: out of memory?"
    if status in _OUT_OF_MEMORY:
        return f"the parser of {suffix} died (status {status}): it may need too much memory"
    return f"the parser of {suffix} died (status {status})"


def serve() -> None:
    """Parse what comes on the standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever waits for the answer
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a parser prints is no answer
    while line := questions.readline():
        asked = json.loads(line)
        raw = questions.read(asked["bytes"])
        limit_memory(_MEMORY.get(asked["suffix"], _MAX_MEMORY))
        # Not handled, SIGALRM ends the process, whatever it is at.
        signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
        try:
            said = _answer(asked, raw)
        except DocumentError as error:
            said = {"reason": error.reason}
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(json.dumps(said).encode() + b"\n")
        answers.flush()


def _answer(asked: Mapping[str, Any], raw: bytes) -> dict[str, Any]:
    if "page" in asked:
        return {"image": base64.b64encode(_rendered(asked["id"], raw, asked["page"])).decode()}
    return _as_json(parse(asked["id"], raw, asked["suffix"], asked["max_bytes"]))


def _rendered(document_id: str, raw: bytes, page: int) -> bytes:
    from rag_pipeline.loading.pdf.render import render_page

    try:
        return render_page(document_id, raw, page)
    except DocumentError:
        raise
    except Exception as error:  # noqa: BLE001 (a hostile file raises anything)
        raise DocumentError(document_id, f"page {page} can't be shown: {error}") from None


def _as_json(parsed: Parsed) -> dict[str, Any]:
    packed = parsed.page_map
    page_map = None if packed is None else base64.b64encode(packed).decode()
    return {**parsed._asdict(), "page_map": page_map, "metadata": dict(parsed.metadata)}
