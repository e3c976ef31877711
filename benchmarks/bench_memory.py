"""Peak memory of `rag run` on LegalBench-RAG, on ten times its documents, and of `rag serve`.

    python -m benchmarks.bench_memory [--times N] [--anew] [--data FOLDER] [--work FOLDER]

Each command is a process of its own. What counts is the most that it and all its children hold
resident at one time, by the kernel: files that they map and pages that they share are counted, the
latter once for each. Every index is built from nothing, the questions are the set's. The documents
beyond its own are copies under other names, each with a last line of its own, so that most texts
are embedded once; with --anew it is the first line, and hardly any text is the same.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from benchmarks.bench_datasets import SETS, prepared
from benchmarks.bench_serving import Load, answers
from rag_pipeline.config import load_config
from rag_pipeline.loading.queries import read_queries
from rag_pipeline_tests.testing.servers import free_port

SET = "legalbench-rag"
RUN_MIB, SERVER_MIB, GROWTH = 900, 600, 1.3
_RAG = "from rag_pipeline.cli import main; main()"
_PAUSE = 0.02
"""Seconds between two looks at the processes."""


class Watch:
    """The most memory that a process and its children have held at one time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._most = 0

    @property
    def mib(self) -> int:
        return self._most >> 10

    def look(self) -> None:
        """Count once; the kernel's own mark of a process that is alone misses no peak."""
        ids = list(family(self._pid))
        held = sum(kibibytes(pid, "VmRSS") for pid in ids)
        self._most = max(self._most, held, *(kibibytes(pid, "VmHWM") for pid in ids))


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


def kibibytes(pid: int, name: str) -> int:
    """Return a line of a process's status; 0 when it has ended."""
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
    command = [sys.executable, "-W", "ignore", "-c", before + _RAG, *arguments]
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


def run(file: Path, *arguments: str) -> int:
    """Return the peak of `rag run` in MiB."""
    log = file.with_suffix(".log")
    with watched("run", str(file), "--quiet", *arguments, log=log) as (process, watch):
        if process.wait():
            raise SystemExit(log.read_text())
    return watch.mib


def serve(file: Path, questions: list[str], seconds: float, clients: int) -> int:
    """Return the peak of `rag serve` in MiB while clients ask it."""
    port, log = free_port(), file.with_suffix(".serve.log")
    with watched("serve", str(file), "--port", str(port), log=log) as (process, watch):
        until = monotonic() + 120
        while not answers(port):
            if process.poll() is not None or monotonic() > until:
                raise SystemExit(log.read_text())
            sleep(0.2)
        load = Load(port, questions)
        load.run(clients, seconds)
    if load.failures or not load.seconds:
        raise SystemExit(f"{len(load.seconds)} requests, failed: {dict(load.failures)}")
    return watch.mib


def multiplied(documents: Path, times: int, anew: bool) -> None:
    """Add copies of documents under other names, each with a last or first line of its own."""
    for file in sorted(documents.rglob("*.txt")):
        text = file.read_text()
        for number in range(1, times):
            copy = file.with_name(f"{file.stem}-{number}{file.suffix}")
            line = f"Copy {number} of {file.stem}"
            copy.write_text(f"{line}\n\n{text}" if anew else f"{text}\n\n{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=os.environ.get("RAG_PIPELINE_DATA", here))
    parser.add_argument("--work", type=Path, help="build here and keep it")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--anew", action="store_true", help="let copies share no texts")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=8)
    arguments = parser.parse_args()
    data = arguments.data / SETS[SET][0]
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        small = prepared(SET, data, work / "small")
        once = run(small)
        print(f"rag run: {once} MiB (must be at most {RUN_MIB})", flush=True)
        again = run(small)
        print(f"rag run, nothing changed: {again} MiB", flush=True)
        questions = [q.query for q in read_queries(load_config(small).queries_path)]
        served = serve(small, questions, arguments.seconds, arguments.clients)
        print(f"rag serve: {served} MiB (must be at most {SERVER_MIB})", flush=True)
        faults = [once > RUN_MIB, served > SERVER_MIB]
        if arguments.times > 1:
            large = prepared(SET, data, work / "large")
            multiplied(large.parent / "documents", arguments.times, arguments.anew)
            many = run(large)
            print(f"rag run, {arguments.times} times the documents: {many} MiB, ", end="")
            print(f"{many / once:.2f} times as much (must be at most {GROWTH})")
            faults.append(many > GROWTH * once)
    sys.exit(any(faults))


if __name__ == "__main__":
    main()
