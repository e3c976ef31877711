"""Processes of one server share its port, its release in memory, and its figures."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.processes import family
from rag_pipeline_tests.testing.servers import free_port

SERVER = """
import sys
from rag_pipeline import Corpus
from rag_pipeline.serving import server, workers
from rag_pipeline.serving.settings import ServerSettings
workers._LEAST_SECONDS = 0.0
if __name__ == "__main__":
    settings = ServerSettings(port=int(sys.argv[2]), workers=2, stop_seconds=1)
    server.serve_http([Corpus.load(sys.argv[1])], settings)
"""
QUERY = {"query": "How much does a parcel weigh?"}


def workers_of(process):
    """Return the processes that map the release, with the files that they map."""
    found = {}
    for pid in family(process.pid):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        if files := {line.split()[-1] for line in lines if line.endswith((".arrow", ".npy"))}:
            found[pid] = {file for file in files if "rag-serve-" in file}
    return found


@contextmanager
def ending(process):
    """End the process also if the test fails."""
    try:
        yield
    finally:
        process.terminate()


def test_workers_share_and_are_replaced(built_file):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-W", "ignore", "-c", SERVER, str(built_file), str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process, ending(process):

        def listening(count):
            while count:
                count -= next(process.stderr).startswith("listening on")

        listening(2)
        for _ in range(8):  # each by a connection of its own
            assert httpx.post(f"{url}/v1/search", json=QUERY, timeout=60).status_code == 200
        shown = httpx.get(f"{url}/metrics").text
        assert 'rag_requests_total{path="/v1/search",status="200"} 8.0' in shown
        shared = workers_of(process)
        (files,) = {frozenset(files) for files in shared.values()}
        assert len(shared) == 2
        kinds = sorted(Path(f).suffix for f in files)
        assert kinds == [".arrow", ".arrow", ".npy"], "documents, rows and vectors"
        os.kill(min(shared), signal.SIGKILL)
        listening(1)
        assert len(workers_of(process)) == 2
        assert httpx.post(f"{url}/v1/search", json=QUERY, timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == 0 and "Traceback" not in said
    assert not any(Path(file).exists() for file in files)
