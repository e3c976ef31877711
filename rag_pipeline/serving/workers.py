"""Serve from several processes. They listen on one port and map the same release into memory."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from socket import socket
from types import FrameType

from rag_pipeline.config import CorpusConfig
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import ConfigError
from rag_pipeline.search.mapped import MappedFolder
from rag_pipeline.serving.metrics import SHARED_FIGURES
from rag_pipeline.serving.rates import Buckets
from rag_pipeline.serving.settings import ServerSettings

_LEAST_SECONDS = 10.0
"""If a worker ends within this many seconds, the server ends, because a new worker would, too."""


def serve_by_workers(
    corpora: Sequence[Corpus], settings: ServerSettings, local: Sequence[socket]
) -> None:
    """Run `settings.workers` processes until SIGINT or SIGTERM, and replace ended processes.

    All processes also listen on the sockets `local`. Raise ConfigError if a process ends within 10
    seconds after its start.
    """
    with tempfile.TemporaryDirectory(prefix="rag-serve-") as folder:
        figures = Path(folder) / "figures"
        figures.mkdir()
        os.environ[SHARED_FIGURES] = str(figures)
        settings = replace(settings, rates=Path(folder) / "rates.sqlite")
        Buckets(settings.rates)  # create the file before the workers write it
        configs = [(one.config, one.verify) for one in corpora]
        _Workers(configs, settings, Path(folder), local).run()


class _Workers:
    def __init__(
        self,
        configs: Sequence[tuple[CorpusConfig, bool]],
        settings: ServerSettings,
        folder: Path,
        local: Sequence[socket],
    ) -> None:
        self._arguments = configs, settings, folder, local
        # A fork would copy the locks of LanceDB's and onnxruntime's threads, but not the threads.
        self._context = multiprocessing.get_context("spawn")
        self._running: dict[BaseProcess, float] = {}
        """The start of each process, in seconds of the monotonic clock."""
        self._is_stopping = False

    def run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        for _ in range(self._arguments[1].workers):
            self._start()
        try:
            while self._running:
                wait([process.sentinel for process in self._running])
                for process in [one for one in self._running if not one.is_alive()]:
                    self._replace(process)
        finally:
            self._stop(signal.SIGTERM, None)
            for process in self._running:
                process.join()

    def _start(self) -> None:
        process = self._context.Process(target=serve_as_worker, args=self._arguments)
        process.start()
        self._running[process] = time.monotonic()

    def _replace(self, dead: BaseProcess) -> None:
        lived = time.monotonic() - self._running.pop(dead)
        if self._is_stopping:
            return
        if lived < _LEAST_SECONDS:
            status = f"exit code {dead.exitcode}"
            raise ConfigError(f"a worker ended after {lived:.0f} s with {status}; see above")
        sys.stderr.write(f"a worker ended with exit code {dead.exitcode}; a new worker starts\n")
        self._start()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Stop the workers with SIGTERM, or with SIGINT (immediately) at the second SIGINT."""
        # A terminal sends SIGINT to the workers, too, so the first signal becomes SIGTERM.
        sent = signal.SIGINT if self._is_stopping and number == signal.SIGINT else signal.SIGTERM
        self._is_stopping = True
        for process in self._running:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, sent)


def serve_as_worker(
    configs: Sequence[tuple[CorpusConfig, bool]],
    settings: ServerSettings,
    folder: Path,
    local: Sequence[socket],
) -> None:
    """Serve in this process, which is one of several on the same port."""
    from rag_pipeline.serving.server import serve_here

    corpora = [Corpus(config, verify) for config, verify in configs]
    for corpus in corpora:
        corpus.mapped = MappedFolder(folder / corpus.name)
    serve_here(corpora, settings, local)
