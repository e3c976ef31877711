"""Processes of `rag`: their memory, their CPU time and their logs."""

import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RAG = "from rag_pipeline.cli import main; main()"
_PAUSE = 0.02
"""Seconds between two looks at the processes."""


@dataclass
class Watch:
    """The most memory, in MiB, that a process and its children have held at one time."""

    pid: int
    mib: int = 0

    def look(self) -> None:
        """Count once; the kernel's own mark of a process that is alone misses no peak."""
        ids = list(family(self.pid))
        held = sum(kibibytes(pid, "VmRSS") for pid in ids)
        self.mib = max(self.mib, max(held, *(kibibytes(pid, "VmHWM") for pid in ids)) >> 10)


def family(pid: int) -> Iterator[int]:
    """Yield a process and all that it started."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = children.read_text().split()
        except OSError:  # the thread has ended
            continue
        for child in found:
            yield from family(int(child))


def kibibytes(pid: int | str, name: str) -> int:
    """Return a line of the status of a process or of `self`; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int(status.partition(f"{name}:")[2].split(None, 1)[0]) if name in status else 0


@contextmanager
def watched(
    *arguments: str, log: Path, before: str = ""
) -> Iterator[tuple[subprocess.Popen[bytes], Watch]]:
    """Run `rag`; count its memory until the block ends, which then ends the process."""
    command = [sys.executable, "-W", "ignore", "-c", before + RAG, *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    watch, done = Watch(process.pid), threading.Event()

    def count() -> None:
        while not done.wait(_PAUSE):
            watch.look()

    counter = threading.Thread(target=count)
    counter.start()
    try:
        yield process, watch
    finally:
        done.set()
        counter.join()
        process.terminate()
        process.wait()


def run_watched(file: Path, *arguments: str, before: str = "") -> int:
    """Return the peak of `rag run` in MiB; end with its log where it fails."""
    log = file.with_suffix(".log")
    with watched("run", str(file), "--quiet", *arguments, log=log, before=before) as (run, watch):
        if run.wait():
            raise SystemExit(log.read_text())
    return watch.mib


def cpu_of_children() -> float:
    """Return the CPU seconds of the processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
