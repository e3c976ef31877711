"""On a terminal `rag init` asks for what flags do not give; its exclusions add to those given."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_pipeline_tests.testing.command_line import said


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    documents = tmp_path / "firm"
    documents.mkdir()
    (documents / "leave.md").write_text(
        "# Leave\n\nA doctor's note is needed from the third day.\n"
    )
    (documents / "archive.md").write_text("# Archive\n\nThe archive is in the cellar.\n")
    (documents / "web.log.1").write_text("GET /\n" * 200_000)
    return tmp_path


def written(folder: Path) -> Any:
    return yaml.safe_load((folder / "firm.yaml").read_text())["attributes"]


def test_given_patterns_do_not_bring_logs_back(folder: Path) -> None:
    shown = said("init", "firm", "firm", "--exclude", "archive*")
    assert "left out as logs or data: web.log.1 (1.2 MB, 100% of the text, " in shown
    assert written(folder)["documents"]["exclude"] == ["archive*", "web.log.1"]


def test_an_empty_pattern_indexes_all_files(folder: Path) -> None:
    few, many = said("init", "firm"), said("init", "firm", "--exclude", "", "--force")
    assert written(folder)["documents"]["exclude"] == []
    assert "1 MB in the store (measured on 2 texts)" in few
    assert "dg dev -m rag_pipeline.definitions  # this corpus in Dagster's UI" in few
    assert "50 MB in the store (measured on 2 texts)" in many, "1.2 million characters"


def test_a_terminal_is_asked(folder: Path) -> None:
    master, terminal = pty.openpty()
    rag = (sys.executable, "-c", "from rag_pipeline.cli import main; main()", "init", "firm")
    process = subprocess.Popen(
        rag, stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder, close_fds=True
    )
    os.close(terminal)
    os.write(master, b"n\ne5\n\n")  # keep the log; the model; no file with questions
    shown = b""
    while True:
        try:
            read = os.read(master, 4096)
        except OSError:  # the process has closed the terminal
            break
        if not read:
            break
        shown += read
    os.close(master)
    assert process.wait() == 0, shown.decode()
    assert b"Leave out logs and data" in shown and b"File with questions" in shown
    assert written(folder)["documents"]["exclude"] == []
    assert written(folder)["embeddings"].keys() == {"e5"}
