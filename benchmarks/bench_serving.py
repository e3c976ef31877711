"""Load on `rag serve`: searches and answers a second, latency, memory, and releases that switch.

    python -m benchmarks.bench_serving [--seconds N] [--workers N …] [--chunks N] [--soak MINUTES]
        [--work FOLDER]

The server has processes of its own, one and then two; the clients share the machine with it.
Every question is asked once, so that no cache answers; `repeated` asks the same questions again.
The attacks come from another address: half-sent headers, replies that nobody reads, slow filters.
Beside it stand the bare model as the limit, and LanceDB's hybrid search behind a plain Starlette
application as the peer. With --chunks, generated documents of that many chunks are served, too.
With --work, what an earlier run built there is used again. CPU and memory are those of
the server alone; pages that its processes share count once.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from random import random

import numpy as np

from benchmarks.bench_answers import sample
from benchmarks.bench_datasets import rag
from benchmarks.bench_scale import Scale, run_step
from benchmarks.processes import RAG, family
from benchmarks.serving_peer import copy_table
from benchmarks.shared import heading, row, working
from rag_pipeline import Corpus
from rag_pipeline.loading.queries import read_queries
from rag_pipeline.models.providers.minilm import MiniLMTokens
from rag_pipeline.release import Release, publishing
from rag_pipeline.release.holds import settings_of
from rag_pipeline.release.publishing import serve_imported
from rag_pipeline.search.pinned import pin
from rag_pipeline_tests.testing.servers import free_port

_BUILD = "generate documents chunks contexts lexical vectors vector_maintenance".split()
_SWITCHES = 5
_ATTACKER = "127.0.0.2"
"""Another loopback address: limits are per address."""


def released_twice(work: Path) -> Path:
    """Build the sample corpus; release its baseline, and then its default."""
    file, _ = sample(work)
    file.write_text(file.read_text().replace("serve: best", "serve: baseline"))
    corpus = Corpus.load(file)
    if len(corpus.releases()) < 2:
        rag("run", str(file), "--quiet")
        default = corpus.config.model_copy(update={"serve": "default"})
        publishing.publish(Corpus(default).workspace)
    return file


def released_generated(work: Path, chunks: int) -> Path:
    """Build a generated corpus with random vectors, and release it without an evaluation."""
    scale = Scale(work / f"generated_{chunks}", chunks)
    if not Corpus(scale.config).releases():
        for name in _BUILD:
            run_step(scale, name)
        settings, pinned = (
            settings_of(scale.workspace, scale.chosen),
            pin(scale.workspace, scale.chosen),
        )
        made = Release("new", "", scale.chosen.name, settings, "", pinned, {}, (), None, {}, {})
        serve_imported(scale.workspace, made, None)
    return scale.file


@contextmanager
def server(port: int, log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `rag` or, as `-m`, another module; yield it when it answers."""
    given = command if command[0] == "-m" else ("-c", RAG, *command)
    with log.open("wb") as out:
        made = subprocess.Popen([sys.executable, "-W", "ignore", *given], stdout=out, stderr=out)
    try:
        await_answer(made, port)
        yield made
    finally:
        made.terminate()
        made.wait()


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
    """Return the processor time of a process and of those that it started."""
    ticks = 0
    for one in family(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def mebibytes(pid: int) -> int:
    """Return the memory of the same processes. Each has its share of a common page."""
    held = 0
    for one in family(pid):
        lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        held += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return held >> 10


class Load:
    """Some clients, each with one connection, and what they saw."""

    # A smaller number would name a generated document, and a name is not embedded.
    _numbers = count(10_000)

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
        row(what, clients, *shown, refused, failed, mebibytes(pid))
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
        publishing.serve(corpus.workspace, ids[number % 2])


def half_headers(port: int, until: float) -> None:
    """Keep 600 connections open, each with half of a request's headers."""
    crowd: list[socket.socket] = []
    while time.monotonic() < until:
        with suppress(OSError):
            made = socket.create_connection(("127.0.0.1", port), 5, (_ATTACKER, 0))
            made.sendall(b"POST /v1/search HTTP/1.1\r\nHost: local")
            crowd.append(made)
        if len(crowd) > 600:
            crowd.pop(0).close()
        time.sleep(0.002)
    for one in crowd:
        one.close()


def unread_replies(port: int, until: float) -> None:
    """Ask for passages by 70 connections, and read no reply."""
    body = json.dumps({"query": "Which law governs?", "k": 100})
    head = f"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    crowd: list[socket.socket] = []
    while time.monotonic() < until:
        with suppress(OSError):
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            made.bind((_ATTACKER, 0))
            made.settimeout(5)
            made.connect(("127.0.0.1", port))
            made.sendall(f"{head}{body}".encode())
            crowd.append(made)
        if len(crowd) > 70:
            crowd.pop(0).close()
        time.sleep(0.02)
    for one in crowd:
        one.close()


def slow_filters(port: int, until: float) -> None:
    """Search with the slowest filters that are allowed, by 16 connections at once."""
    one = "lower(json_get_string(metadata, 'none')) LIKE '%a%b%c%d%e%f%'"
    where = " OR ".join([one] * (2000 // (len(one) + 4)))

    def ask() -> None:
        at = http.client.HTTPConnection("127.0.0.1", port, 120, source_address=(_ATTACKER, 0))
        for number in count():
            if time.monotonic() > until:
                return
            body = json.dumps({"query": f"Which law {number}?", "where": where})
            with suppress(OSError, http.client.HTTPException):
                at.request("POST", "/v1/search", body)
                if at.getresponse().read() and number == 0:
                    time.sleep(0.01)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(
    file: Path, work: Path, questions: list[str], workers: list[int], seconds: float, soak: float
) -> None:
    corpus = Corpus.load(file)
    corpus.search(questions[0])
    opened = corpus._served
    assert opened is not None
    rows = len(opened.searcher.index)
    print(f"\n{corpus.name}: {rows:,} chunks, {seconds:g} s each\n")
    heading("what", "clients", "a second", "p50 ms", "p95 ms", "CPU ms", "429", "failed", "MiB")
    limit = model_rate(questions, seconds / 2)
    log, best = work / "server.log", 0.0
    for number in workers:
        port = free_port()
        how = "--port", str(port), "--workers", str(number)
        with server(port, log, "serve", str(file), *how) as process:
            print(f"workers: {number}")
            best = max(best, loaded(corpus, port, process.pid, questions, seconds))
            if number == workers[-1]:
                for attack in (half_headers, unread_replies, slow_filters):
                    attacked(attack, port, process.pid, questions, seconds)
                for minute in range(round(soak)):
                    load = Load(port, "/v1/search", questions)
                    load.run(16, 60, process.pid, f"search, minute {minute + 1}")
    tables = work / f"peer_{corpus.name}"
    copy_table(opened.searcher.index.table, str(tables))
    port = free_port()
    command = "-m", "benchmarks.serving_peer", str(tables), str(port)
    with server(port, work / "peer.log", *command) as process:
        load = Load(port, "/v1/search", questions)
        peer = load.run(16, seconds, process.pid, "LanceDB hybrid, Starlette")
    print(f"\nsearch / bare model {best / limit:.2f}, search / peer {best / peer:.2f}")


def loaded(corpus: Corpus, port: int, pid: int, questions: list[str], seconds: float) -> float:
    """Measure searches, asks and switches. Return the searches a second of 16 clients."""
    rates = {}
    for what in ("search", "ask"):
        for clients in (1, 16, 200):
            load = Load(port, f"/v1/{what}", questions)
            rates[what, clients] = load.run(clients, seconds, pid, what)
        Load(port, f"/v1/{what}", questions, True).run(16, seconds, pid, f"{what}, repeated")
    if len(corpus.releases()) > 1:
        load = Load(port, "/v1/search", questions)
        switching = threading.Thread(target=switched, args=(corpus, seconds))
        switching.start()
        load.run(16, seconds, pid, f"search, {_SWITCHES} releases switch")
        switching.join()
        print(f"longest time without any answer: {load.longest_pause:.0f} ms")
    return rates["search", 16]


def attacked(
    attack: Callable[[int, float], None],
    port: int,
    pid: int,
    questions: list[str],
    seconds: float,
) -> None:
    """Measure 4 good clients during an attack."""
    attacking = threading.Thread(target=attack, args=(port, time.monotonic() + seconds + 2))
    attacking.start()
    time.sleep(1)
    what = f"search, {attack.__name__.replace('_', ' ')}"
    Load(port, "/v1/search", questions).run(4, seconds, pid, what)
    attacking.join()


def main() -> None:
    with working(__doc__, seconds=10.0, workers=[1, 2], chunks=0, soak=0.0) as arguments:
        work = arguments.work
        timed = arguments.workers, arguments.seconds, arguments.soak
        file = released_twice(work)
        path = Corpus.load(file).config.queries_path
        assert path is not None
        questions = [q.query for q in read_queries(path)]
        measure(file, work, questions, *timed)
        if arguments.chunks:
            measure(released_generated(work, arguments.chunks), work, questions, *timed)
        print(f"load average at the end {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
