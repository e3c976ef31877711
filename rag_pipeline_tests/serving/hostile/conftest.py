"""A server with a token and one without, over hostile documents, for all tests here."""

import socket
from contextlib import ExitStack, suppress

import httpx
import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline_tests.testing.app_server import serving
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import attributes, write_documents, write_file
from rag_pipeline_tests.testing.hostile_requests import ALLOWED, DOCUMENTS, TOKEN, ask
from rag_pipeline_tests.testing.labelled import labelled_corpus


@pytest.fixture(scope="package")
def built(tmp_path_factory):
    """Return the file of a corpus with hostile documents and a release."""
    folder = tmp_path_factory.mktemp("hostile")
    write_documents(folder / "documents", DOCUMENTS)
    (configuration, _) = attributes()["configurations"]
    file = write_file(folder, queries=None, configurations=[configuration])
    list(run(Corpus.load(file).config))
    return file


@pytest.fixture(scope="package")
def corpus(tmp_path_factory):
    """Return a corpus of documents with labels; no test changes it."""
    return labelled_corpus(tmp_path_factory.mktemp("labelled"))


@pytest.fixture(scope="package")
def own(built):
    return open_assistant([Corpus.load(built)])


@pytest.fixture(scope="package")
def guarded(own):
    """Return a server with a token and one allowed backend; it must outlive everything."""
    with serving(own, body_seconds=1.0, token=TOKEN, allowed_hosts=(ALLOWED,)) as server:
        yield server
        assert ask(server, "How much does a parcel weigh?").status_code == 200


@pytest.fixture(scope="package")
def open_server(own):
    """Return a server without a token; it must outlive everything."""
    with serving(own, body_seconds=1.0) as server:
        yield server
        assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.fixture(scope="package")
def client():
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def inside():
    """Return a port of loopback, by IPv4 and IPv6, that no request may reach."""
    with socket.create_server(("127.0.0.1", 0)) as four, ExitStack() as opened:
        port = four.getsockname()[1]
        listeners = [four]
        with suppress(OSError):  # a machine without IPv6, or somebody's port
            six = socket.create_server(("::1", port), family=socket.AF_INET6)
            listeners.append(opened.enter_context(six))
        for listener in listeners:
            listener.setblocking(False)
        yield port
        for listener in listeners:
            with pytest.raises(BlockingIOError):
                listener.accept()
