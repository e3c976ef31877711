"""Load on `rag serve`: searches and answers a second, latency, memory, and releases that switch.

    python -m benchmarks.bench_serving [--seconds N] [--chunks N] [--soak MINUTES] [--work FOLDER]

The server is a process of its own, set up as by default; the clients share the machine with it.
Every question is asked once, so that no cache answers; `repeated` asks the same questions again.
Beside it stand the bare model as the limit, and LanceDB's hybrid search behind a plain Starlette
application as the peer. With --chunks, generated documents of that many chunks are served, too.
With --work, what an earlier run built there is used again. CPU is that of the server alone.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from random import random

import numpy as np

from benchmarks.bench_answers import sample
from benchmarks.bench_datasets import rag
from benchmarks.bench_scale import Scale, run_step
from benchmarks.processes import kibibytes, watched
from benchmarks.serving_peer import copy_table
from benchmarks.shared import heading, row, working
from rag_pipeline import Corpus, release
from rag_pipeline.loading.queries import read_queries
from rag_pipeline.models.providers.minilm import MiniLMTokens
from rag_pipeline_tests.testing.servers import free_port

_BUILD = "generate documents chunks contexts lexical vectors vector_maintenance".split()
_SWITCHES = 5


def released_twice(work: Path) -> Path:
    """Build the sample corpus; release its baseline, and then its default."""
    file, _ = sample(work)
    file.write_text(file.read_text().replace("serve: best", "serve: baseline"))
    corpus = Corpus.load(file)
    if len(corpus.releases()) < 2:
        rag("run", str(file), "--quiet")
        default = corpus.config.model_copy(update={"serve": "default"})
        release.publish(Corpus(default).workspace)
    return file


def released_generated(work: Path, chunks: int) -> Path:
    """Build a generated corpus with random vectors, and release it."""
    scale = Scale(work / f"generated_{chunks}", chunks)
    if not Corpus(scale.config).releases():
        for name in _BUILD:
            run_step(scale, name)
        release.publish(scale.workspace)
    return scale.file


@contextmanager
def server(port: int, log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `rag` or, as `-m`, another module; yield it when it answers."""
    if command[0] == "-m":
        process = subprocess.Popen([sys.executable, "-W", "ignore", *command])
        try:
            await_answer(process, port)
            yield process
        finally:
            process.terminate()
            process.wait()
        return
    with watched(*command, log=log) as (process, _):
        await_answer(process, port)
        yield process


def await_answer(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a server answers."""
    while process.poll() is None:
        with suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/live")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.2)
    raise SystemExit("the server has ended; see its log")


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """Some clients, each with one connection, and what they saw."""

    _numbers = count()

    def __init__(self, port: int, path: str, questions: list[str], repeats: bool = False) -> None:
        self._port, self._path, self._questions, self._repeats = port, path, questions, repeats
        self.answered: list[tuple[float, float]] = []
        """The end and the duration of each answer, in seconds."""
        self.statuses: Counter[str] = Counter()

    def client(self, until: float) -> None:
        """Ask one question after the other, until a time."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        while time.monotonic() < until:
            number = next(self._numbers)
            query = self._questions[number % len(self._questions)]
            body = json.dumps({"query": query if self._repeats else f"{query} (case {number})"})
            started = time.monotonic()
            try:
                connection.request("POST", self._path, body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                text, status = reply.read(), str(reply.status)
            except (OSError, http.client.HTTPException) as error:
                self.statuses[type(error).__name__] += 1
                connection.close()
                continue
            if status == "200" and b'"text"' not in text:
                status = "empty"
            self.statuses[status] += 1
            if status == "200":
                self.answered.append((time.monotonic(), time.monotonic() - started))
            elif status == "429":
                time.sleep(float(reply.headers["Retry-After"]) * random())

    def run(self, clients: int, seconds: float, pid: int, what: str) -> float:
        """Run some clients at once; print and return the answers a second."""
        busy, began = cpu_seconds(pid), time.monotonic()
        until = began + seconds
        threads = [threading.Thread(target=self.client, args=(until,)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = len(self.answered) / (time.monotonic() - began)
        p50, p95 = np.percentile([1000 * s for _, s in self.answered] or [np.nan], [50, 95])
        cpu = 1000 * (cpu_seconds(pid) - busy) / max(len(self.answered), 1)
        others = {s: n for s, n in self.statuses.items() if s not in ("200", "429")}
        refused, failed = self.statuses["429"], others or 0
        shown = f"{rate:.1f}", f"{p50:.0f}", f"{p95:.0f}", f"{cpu:.1f}"
        row(what, clients, *shown, refused, failed, kibibytes(pid, "VmRSS") >> 10)
        return rate

    @property
    def longest_pause(self) -> float:
        """Return the longest time in ms in which no client got an answer."""
        ends = np.sort([end for end, _ in self.answered])
        return float(1000 * np.diff(ends).max(initial=0.0))


def model_rate(questions: list[str], seconds: float) -> float:
    """Print and return the queries a second that the bare model embeds."""
    model, number = MiniLMTokens(), 0
    model.embed_unseen(questions[:1], "query")
    busy, began = time.process_time(), time.monotonic()
    while time.monotonic() < began + seconds:
        query = f"{questions[number % len(questions)]} (case {number})"
        model.embed_unseen([query], "query")
        number += 1
    rate = number / (time.monotonic() - began)
    cpu = 1000 * (time.process_time() - busy) / number
    row("bare model", 1, f"{rate:.1f}", "", "", f"{cpu:.1f}", 0, 0, "")
    return rate


def switched(corpus: Corpus, seconds: float) -> None:
    """Serve two releases in turn, at equal distances."""
    ids = [r.release_id for r in corpus.releases()[:2]]
    for number in range(_SWITCHES):
        time.sleep(seconds / (_SWITCHES + 1))
        release.serve(corpus.workspace, ids[number % 2])


def measure(file: Path, work: Path, questions: list[str], seconds: float, soak: float) -> None:
    corpus = Corpus.load(file)
    corpus.search(questions[0])
    opened = corpus._served
    assert opened is not None
    rows = len(opened.searcher.index)
    print(f"\n{corpus.name}: {rows:,} chunks, {seconds:g} s each\n")
    heading("what", "clients", "a second", "p50 ms", "p95 ms", "CPU ms", "429", "failed", "MiB")
    limit = model_rate(questions, seconds / 2)
    port, log = free_port(), work / "server.log"
    with server(port, log, "serve", str(file), "--port", str(port)) as process:
        pid, best = process.pid, 0.0
        for clients in (1, 16, 200):
            rate = Load(port, "/v1/search", questions).run(clients, seconds, pid, "search")
            best = rate if clients == 16 else best
        Load(port, "/v1/search", questions, True).run(16, seconds, pid, "search, repeated")
        for clients in (1, 16, 200):
            Load(port, "/v1/ask", questions).run(clients, seconds, pid, "ask")
        if len(corpus.releases()) > 1:
            load = Load(port, "/v1/search", questions)
            switching = threading.Thread(target=switched, args=(corpus, seconds))
            switching.start()
            load.run(16, seconds, pid, f"search, {_SWITCHES} releases switch")
            switching.join()
            print(f"\nlongest time without any answer: {load.longest_pause:.0f} ms\n")
        for minute in range(round(soak)):
            Load(port, "/v1/search", questions).run(16, 60, pid, f"search, minute {minute + 1}")
    tables = work / f"peer_{corpus.name}"
    copy_table(opened.searcher.index.table, str(tables))
    port = free_port()
    with server(port, log, "-m", "benchmarks.serving_peer", str(tables), str(port)) as process:
        load = Load(port, "/v1/search", questions)
        peer = load.run(16, seconds, process.pid, "LanceDB hybrid, Starlette")
    print(f"\nsearch / bare model {best / limit:.2f}, search / peer {best / peer:.2f}")


def main() -> None:
    with working(__doc__, seconds=10.0, chunks=0, soak=0.0) as arguments:
        work, timed = arguments.work, (arguments.seconds, arguments.soak)
        file = released_twice(work)
        questions = [q.query for q in read_queries(Corpus.load(file).config.queries_path)]
        measure(file, work, questions, *timed)
        if arguments.chunks:
            measure(released_generated(work, arguments.chunks), work, questions, *timed)
        print(f"load average at the end {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
