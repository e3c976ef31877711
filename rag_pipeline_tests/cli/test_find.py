import os
import shlex
import sys
from pathlib import Path

import pytest

from rag_pipeline.cli import find
from rag_pipeline.cli.find import find_corpus_file, shown_path
from rag_pipeline.errors import ConfigError
from rag_pipeline_tests.testing.command_line import rag, said
from rag_pipeline_tests.testing.corpora import write_corpus, write_file
from rag_pipeline_tests.testing.small_sets import SMALL

FILE = "type: rag_pipeline.RagPipeline\nattributes: {{corpus: {name}}}\n"


def write(path: str, name: str) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(FILE.format(name=name))
    return file


def test_a_path_is_taken_as_it_is(here: Path) -> None:
    assert find_corpus_file("absent.yaml") == Path("absent.yaml")
    assert find_corpus_file("../x/absent") == Path("../x/absent")
    Path("corpus.conf").touch()
    assert find_corpus_file("corpus.conf") == Path("corpus.conf")


def test_the_only_corpus_is_found_wherever_dagster_keeps_it(here: Path) -> None:
    for place in ("a.yaml", "b.yml", "package/defs/c/defs.yaml", "src/package/defs/d/defs.yaml"):
        file = write(place, "contracts")
        assert find_corpus_file() == file
        assert find_corpus_file("contracts") == file
        file.unlink()


def test_other_yaml_is_no_corpus(here: Path) -> None:
    Path("compose.yaml").write_text("services: {}")
    Path("binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"no corpus file in .*rag init NAME --documents DIR"):
        find_corpus_file()
    with pytest.raises(ConfigError, match=r"no corpus is called 'x' here: .* has no corpus file"):
        find_corpus_file("x")


def test_several_are_listed_with_what_to_choose(here: Path) -> None:
    write("a.yaml", "acts")
    write("b.yaml", "bills")
    with pytest.raises(ConfigError) as error:
        find_corpus_file()
    assert str(error.value) == (
        "which corpus? Name one at the end of the command: acts (a.yaml), bills (b.yaml)"
    )
    assert find_corpus_file("bills") == Path("b.yaml")
    with pytest.raises(ConfigError, match=r"there are: acts \(a\.yaml\), bills \(b\.yaml\)"):
        find_corpus_file("laws")


def test_two_files_of_one_name_are_told_apart_by_their_paths(here: Path) -> None:
    write("a.yaml", "acts")
    write("b.yaml", "acts")
    with pytest.raises(ConfigError, match=r"are called 'acts'; name one: a\.yaml, b\.yaml$"):
        find_corpus_file("acts")


def test_a_file_with_mistakes_is_found_so_that_they_are_shown(here: Path) -> None:
    Path("broken.yaml").write_text("type: rag_pipeline.RagPipeline\nattributes: [")
    assert find_corpus_file() == Path("broken.yaml")
    assert find_corpus_file("broken") == Path("broken.yaml")


def test_the_shortest_argument_that_finds_the_file_again(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["rag"])
    first = write("a.yaml", "acts")
    assert find.rag("run", file=first, corpus="acts") == "rag run"
    second = write("b b.yaml", "bills")
    assert find.rag("run", file=second.resolve(), corpus="bills") == "rag run bills"
    third = write("c c.yaml", "bills")
    assert find.rag("search", "a b", file=third, corpus="bills") == "rag search 'a b' 'c c.yaml'"
    elsewhere = write("far/away.yaml", "far")
    assert find.rag("run", file=elsewhere.resolve(), corpus="far") == "rag run far/away.yaml"
    without_suffix = write("corpus.conf", "conf")
    shown = find.rag("run", file=without_suffix, corpus="conf")
    assert shown == "rag run ./corpus.conf"
    assert find_corpus_file(shown.split()[-1]).samefile(without_suffix)


def test_where_a_variable_names_a_corpus_the_argument_is_shown(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["rag"])
    monkeypatch.setenv("RAG_CORPUS", "other.yaml")
    assert find_corpus_file() == Path("other.yaml")
    assert find.rag("run", file=write("a.yaml", "acts"), corpus="acts") == "rag run acts"


def test_the_program_is_named_so_that_it_starts(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("on the path", "elsewhere"):
        script = Path(folder, "rag")
        script.parent.mkdir()
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(here / "on the path"))
    for called, shown in (
        ("rag", "rag"),
        (str(here / "on the path" / "rag"), "rag"),
        ("elsewhere/rag", "elsewhere/rag"),
        ("/usr/lib/python/pytest", "rag"),
    ):
        monkeypatch.setattr(sys, "argv", [called])
        assert find.rag("run") == f"{shown} run"


def test_a_name_that_is_nearly_right(here: Path) -> None:
    write("a.yaml", "acts")
    write("b.yaml", "contracts")
    with pytest.raises(ConfigError, match=r"'contract' here; did you mean 'contracts'\? There are"):
        find_corpus_file("contract")


def test_argument_and_option_name_one_corpus(here: Path) -> None:
    file = write("a.yaml", "acts")
    assert find_corpus_file("acts", "acts") == find_corpus_file(None, "acts") == file
    with pytest.raises(ConfigError, match="two corpora are named: acts and --corpus bills"):
        find_corpus_file("acts", "bills")


def test_paths_below_the_working_directory_are_shown_relative_to_it(here: Path) -> None:
    assert shown_path(here / "x" / "y.yaml") == "x/y.yaml"
    assert shown_path(Path("/elsewhere/y.yaml")) == "/elsewhere/y.yaml"


# --- every printed next command runs unchanged in the same working directory ---


def follow(printed: str, *expected: str) -> list[str]:
    """Run every printed next command of `rag`; return their outputs."""
    lines = printed.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("Next:"))
    commands = [
        shlex.split(line.removeprefix("Next:"), comments=True)
        for line in lines[first:]
        if "dg dev" not in line and line.removeprefix("Next:").strip()
    ]
    assert [" ".join(command[:2]) for command in commands] == [f"rag {name}" for name in expected]
    return [said(*command[1:]) for command in commands]


def test_from_init_to_an_answer_beside_other_corpora(here: Path) -> None:
    write_corpus(here)
    Path("sub folder").mkdir()
    output = ("--output", "sub folder/a corpus.yaml")
    written = rag("init", "mine", "--documents", "documents", *output).out
    made, ran = follow(written, "questions", "run")
    assert "synthetic questions" in made
    answered, written, planned = follow(ran, "ask", "report", "plan")
    assert answered.startswith("No answer was found in the documents.")
    assert written == "wrote mine.html\n"
    assert planned.startswith("nothing to do: all ")


def test_a_run_with_nothing_to_measure_with_leads_to_questions(here: Path) -> None:
    write_corpus(here).unlink()
    rag("init", "mine", "--documents", "documents")
    _, made, planned = follow(rag("run").out, "ask", "questions", "plan")
    assert "synthetic questions" in made
    assert "13 of 21 steps have work" in planned


def test_from_a_data_set_to_a_corpus(here: Path) -> None:
    SMALL["contractnli"](Path("set"))
    (written,) = follow(rag("import", "contractnli", "set", "an imported set").out, "init")
    assert "wrote an_imported_set.yaml" in written


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
