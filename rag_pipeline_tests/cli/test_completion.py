"""Completion in a shell: commands, options, and the corpora of the working directory."""

from pathlib import Path

import pytest

from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import write_file


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rag rele", ["releases"]),
        ("rag releases --js", ["--json"]),
        ("rag leaderboard ti", ["tiny"]),
        ("rag search 'a question' ti", ["tiny"]),
        ("rag gate -c ti", ["tiny"]),
        ("rag serve tiny ti", ["tiny"]),
        ("rag leaderboard x", []),
    ],
)
def test_bash(here: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: list[str]) -> None:
    write_file(here)
    monkeypatch.setenv("_RAG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    words = line.replace("a question", "a").split()
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    outcome = rag()
    assert outcome.err == ""
    assert outcome.out.split() == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("_RAG_COMPLETE", f"source_{shell}")
    assert "_RAG_COMPLETE=complete_" in rag().out
