"""Real Redis and Postgres servers on loopback, stopped by their process ids."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_SECONDS = 300
"""A program that has not started or ended by then hangs."""


class Server:
    """A program that listens at a port and can be stopped and started again with its data."""

    def __init__(self, arguments: list[str], port: int, log: Path, user: str | None = None) -> None:
        self._arguments, self.port, self._log, self._user = arguments, port, log, user
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._arguments, stdout=log, stderr=log, user=self._user, cwd="/"
            )
        end = time.monotonic() + _SECONDS
        while True:
            if self._process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"{self._arguments[0]} does not start:\n{self._log.read_text()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(_SECONDS)


_ports = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """Return a free port below those that systems give out, so that nobody gets it meanwhile."""
    while True:
        port = 10_000 + next(_ports) % 20_000
        with socket.socket() as server, suppress(OSError):
            server.bind(("127.0.0.1", port))
            return port


def program(name: str, *folders: str) -> str:
    """Return a program's path; skip the test, saying which package has it, where it is missing."""
    found = shutil.which(name) or next(
        (str(p) for folder in folders for p in sorted(Path("/").glob(f"{folder}/{name}"))), None
    )
    if found is None:
        package = "redis-server" if name.startswith("redis") else "postgresql"
        pytest.skip(f"no {name}; Debian: apt install {package}")
    return found


@contextmanager
def redis(folder: Path) -> Iterator[Server]:
    """Serve Redis with its data in a folder, kept at every write."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [
        program("redis-server"),
        *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""),
        *("--appendonly", "yes", "--appendfsync", "always"),
    ]
    server = Server(arguments, port, folder / "log")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def postgres(folder: Path) -> Iterator[Server]:
    """Serve Postgres with a new cluster in a folder; user and database are called `dagster`."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    bin_folder = "usr/lib/postgresql/*/bin"
    initdb, serve = program("initdb", bin_folder), program("postgres", bin_folder)
    # Postgres refuses to be run by root, and its own user can't enter root's temporary folders.
    user = "postgres" if os.geteuid() == 0 else None
    place = Path(tempfile.mkdtemp(prefix="rag-postgres-"))
    data, log = place / "data", folder / "log"
    log.touch()
    if user:
        shutil.chown(place, user)
    options = ["--auth=trust", "--username=dagster", "--no-sync", "--encoding=UTF8", "--locale=C"]
    subprocess.run(
        [initdb, "-D", str(data), *options], user=user, check=True, capture_output=True, cwd="/"
    )
    settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off")
    arguments = [serve, "-D", str(data), "-p", str(port)]
    arguments += [part for setting in settings for part in ("-c", setting)]
    server = Server(arguments, port, log, user)
    server.start()
    try:
        _ready(port)
        yield server
    finally:
        server.stop()
        shutil.rmtree(place, ignore_errors=True)


def _ready(port: int) -> None:
    import psycopg2

    end = time.monotonic() + _SECONDS
    while True:
        try:
            connection = psycopg2.connect(
                host="127.0.0.1", port=port, user="dagster", dbname="postgres"
            )
        except psycopg2.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            connection.close()
            return
