"""Load on `rag serve`: 50 clients at once on the sample corpus, a release switching meanwhile.

    python -m benchmarks.bench_serving [--seconds N] [--clients N] [--work FOLDER]

The server is a process of its own, set up as by default; the clients share the machine with it.
Four of five requests ask the assistant, the fifth is the MCP tool `search_chunks`. With --work, the
corpus that an earlier run built there is used again.
"""

import http.client
import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_answers import sample
from benchmarks.bench_datasets import rag
from benchmarks.processes import Watch, kibibytes, watched
from benchmarks.shared import working
from rag_pipeline import Corpus, release
from rag_pipeline.loading.queries import read_queries
from rag_pipeline_tests.testing.servers import free_port

_MCP = {"Accept": "application/json, text/event-stream"}


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


@contextmanager
def server(file: Path, port: int, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], Watch]]:
    """Run `rag serve`; yield it when it answers, with the count of its memory."""
    with watched("serve", str(file), "--port", str(port), log=log) as (process, watch):
        until = time.monotonic() + 120
        while not answers(port):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(log.read_text())
            time.sleep(0.2)
        yield process, watch


def answers(port: int) -> bool:
    """Tell whether the server answers."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


class Load:
    """What some clients saw."""

    def __init__(self, port: int, questions: list[str]) -> None:
        self._port = port
        self._questions = questions
        self._number = count()
        self.seconds: list[float] = []
        self.failures: Counter[str] = Counter()

    def client(self, until: float) -> None:
        """Ask one question after the other by one connection, until a time."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        while time.monotonic() < until:
            started = time.perf_counter()
            try:
                failure = self._ask(connection, next(self._number))
            except (OSError, http.client.HTTPException) as error:
                failure = type(error).__name__
                connection.close()
            self.seconds.append(time.perf_counter() - started)
            if failure:
                self.failures[failure] += 1

    def _ask(self, connection: http.client.HTTPConnection, number: int) -> str:
        """Send a request; return what was wrong with its answer."""
        question = self._questions[number % len(self._questions)]
        headers = {"Content-Type": "application/json"}
        body: dict[str, Any]
        if number % 5:
            path, body = "/api/ask", {"question": question}
        else:
            path, headers = "/mcp", {**headers, **_MCP}
            call = {"name": "search_chunks", "arguments": {"query": question}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        connection.request("POST", path, json.dumps(body), headers)
        reply = connection.getresponse()
        text = reply.read()
        if reply.status != 200:
            return f"{reply.status} {text[:80]!r}"
        well = b'"answered"' in text if number % 5 else b'"isError":false' in text
        return "" if well else f"an answer without content: {text[:80]!r}"

    def run(self, clients: int, seconds: float) -> None:
        """Run some clients at once."""
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.client, args=(until,)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main() -> None:
    with working(__doc__, seconds=60.0, clients=50) as arguments:
        file = released_twice(arguments.work)
        corpus = Corpus.load(file)
        second, first = (r.release_id for r in corpus.releases()[:2])
        release.serve(corpus.workspace, first)
        questions = [q.query for q in read_queries(corpus.config.queries_path)]
        port = free_port()
        with server(file, port, arguments.work / "server.log") as (process, _):
            warm = Load(port, questions)
            warm.run(arguments.clients, arguments.seconds / 4)
            before = kibibytes(process.pid, "VmRSS") / 1024
            load = Load(port, questions)
            switch = threading.Timer(
                arguments.seconds / 2, release.serve, (corpus.workspace, second)
            )
            switch.start()
            started = time.monotonic()
            load.run(arguments.clients, arguments.seconds)
            took = time.monotonic() - started
            switch.join()
            after = kibibytes(process.pid, "VmRSS") / 1024
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/api/datasets")
            served = json.loads(connection.getresponse().read())["datasets"][0]["release"]
    p50, p95, p99 = np.percentile(load.seconds, [50, 95, 99])
    print(f"load average at the end {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{arguments.clients} clients, {took:.0f} s: {len(load.seconds)} requests")
    print(f"throughput {len(load.seconds) / took:.1f}/s, p50 {p50:.2f} s, p95 {p95:.2f} s,", end="")
    print(f" p99 {p99:.2f} s")
    print(f"failed {sum(load.failures.values())} {dict(load.failures) or ''}")
    print(f"memory {before:.0f} MB before, {after:.0f} MB after")
    print(f"release switched from {first} to {second}; served at the end: {served}")


if __name__ == "__main__":
    main()
