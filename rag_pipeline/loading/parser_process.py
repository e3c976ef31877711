"""Parse documents in separate processes, so that a hostile document harms only its parser.

A process parses one document after the other. A dead process is replaced. A process ends itself if
a document takes too long, even if its parent has died.
"""

import atexit
import base64
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.formats import Parsed
from rag_pipeline.loading.parsers import parse

_MAX_PARSERS = 4
_MEMORY = {".pdf": 500 << 20}
_MAX_MEMORY = 2 << 30
"""Maximum growth of a parser's memory per document, in bytes, for suffixes outside `_MEMORY`."""
_LARGE_BLOCK = 256 << 10
_CHILD = "from rag_pipeline.loading.parser_process import serve; serve()"
_OUT_OF_MEMORY = (-signal.SIGABRT, -signal.SIGTRAP, -signal.SIGILL)
"""Exit codes of processes in which a C library ran out of memory."""
_STATUS = Path("/proc/self/statm")
_started: dict[int, "_Parsers"] = {}
"""Parsers by the id of the process that started them. A fork must not use its parent's parsers."""


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
def _end_idle_parsers() -> None:
    for process in _parsers().idle:
        process.kill()
        process.communicate()


def parsers_here() -> int:
    """Return the default number of parser processes: one per processor, but at most 4."""
    return min(len(os.sched_getaffinity(0)), _MAX_PARSERS)


def stop_parsers() -> None:
    """Kill the busy parsers. Their callers get a DocumentError."""
    parsers = _parsers()
    with parsers.lock:
        for process in parsers.busy:
            process.kill()


def _parsers() -> _Parsers:
    return _started.setdefault(os.getpid(), _Parsers())


def parse_apart(document_id: str, raw: bytes, suffix: str, settings: DocumentsSource) -> Parsed:
    """Call `parsers.parse` in a parser process, for at most `settings.parse_seconds`.

    Raise DocumentError if parsing fails, takes longer or kills the process.
    """
    request = {"id": document_id, "suffix": suffix, "max_bytes": settings.max_bytes}
    parsed = Parsed(**_call(request, raw, settings))
    return parsed._replace(page_map=parsed.page_map and base64.b64decode(parsed.page_map))


def render_apart(document_id: str, raw: bytes, page: int, settings: DocumentsSource) -> bytes:
    """Return page `page` (from 1) of a PDF or image as PNG.

    Raise DocumentError if the page can't be shown, or not within `settings.parse_seconds`.
    """
    reply = _call({"id": document_id, "suffix": ".pdf", "page": page}, raw, settings)
    return base64.b64decode(reply["image"])


def _call(request: dict[str, Any], raw: bytes, settings: DocumentsSource) -> dict[str, Any]:
    document_id, answer = request["id"], b""
    request |= {"seconds": settings.parse_seconds, "bytes": len(raw)}
    parsers = _parsers()
    process = parsers.take()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.write(raw)
        process.stdin.flush()
        answer = process.stdout.readline()
    except BrokenPipeError:
        answer = b""
    except BaseException:  # interrupted: the late answer must not reach another document
        process.kill()
        raise
    finally:
        if not answer.endswith(b"\n"):
            process.communicate()
        parsers.give_back(process)
    if not answer.endswith(b"\n"):
        raise DocumentError(document_id, _cause_of_death(request, process.returncode))
    reply: dict[str, Any] = json.loads(answer)
    if "reason" in reply:
        raise DocumentError(document_id, reply["reason"])
    return reply


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            # OCR briefly needs much memory, so freed large blocks return to the system.
            "MALLOC_MMAP_THRESHOLD_": str(_LARGE_BLOCK),
        },
    )


def _cause_of_death(request: Mapping[str, Any], status: int) -> str:
    suffix, seconds = request["suffix"], request["seconds"]
    if status == -signal.SIGALRM:
        return f"{suffix} takes more than {seconds:g} s to parse; raise documents.parse_seconds"
    if status == -signal.SIGKILL:
        return f"the parser of {suffix} was killed, probably because memory ran out"
    if status in _OUT_OF_MEMORY:
        return f"the parser of {suffix} died (status {status}), probably because memory ran out"
    return f"the parser of {suffix} died (status {status})"


def serve() -> None:
    """Answer requests from standard input on standard output, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    logging.disable(logging.CRITICAL)  # users can do nothing about the libraries' messages
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a parser's own output goes to standard error
    while line := requests.readline():
        request = json.loads(line)
        raw = requests.read(request["bytes"])
        if size := _address_space():
            _limit(size + _MEMORY.get(request["suffix"], _MAX_MEMORY))
        # SIGALRM has no handler, so it ends the process.
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        try:
            reply = _answer(request, raw)
        except DocumentError as error:
            reply = {"reason": error.reason}
        except Exception as error:  # noqa: BLE001 - a hostile file may raise any exception
            reply = {"reason": f"page {request.get('page')} can't be shown: {error}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(json.dumps(reply, default=_as_json).encode() + b"\n")
        answers.flush()


def _answer(request: Mapping[str, Any], raw: bytes) -> dict[str, Any]:
    if "page" in request:
        from rag_pipeline.loading.images import as_pdf
        from rag_pipeline.loading.pdf.render import render_page

        return {"image": render_page(request["id"], as_pdf(request["id"], raw), request["page"])}
    return parse(request["id"], raw, request["suffix"], request["max_bytes"])._asdict()


def _as_json(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else dict(value)


# --- limits of the process ---


def _address_space() -> int:
    """Return the size of the address space in bytes, or 0 if the system reports none."""
    try:
        return int(_STATUS.read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0


def _limit(wanted: int) -> None:
    """Limit the address space to `wanted` bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def more_room(seconds: float, more_bytes: int) -> Iterator[None]:
    """Raise the process's limits of time and memory inside the `with` block, for OCR of a page.

    Add `more_bytes` to the memory limit, and set the time limit to `seconds`. A limit that is not
    set stays unset.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    if soft != resource.RLIM_INFINITY:
        _limit(soft + more_bytes)
    if left:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left)
        if soft != resource.RLIM_INFINITY:
            # The models stay in memory for the next page.
            _limit(max(soft, _address_space() + (256 << 20)))
