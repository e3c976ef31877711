import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import Assistant, ExpandedDataset, ReleasedDataset, sentence_vectors
from rag_pipeline.config import Expansion
from rag_pipeline_tests.conftest import write_documents

QUESTION = "How much does a work visa for Norway cost?"
ANSWER = "A work visa for Norway costs 540 euros and takes eight weeks."
OUTSIDE = {
    "visa/norway.md": f"# Visas\n\n{ANSWER}\n",
    "fruit.txt": "Bananas are yellow and grow in bunches.\n",
}


@dataclass
class Clock:
    """The time, as a test sets it."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Expanded:
    """An assistant over a copy of the released corpus, with a folder to look in."""

    corpus: Corpus
    outside: Path
    clock: Clock = field(default_factory=Clock)

    def assistant(self, **settings) -> Assistant:
        look_in = {"source": "folder", "path": str(self.outside)}
        expansion = Expansion.model_validate({"look_in": look_in, **settings})
        dataset = ExpandedDataset(self.corpus, expansion, self.clock)
        return Assistant(
            {self.corpus.name: ReleasedDataset(self.corpus)},
            self.corpus.config.assistant,
            sentence_vectors,
            expansions={self.corpus.name: dataset},
        )


@pytest.fixture
def expanded(released, tmp_path) -> Expanded:
    folder = tmp_path / "corpus"
    shutil.copytree(released.config.path("."), folder)
    write_documents(tmp_path / "outside", OUTSIDE)
    return Expanded(Corpus.load(folder / "tiny.yaml"), tmp_path / "outside")


@dataclass
class Web:
    """A server on loopback; `asked` are the paths and bodies of the requests."""

    url: str
    asked: list[tuple[str, dict]]


Reply = Callable[[str, dict], tuple[int, dict[str, str], bytes]]


@contextmanager
def web(reply: Reply) -> Iterator[Web]:
    """Serve what `reply` makes of a path and its parameters or JSON body."""
    asked: list[tuple[str, dict]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._answer(parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(self.path, json.loads(body))

        def _answer(self, path: str, request: dict) -> None:
            asked.append((path, request))
            status, headers, body = reply(path, request)
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Web(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
