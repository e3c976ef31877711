"""README and the guides, followed block by block in a fresh home, over one corpus.

Each line of a shell block and each Python block is run, or stands in `MARKED` with the reason why
it is not. What a guide shows as output is what is printed. The blocks of YAML are checked as
settings by `test_docs`, and `test_wheel` runs what README asks the sample.
"""

import re
import shlex
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rag_pipeline.assistant import open_assistant
from rag_pipeline.cli.main import app
from rag_pipeline.corpus import Corpus
from rag_pipeline_tests.testing.app_server import serving
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    QUERIES,
    question,
    write_documents,
    write_questions,
)
from rag_pipeline_tests.testing.guides import blocks, prints

_ADDRESS = "http://127.0.0.1:9003"
_RAG: Any = get_command(app)

MARKED = {
    "make ": "builds, tests or serves the checkout",
    "pip install": "needs the network",
    ". .venv/bin/activate": "of the checkout",
    "python3 -m venv": "makes an environment",
    "cd ~ && rag demo": "see test_wheel",
    "celery ": "needs Redis and Postgres",
    ". .dagster/services/env": "needs Redis and Postgres",
    "rag serve": "serves until it is stopped",
    "RAG_TOKEN=$(openssl": "serves until it is stopped",
    "rag questions contracts": "only without --queries",
    'rag search "How long': "asks the sample: see test_wheel",
    'rag ask "How long does confidentiality last under the Halvorsk': "see test_wheel",
    "rag report sample": "see test_wheel",
    "from rag_pipeline.evaluation import Evaluator": "needs a key",
    "from llama_index": "needs the network",
    "class OurWorkspace(": "a part of a project of the reader",
}
"""The reason by the start of a line or a Python block that is not run."""


def mark_of(line: str) -> str | None:
    return next((start for start in MARKED if line.startswith(start)), None)


def follow(line: str) -> None:
    """Run one command line of `rag` in this process."""
    program, *arguments = shlex.split(line, comments=True)
    assert program == "rag", f"run or mark: {line}"
    given = [str(Path(a).expanduser()) if a[0] == "~" else a for a in arguments]
    _RAG.main(given, prog_name="rag", standalone_mode=False)


def run(code: str, page: str) -> None:
    """Run a Python block. The address that it asks is of a server for the reader's corpus."""
    with ExitStack() as stack:
        if _ADDRESS in code:
            assistant = open_assistant([Corpus.load("contracts.yaml")])
            code = code.replace(_ADDRESS, stack.enter_context(serving(assistant)).url)
        exec(compile(code.replace('"…"', '"a token"'), page, "exec"), {"__name__": "guide"})


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
    todo = [(block, line) for block in blocks() for line in block.lines]
    # The corpus of "Your own documents" is what the other blocks ask.
    todo.sort(key=lambda one: not re.search(r"rag (init|plan|run|export)\b.* contracts", one[1]))
    used, ran, shown, before = set(), 0, 0, None
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
        if block.language == "python":
            run(line, block.page)
        else:
            follow(line)
        ran += 1
        said = capsys.readouterr().out
        if "--json" in line:
            (project / "answer.json").write_text(said)
        assert said.strip() or block.language == "python", f"{block.page}: {line}"
        if block.output and line == block.lines[-1]:
            assert prints(block.output, said), f"{block.page}: {line} prints\n{said}"
            shown += 1
    own = [block for block in blocks() if block.output and not mark_of(block.lines[-1])]
    assert shown == len(own) >= 5, "each output that a guide shows is compared"
    assert used == set(MARKED), "a mark of no line"
    assert ran >= 13, f"{ran} lines are run, {len(todo) - ran} are marked"
