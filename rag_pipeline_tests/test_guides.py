"""README and the guides, followed block by block in a fresh home, over one corpus.

Each line of a shell block and each Python block is run, or stands in `MARKED` with the reason why
it is not. The blocks of YAML are checked as settings by `test_docs`.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from rag_pipeline.cli.main import app
from rag_pipeline_tests.test_docs import ROOT
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    QUERIES,
    question,
    write_documents,
    write_questions,
)

_RAG: Any = get_command(app)
_GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_SHELL, _PYTHON = ("", "sh", "bash", "console"), ("python",)

MARKED = {
    "make ": "builds, tests or serves the checkout",
    "pip install": "needs the network",
    "celery ": "needs Redis and Postgres",
    ". .dagster/services/env": "needs Redis and Postgres",
    "rag serve": "serves until it is stopped",
    "RAG_TOKEN=$(openssl": "serves until it is stopped",
    ".venv/bin/rag questions contracts": "only without --queries",
    "from rag_pipeline import Client": "asks a server at its usual port",
    "from rag_pipeline.evaluation import Evaluator": "needs a key",
    "from llama_index": "needs the network",
    "class OurWorkspace(": "a part of a project of the reader",
    "class ParagraphChunking(": "a part of the example plugin, which its own test installs",
}
"""The reason by the start of a line or a Python block that is not run."""
_RENAMED = {"sample": "contracts", "policies": "contracts"}
"""Corpora that the guides name, and the corpus that stands for them here."""


class Block(NamedTuple):
    """A code block of a guide."""

    page: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for page in _GUIDES:
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
            if language in (*_SHELL, *_PYTHON):
                yield Block(page.name, language, text)


def lines(block: Block) -> list[str]:
    """Return what is run one by one: the lines of a shell block, or the whole Python block."""
    if block.language in _PYTHON:
        return [block.text]
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


def mark_of(line: str) -> str | None:
    return next((start for start in MARKED if line.startswith(start)), None)


def follow(line: str) -> None:
    """Run one command line of `rag` in this process."""
    program, *arguments = shlex.split(line, comments=True)
    assert program in ("rag", ".venv/bin/rag"), f"run or mark: {line}"
    given = [str(Path(a).expanduser()) if a[0] == "~" else _RENAMED.get(a, a) for a in arguments]
    _RAG.main(given, prog_name="rag", standalone_mode=False)


@pytest.mark.long
def test_the_guides_are_followed_in_a_fresh_home(tmp_path, monkeypatch, capsys):
    home, project, other = (tmp_path / name for name in ("home", "project", "other"))
    project.mkdir()
    other.mkdir()
    write_documents(home / "contracts", DOCUMENTS)
    write_questions(home, [question(*asked) for asked in QUERIES])
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "argv", ["rag"])
    todo = [(block, line) for block in blocks() for line in lines(block)]
    # The corpus of "Your own documents" is what the other blocks ask.
    todo.sort(key=lambda one: not re.search(r"rag (init|plan|run|export)\b.* contracts", one[1]))
    used, ran, before = set(), 0, None
    for block, line in todo:
        if mark := mark_of(line):
            used.add(mark)
            continue
        if line.startswith("rag import-release"):
            shutil.copy("contracts.zip", other)
            monkeypatch.chdir(other)
        elif block is not before:
            monkeypatch.chdir(project)
        before = block
        capsys.readouterr()
        if block.language in _PYTHON:
            exec(compile(line, block.page, "exec"), {"__name__": "guide"})
        else:
            follow(line)
        ran += 1
        said = capsys.readouterr().out
        if "--json" in line:
            (project / "answer.json").write_text(said)
        assert said.strip() or block.language in _PYTHON, f"{block.page}: {line}"
    assert (project / "contracts.html").is_file()
    assert used == set(MARKED), "a mark of no line"
    assert ran >= 18, f"{ran} lines are run, {len(todo) - ran} are marked"
