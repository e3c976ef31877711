"""A running server answers the command line of its user, and nobody else on that way."""

import json
import os
import socket
import tempfile
from io import StringIO
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from rag_pipeline.assistant import open_assistant
from rag_pipeline.cli.commands import asking
from rag_pipeline.corpus import Corpus
from rag_pipeline.serving import local
from rag_pipeline.serving.app import build_app
from rag_pipeline.serving.local import (
    ask_server,
    listening_to_user,
    serves_earlier_file,
    socket_path,
)
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline_tests.testing.app_server import Running
from rag_pipeline_tests.testing.command_line import rag, said
from rag_pipeline_tests.testing.corpora import renamed_corpus
from rag_pipeline_tests.testing.servers import free_port

ASKED = {"query": "When is a doctor's note needed?", "k": 2, "where": None, "labels": None}


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    with tempfile.TemporaryDirectory() as short:  # a socket's path has at most 107 bytes
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        yield Path(short) / f"rag-{os.getuid()}"


@pytest.fixture
def server(released, built_file):
    """Serve two corpora with a token, also to the user of this machine."""
    corpora = [renamed_corpus(released, built_file.parent / "other", "other")]
    corpora.append(Corpus.load(built_file))
    settings = ServerSettings(port=free_port(), token="a-token-of-16-signs")
    app = build_app(open_assistant(corpora), settings)
    with listening_to_user(corpora) as sockets, Running(app, settings, sockets) as running:
        yield running


@pytest.mark.parametrize(
    "command",
    [
        ["search", ASKED["query"], "-k", "2"],
        ["search", ASKED["query"], "--where", "document_id LIKE 'policy/%'", "--json"],
        ["search", ASKED["query"], "--as", "hr"],
        ["ask", ASKED["query"]],
        ["ask", "Who won the cup final?"],
    ],
)
def test_a_server_prints_what_the_process_would(server, built_file, monkeypatch, command):
    alone = said(*command, "--no-server", "-c", built_file)
    monkeypatch.setattr(Corpus, "load", lambda *_: pytest.fail("worked in the process"))
    assert said(*command, "-c", built_file) == alone


def test_the_network_has_no_such_path(server, built_file):
    headers = {"Authorization": "Bearer a-token-of-16-signs"}
    body = {"file": str(built_file.resolve()), **ASKED}
    for more in ({}, {"X-Forwarded-For": ""}, {"X-Forwarded-For": "unix"}):
        sent = httpx.post(f"{server.url}/local/search", json=body, headers={**headers, **more})
        assert sent.status_code == 404
    sent = httpx.post(f"{server.url}/local/search", content=b"[", headers=headers)
    assert sent.status_code == 404
    assert httpx.post(f"{server.url}/local/search", json=body).status_code == 401


def test_another_file_folder_version_or_variable_finds_no_server(
    server, built_file, tmp_path, monkeypatch
):
    found = ask_server(built_file, "search", ASKED)["chunks"]
    assert len(found) == 2 and found == json.loads(
        said("search", ASKED["query"], "-k", "2", "--json", "--no-server", "-c", built_file)
    )
    with monkeypatch.context() as other:
        other.chdir(tmp_path)
        assert ask_server(built_file, "search", ASKED) is None
    with monkeypatch.context() as other:
        other.setenv("corpus", "a word of the file")
        assert ask_server(built_file, "search", ASKED) is None
    text = built_file.read_text()
    built_file.write_text(f"{text}\n# changed\n")
    assert ask_server(built_file, "search", ASKED) is None
    told = rag("search", ASKED["query"], "-c", built_file)
    assert told.err.startswith(f"`rag serve` runs with an earlier {built_file}, so")
    assert told.err.count("\n") == 1 and told.code == 0
    assert rag("search", ASKED["query"], "--no-server", "-c", built_file).err == ""
    built_file.write_text(text)
    assert ask_server(built_file, "search", ASKED) is not None
    assert not serves_earlier_file(built_file)
    assert ask_server(built_file, "search", {**ASKED, "where": "sleep(9)"}) is None, "an error"


@pytest.mark.parametrize(
    ("no_server", "quiet", "terminal", "shown"),
    [
        (False, False, True, True),
        (True, False, True, False),
        (False, True, True, False),
        (False, False, False, False),
    ],
)
def test_a_slow_command_names_the_server_on_a_terminal(
    built_file, monkeypatch, no_server, quiet, terminal, shown
):
    told = StringIO()
    errors = Console(file=told, force_terminal=True)
    output = Console(file=StringIO(), force_terminal=terminal, quiet=quiet)
    for name, value in (("errors", errors), ("console", output), ("_SLOW_SECONDS", -1.0)):
        monkeypatch.setattr(asking, name, value)
    assert asking._answered(built_file, no_server, "search", ASKED)["chunks"]
    assert ("answers such commands faster" in told.getvalue()) == shown


def test_a_dead_or_suspended_server_and_a_foreign_folder_are_passed_over(
    built_file, folder, monkeypatch
):
    path = socket_path(built_file)
    assert ask_server(built_file, "search", ASKED) is None
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        assert ask_server(built_file, "search", ASKED) is None
        text = built_file.read_text()
        built_file.write_text(f"{text}\n# changed\n")
        assert not serves_earlier_file(built_file), "its server is dead"
        built_file.write_text(text)
        dead.listen()
        monkeypatch.setattr(local, "_ALIVE_SECONDS", 0.01)
        assert ask_server(built_file, "search", ASKED) is None
    with listening_to_user([Corpus.load(built_file)]) as sockets:
        assert [one.getsockname() for one in sockets] == [str(path)]
    assert not path.exists()
    folder.chmod(0o755)
    with listening_to_user([Corpus.load(built_file)]) as sockets:
        assert sockets == []
    assert ask_server(built_file, "search", ASKED) is None
