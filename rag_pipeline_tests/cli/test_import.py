"""`rag import`: every format becomes a corpus that `rag init` takes, mistakes are explained."""

import shlex
from pathlib import Path

import pytest

from rag_pipeline.config import load_config
from rag_pipeline_tests.testing.command_line import rag, refused, said
from rag_pipeline_tests.testing.small_sets import SMALL


@pytest.mark.parametrize("format", SMALL)
def test_an_imported_set_becomes_a_corpus(here: Path, format: str) -> None:
    SMALL[format](Path("with space"))
    shown = said("import", format, "with space", "an other/place")
    assert shown.startswith("an other/place: ")
    (next_line,) = (line for line in shown.splitlines() if line.startswith("Next: rag "))
    command = shlex.split(next_line.removeprefix("Next: rag "))
    assert rag(*command).code == 0
    config = load_config("place.yaml")
    assert config.documents_path == here / "an other/place/documents"
    assert config.queries_path == here / "an other/place/queries.jsonl"
    assert ("given" in shown) == (format == "anthropic-contextual")


def test_quiet(here: Path) -> None:
    SMALL["contractnli"](Path("in"))
    outcome = rag("import", "contractnli", "in", "out", "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["squad", "in", "out"],
            "format: 'squad' is not one of: legalbench-rag, chroma-chunking, anthropic-contextual, "
            "contractnli",
        ),
        (["contractnli", "absent", "out"], "absent: can't be read"),
        (["contractnli", "empty", "out"], "empty"),
        (["legalbench-rag", "empty", "out"], "empty"),
        (["chroma-chunking", "in", "out"], "in"),
        (["contractnli", "in", "file"], "file"),
        (["contractnli", "in", "taken"], "taken"),
    ],
)
def test_mistakes(here: Path, arguments: list[str], message: str) -> None:
    SMALL["contractnli"](Path("in"))
    Path("empty").mkdir()
    Path("file").write_text("mine")
    Path("taken").mkdir()
    Path("taken/mine.txt").write_text("mine")
    told = refused("import", *arguments)
    assert told.startswith("error: ")
    assert message in told
    assert Path("file").read_text() == "mine"
    assert [p.name for p in Path("taken").iterdir()] == ["mine.txt"]
