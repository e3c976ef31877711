"""Properties of every command: help, exit codes, encodings, pure JSON, completion."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline import Corpus
from rag_pipeline_tests.testing.command_line import rag, refused, said
from rag_pipeline_tests.testing.corpora import write_corpus, write_file
from rag_pipeline_tests.testing.plugins import rag as rag_with
from rag_pipeline_tests.testing.plugins import write_package

COMMANDS = (
    "init import run plan search ask optimize serve leaderboard costs compare explain gate report "
    "releases rollback export import-release gc doctor"
).split()


def shell(line: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of bash in which `rag` is this environment's; the status is `rag`'s own."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, **environment},
    )


def test_help_lists_the_commands_and_exit_codes() -> None:
    shown = said("--help")
    for command in COMMANDS:
        assert f"\n  {command} " in shown
    for code in (0, 1, 2, 3, 130):
        assert f"\n    {code} " in shown
    assert shown.count("...") == 1, "only in the usage: no command's help is cut off"


def test_the_version_is_that_of_the_package() -> None:
    shown = said("--version")
    assert shown == f"rag_pipeline {importlib.metadata.version('rag_pipeline')}\n"


def test_a_plugin_takes_no_name_of_a_command(tmp_path: Path) -> None:
    points = "[rag_pipeline.commands]\nrun = claiming:app\n"
    write_package(tmp_path, "claiming", points, "import typer\n\napp = typer.Typer()\n")
    helped = rag_with(tmp_path, "--help")
    assert helped.returncode == 0
    said = "'run' of claiming (claiming:app): 'run' is a command of rag; rename it"
    assert said in " ".join(helped.stderr.split())
    assert "Only stale steps run" in rag_with(tmp_path, "run", "--help").stdout
    assert rag_with(tmp_path, "--version").stderr == "", "ours need no look at those of others"


def test_a_broken_package_stops_only_the_corpora_that_name_it(tmp_path: Path) -> None:
    points = "[rag_pipeline.chunkings]\nhalves = halving:Halves\n"
    write_package(tmp_path, "halving", points, "import no_such_package\n")
    names_it = write_file(tmp_path, chunkings={"h": {"method": "halves"}})
    stopped = rag_with(tmp_path, "plan", str(names_it))
    assert stopped.returncode == 2
    reason = "'halves' of halving (halving:Halves) can't be imported: ModuleNotFoundError"
    assert (
        f"chunkings.h: {{'method': 'halves'}}: rag_pipeline.chunkings: {reason}" in stopped.stderr
    )
    (tmp_path / "other").mkdir()
    planned = rag_with(tmp_path, "plan", str(write_corpus(tmp_path / "other")))
    assert planned.returncode == 0
    assert reason in planned.stderr, "a warning"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "x", "--k", "0"], "-k 0 is not in the range of 1 to 1000"),
        (["search", "x", "-k", "1001"], "-k 1001 is not in the range"),
        (["run"], "no corpus file in"),
        (["plan", "absent.yaml"], "absent.yaml: cannot read the corpus file: No such file"),
        (["run", "."], "cannot read the corpus file: Is a directory"),
        (["search", "x", "-c", "absent"], "no corpus is called 'absent' here: "),
        (["leaderboard", "-c", "absent.yaml"], "absent.yaml: cannot read the corpus file"),
        (["gc", "extra"], "no corpus is called 'extra' here"),
        (["search", "notice", "period"], "several words is one argument: put it in quotes"),
        (["ask", "who", "signs", "it"], "one argument, in quotes: rag ask 'who signs it'"),
        (["plan", "a.yaml", "-c", "b.yaml"], "two corpora are named: a.yaml and --corpus b.yaml"),
    ],
)
def test_wrong_arguments_end_in_two(here: Path, arguments: list[str], message: str) -> None:
    assert message.lower() in refused(*arguments).lower()


def test_a_corpus_one_folder_below_is_named_by_its_file(here: Path) -> None:
    write_corpus(here / "below", queries=None)
    said = refused("search", "notice period", "tiny")
    assert "Name a file below this folder: below/tiny.yaml" in " ".join(said.split())
    assert "name one of these: below/tiny.yaml, or" in " ".join(refused("run").split())
    assert "in quotes" not in said and "in quotes" in refused("search", "notice", "absent")


def test_without_arguments_there_is_help() -> None:
    outcome = rag()
    assert outcome.code == 2
    assert "rag init my_docs" in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "x"], "nothing has been released yet; run: rag run"),
        (["leaderboard"], "nothing has been evaluated yet; run: rag run"),
        (["rollback"], "nothing has been released yet"),
        (["compare", "default", "plain"], "default has not been evaluated yet; run: rag run"),
        (["explain", "q1"], "nothing has been evaluated yet; run: rag run"),
        (["report"], "nothing has been evaluated yet; run: rag run"),
    ],
)
def test_before_the_first_run(tmp_path: Path, arguments: list[str], message: str) -> None:
    file = write_corpus(tmp_path)
    assert rag("releases", "--json", "-c", file).out == "[]\n"
    told = refused(*arguments, "-c", file, code=1)
    assert message in told
    assert str(file) in told


def test_search_finds_the_only_corpus(released: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = released
    monkeypatch.chdir(file.parent)
    by_default = rag("search", "When is a doctor's note needed?", "-k", "1")
    assert (by_default.code, by_default.err) == (0, "")
    assert by_default.out.startswith("1. policy/leave.md[section Sick leave]")
    assert rag("search", "When is a doctor's note needed?", "-k", "1", "-c", "tiny") == by_default
    monkeypatch.chdir("/")
    monkeypatch.setenv("RAG_CORPUS", str(file))
    assert rag("search", "When is a doctor's note needed?", "-k", "1") == by_default


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", " "], "the query is empty"),
        (["search", "x", "--where", "document_id ="], "document_id ="),
        (["search", "x", "--where", "nothing_like_it = 3"], "nothing_like_it"),
        (["leaderboard", "--sort", "AP@55"], "--sort 'AP@55' is not one of: AnswerPresence@1, "),
        (["rollback"], "release-000001 is the first release; there is none before it"),
        (["rollback", "release-9"], "no release 'release-9'; there are: release-000001"),
        (["rollback", "../../etc/passwd"], "no release '../../etc/passwd'"),
        (["rollback", "current"], "no release 'current'"),
    ],
)
def test_mistakes_on_a_release(released: Any, arguments: list[str], message: str) -> None:
    outcome = rag(*arguments, "-c", released[0])
    assert outcome.code == (1 if arguments == ["rollback"] else 2)
    assert outcome.out == ""
    assert message in outcome.err
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "How expensive may a hotel be?"],
        ["search", "How expensive may a hotel be?", "--where", "document_id = 'nowhere'"],
        ["leaderboard"],
        ["leaderboard", "--sort", "nDCG@10"],
        ["releases"],
        ["plan"],
    ],
)
def test_json_is_valid_and_alone(released: Any, arguments: list[str]) -> None:
    outcome = rag(*arguments, "--json", released[0])
    assert (outcome.code, outcome.err) == (0, "")
    json.loads(outcome.out)
    assert rag(*arguments, "--json", "-c", released[0]) == outcome


def test_what_is_in_the_json_of_a_search(released: Any) -> None:
    found = json.loads(rag("search", "hotel", "--k", "2", "--json", "-c", released[0]).out)
    assert len(found) == 2
    assert set(found[0]) == {
        *("chunk_id", "document_id", "start", "end", "text", "score", "context", "title"),
        *("metadata", "place", "copies", "excerpt"),
    }
    assert found[0]["place"]["section"]
    assert found[0]["document_id"] == "policy/travel.md"
    assert found[0]["metadata"]["suffix"] == ".md"
    assert found[0]["score"] >= found[1]["score"]


def test_releases_and_rollback(built_file: Path, tmp_path: Path) -> None:
    file = built_file
    chunkings = {"recursive_150": {"method": "recursive", "max_characters": 100}}
    write_file(tmp_path, chunkings=chunkings)
    assert rag("run", file, "--quiet").code == 0
    newest, first = json.loads(rag("releases", "--json", "-c", file).out)
    assert (newest["release_id"], newest["serving"]) == ("release-000002", True)
    assert (first["release_id"], first["serving"]) == ("release-000001", False)
    outcome = rag("rollback", "-c", file)
    serving, following = outcome.out.splitlines()
    told = f"serving release-000001 ({first['configuration']}, of {first['created'][:10]})"
    assert serving == told
    assert following.split("  #")[0].endswith(f"rollback release-000002 {file}")
    assert "rolled back on " in rag("search", "hotel", "-c", file).out
    listed = rag("releases", "-c", file).out
    created = [one["created"][:19].replace("T", " ") for one in (newest, first)]
    heads = [line.rpartition(", ")[0] for line in listed.splitlines() if "release-" in line]
    assert heads == [
        f"  release-000002  {created[0]}  {newest['configuration']}",
        f"* release-000001  {created[1]}  {first['configuration']}",
    ]
    assert f"    {'; '.join(first['reasons'])}" in listed.splitlines()
    outcome = rag("rollback", "release-000002", "-c", file)
    assert outcome.out.startswith("serving release-000002 (") and "newer" not in outcome.out

    # A rollback to an older build of the same documents lacks no newer documents. Runs keep it.
    assert "newer" not in rag("rollback", "-c", file).out
    assert len(Corpus.load(file).config.all_configurations) > 1
    outcome, listed = rag("run", file, "--quiet"), rag("plan", file).out
    since = json.loads((tmp_path / "store/tiny/releases/current.json").read_text())["rolled_back"]
    kept = f"release-000001 (rolled back to on {since[:10]}) is kept: "
    assert (outcome.code, outcome.out) == (0, "") and outcome.err.startswith(kept)
    assert outcome.err.endswith(f"newest release again: rag rollback release-000002 {file}\n")
    assert kept in listed and "nothing to do" in listed
    assert "surely better" in first["reasons"][0] and "surely better" not in rag("run", file).out
    write_file(tmp_path, chunkings={"recursive_150": {"method": "recursive", "max_characters": 90}})
    assert rag("run", file, "--quiet").err == ""
    outcome = rag("rollback", "-c", file)
    assert "release-000003 replaced release-000001; skipped release-000002: not" in outcome.out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_that_is_not_utf8(released: Any, encoding: str) -> None:
    for arguments in (["leaderboard"], ["releases"], ["search", "h\u00f6tel \u2013 \u6587"]):
        outcome = rag(*arguments, "-c", released[0], encoding=encoding)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out
    outcome = rag("search", "\u6587", "-c", "\u6587", encoding=encoding)
    assert outcome.code == 2
    assert "no corpus is called '\\u6587'" in outcome.err


def test_text_of_documents_on_any_terminal(tmp_path: Path) -> None:
    file = write_corpus(tmp_path, queries=None)
    (tmp_path / "documents" / "caf\u00e9.txt").write_text("The caf\u00e9 \u2013 \u6587\u66f8.")
    hostile = "\x1b]0;owned\x07 [bold]no markup[/bold] :smile: [/] \x9b31m end"
    (tmp_path / "documents" / "a.txt").write_text(hostile)
    assert rag("run", file, "--quiet").code == 0
    arguments = ("search", "caf\u00e9", "-k", "1", "--json", "-c", file)
    (in_ascii,) = json.loads(rag(*arguments, encoding="ascii").out)
    (in_utf8,) = json.loads(rag(*arguments).out)
    assert in_ascii == in_utf8
    assert in_utf8["text"] == "The caf\u00e9 \u2013 \u6587\u66f8."
    assert "caf\u00e9" in rag(*arguments).out, "legible where the terminal can show it"

    out = rag("search", "owned", "-c", file).out
    assert "\\x1b]0;owned\\x07 [bold]no markup[/bold] :smile: [/] \\x9b31m end" in out
    assert not set(out) & {"\x1b", "\x07", "\x9b"}


def test_pipes_narrow_and_colourless_terminals(released: Any) -> None:
    """Run each command in a process of its own, in a shell."""
    file = released[0]
    cut = shell(f"rag search 'laws of' -k 20 --json -c {file} | head -c 10")
    assert cut.stdout == '[\n {\n  "ch'
    assert cut.stderr == ""

    variables = {"COLUMNS": "60", "NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    narrow = shell(f"rag leaderboard -c {file}", **variables)
    assert (narrow.returncode, narrow.stderr) == (0, "")
    assert narrow.stdout.isascii()
    assert all(len(line) <= 60 for line in narrow.stdout.splitlines())
    assert "default" in narrow.stdout
    assert "AP@5" in narrow.stdout
    assert "\x1b" not in narrow.stdout


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
def test_bash_completes(
    here: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: list[str]
) -> None:
    write_file(here)
    monkeypatch.setenv("_RAG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    words = line.replace("a question", "a").split()
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    outcome = rag()
    assert outcome.err == ""
    assert outcome.out.split() == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--quiet"],
        ["ask", "How expensive may a hotel be?"],
        ["doctor"],
        ["gc", "--dry-run"],
        ["expansion", "list"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_working_folder_stays_empty(released: Any, here: Path, arguments: list[str]) -> None:
    said(*arguments, released[0])
    assert list(here.iterdir()) == []


def test_a_question_follows_earlier_questions(released: Any) -> None:
    before = ("--follow", "How long does confidentiality last under the Acme NDA?")
    made = json.loads(rag("ask", "And the Cedar NDA?", released[0], *before, "--json").out)
    assert made["sources"][0]["document_id"] == "nda/cedar.txt"
    assert (
        made["trace"][0]["detail"]["rewritten"]
        == "How long does confidentiality last under the Cedar NDA?"
    )
