"""Every printed next command runs unchanged in the same working directory."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import write_corpus, write_file
from rag_pipeline_tests.testing.small_sets import SMALL


def follow(printed: str, *expected: str) -> list[str]:
    """Run every printed next command; return their outputs."""
    lines = printed.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("Next:"))
    commands = [
        shlex.split(line.removeprefix("Next:"), comments=True)
        for line in lines[first:]
        if line.removeprefix("Next:").strip()
    ]
    assert [" ".join(command[:2]) for command in commands] == [f"rag {name}" for name in expected]
    outcomes = [rag(*command[1:]) for command in commands]
    assert [(outcome.code, outcome.err) for outcome in outcomes] == [(0, "")] * len(commands)
    return [outcome.out for outcome in outcomes]


@pytest.mark.parametrize("output", ["tiny file.yaml", "sub folder/a corpus.yaml"])
def test_from_init_to_search_beside_other_corpora(here: Path, output: str) -> None:
    write_corpus(here)
    Path("sub folder").mkdir()
    written = rag("init", "mine", "--documents", "documents", "--output", output).out
    made, ran = follow(written, "questions", "run")
    assert "synthetic questions" in made
    found, board, planned = follow(ran, "search", "leaderboard", "plan")
    assert found.startswith("1. ")
    assert "mine: " in board
    assert planned.startswith("everything is current")


def test_a_run_with_nothing_to_measure_with_leads_to_questions(here: Path) -> None:
    write_corpus(here).unlink()
    rag("init", "mine", "--documents", "documents")
    _, made, planned = follow(rag("run").out, "search", "questions", "plan")
    assert "synthetic questions" in made
    assert "find their gold spans" in planned


def test_from_a_data_set_to_a_corpus(here: Path) -> None:
    SMALL["contractnli"](Path("set"))
    (written,) = follow(rag("import", "contractnli", "set", "an imported set").out, "init")
    assert written.startswith("wrote an_imported_set.yaml")


def test_from_plan_to_a_comparison_and_another_machine(here: Path) -> None:
    write_corpus(here)
    follow(rag("plan").out, "run")
    chunkings = {"recursive_150": {"method": "recursive", "max_characters": 40}}
    write_file(here, chunkings=chunkings)
    follow(rag("plan").out, "run")
    compared = rag("compare", "release-000001", "default")
    assert compared.code == 0
    if "quer" in compared.out.partition("measured.")[2]:
        (explained,) = follow(compared.out, "explain")
        assert explained.startswith("q")
    assert rag("export", "current", "tiny.zip").code == 0
    there = here / "there"
    there.mkdir()
    os.chdir(there)
    (found,) = follow(rag("import-release", "../tiny.zip").out, "search")
    assert found.startswith("1. ")


def test_a_program_that_is_not_on_the_path_is_named_by_its_path(here: Path) -> None:
    """Commands can be copied from a checkout whose environment is not active."""
    write_corpus(here)
    Path("bin").symlink_to(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bin/rag", "init", "mine", "--documents", "documents"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    line = done.stdout.splitlines()[-2].removeprefix("Next: ")
    assert line == "bin/rag questions mine"
    version = subprocess.run(
        f"{line.split()[0]} --version", shell=True, check=True, capture_output=True, env=environment
    )
    assert version.stdout.startswith(b"rag_pipeline ")
