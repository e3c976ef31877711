"""`rag compare`, `rag explain`, `rag gate` and `rag report` over a corpus that has been run."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.cli.console import console
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.queries import save_queries
from rag_pipeline.evaluation.results import QUERIES
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import Outcome, rag, refused, said

Released = tuple[Path, Outcome]


def test_two_configurations_are_compared_metric_by_metric(released: Released) -> None:
    file, _ = released
    shown = said("compare", "default", "plain", "-c", file)
    lines = shown.splitlines()
    assert lines[:2] == ["A default", "B plain"]
    row = next(line.split() for line in lines if line.split()[:1] == ["AP@5"])
    assert row[-2:] == ["cannot", "tell"], "four queries can't tell anything"
    assert re.search(r"adjusted \(Holm\) for these \d+ metrics", shown)
    both = json.loads(rag("compare", "plain", "default", "--json", "-c", file).out)
    turned = json.loads(rag("compare", "default", "plain", "--json", "-c", file).out)
    for metric, found in both["metrics"].items():
        back = turned["metrics"][metric]["mean"]
        assert found["mean"] == (None if back is None else pytest.approx(-back))


def test_a_comparison_fits_into_80_columns(
    released: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 80)
    shown = said("compare", "default", "plain", "-c", released[0])
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert "cannot tell" in shown


def test_a_comparison_says_how_many_questions_are_synthetic(released: Released) -> None:
    workspace = Workspace(load_config(released[0]))
    queries, note = load_queries(workspace), QUERIES.note(workspace)
    made = [replace(queries[0], synthetic=True), *queries[1:]]
    save_queries(workspace, note["digest"], made, note["problems"], note["read"])
    outcome = rag("compare", "default", "plain", "-c", released[0])
    found = json.loads(rag("compare", "default", "plain", "--json", "-c", released[0]).out)
    save_queries(workspace, note["digest"], queries, note["problems"], note["read"])
    assert f"1 of {len(queries)} questions were made from the documents; figures mix" in outcome.out
    assert found["synthetic"] == 1


def test_a_release_is_compared_by_the_scores_kept_of_it(released: Released) -> None:
    file, _ = released
    best = rag("leaderboard", "--json", "-c", file)
    name = json.loads(best.out)["configurations"][0]["name"]
    found = json.loads(rag("compare", name, "release-000001", "--json", "-c", file).out)
    measured = [m for m in found["metrics"].values() if m["n"]]
    assert {m["mean"] for m in measured} == {0.0}
    assert 4 in {m["n"] for m in measured}
    assert all(m["mean"] is None for m in found["metrics"].values() if not m["n"])


def test_unknown_names_are_answered_with_the_known_ones(released: Released) -> None:
    file, _ = released
    known = "no configuration or release 'nope'; known: default, plain, rel"
    assert known in refused("compare", "default", "nope", "-c", file)
    told = "no query 'q9'; there are 4 queries, such as\n  q1  How long does confidentiality last"
    assert told in refused("explain", "q9", "-c", file)
    known = "no configuration 'nope'; there are: default, plain"
    assert known in refused("explain", "q1", "--configuration", "nope", "-c", file)
    assert "-k 15 is not one of: 1 to 10" in refused("explain", "q1", "-k", "15", "-c", file)


def test_a_query_is_explained_with_its_gold_text_and_what_was_found(released: Released) -> None:
    file, _ = released
    shown = said("explain", "q1", "--configuration", "plain", "-c", file)
    assert "q1  How long does confidentiality last under the Acme NDA?" in shown
    gold = shown.index("gold: nda/acme.txt[")
    assert "five (5) y" in shown[gold:].splitlines()[1]
    found = json.loads(rag("explain", "q1", "--json", "-c", file).out)
    assert set(found) == {"default", "plain"}
    for diagnosis in found.values():
        assert (diagnosis["reason"] == "answered") == (diagnosis["rank"] <= 5)
    detailed = [d for d in found.values() if d["retrieved"]]
    assert len(detailed) == 1, "passages of the one that is served"
    ranked = detailed[0]["retrieved"]
    assert next(p["rank"] for p in ranked if p["answers"]) == detailed[0]["rank"]


def test_the_gate_lets_through_what_is_served(released: Released) -> None:
    file, _ = released
    shown = said("gate", file)
    assert shown.startswith("allowed: ")
    assert "release-000001 serves this build already; the gate says of an equal build:" in shown
    decision = json.loads(rag("gate", file, "--json").out)
    assert decision["allowed"] is True
    assert re.match(
        r"AnswerPresence@5: allowed: .* these questions .* loss", decision["reasons"][1]
    )


def test_the_report_is_one_file(released: Released, here: Path) -> None:
    file, _ = released
    outcome = rag("report", "-c", file)
    assert (outcome.code, outcome.out) == (0, "wrote tiny.html\n")
    assert [path.name for path in here.iterdir()] == ["tiny.html"]
    page = Path("tiny.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    for wrong, message in ((".", "is a folder"), ("no/such/x.html", "there is no folder")):
        told = refused("report", "-c", file, "--output", wrong)
        assert f"--output {wrong}" in told
        assert message in told


def test_the_leaderboard_says_what_is_better(released: Released, monkeypatch: Any) -> None:
    from rag_pipeline.cli.console import console

    file, _ = released
    monkeypatch.setattr(console, "_width", 80)
    outcome = rag("leaderboard", "-c", file)
    assert max(map(len, outcome.out.splitlines()[:8])) <= 80
    header = next(line for line in outcome.out.splitlines() if "vs baseline" in line)
    assert "vs released" in header
    assert "cannot tell" in outcome.out
    assert "Baseline: default." in outcome.out
    board = json.loads(rag("leaderboard", "--json", "--sort", "P@3", "-c", file).out)
    assert board["compared_with"]["baseline"] == {"label": "baseline", "name": "default"}
    rows = {row["name"]: row["against"] for row in board["configurations"]}
    assert rows["default"]["baseline"] == {}
    assert rows["plain"]["baseline"]["P@3"]["verdict"] == "cannot tell"


def test_runs_and_gold_are_written_for_trec_eval(released: Released, tmp_path: Path) -> None:
    file, _ = released
    rag("leaderboard", "--trec", str(tmp_path), "-c", file)
    kinds = {
        f"{name}.{kind}.run" for name in ("default", "plain") for kind in ("chunks", "documents")
    }
    assert {path.name for path in tmp_path.iterdir()} == {"qrels.txt", *kinds}
    for path in tmp_path.iterdir():
        fields = [line.split(" ") for line in path.read_text().splitlines()]
        assert {len(line) for line in fields} == {4 if path.name == "qrels.txt" else 6}
    for name, first in (("default.chunks", "#"), ("plain.documents", "")):
        words = (tmp_path / f"{name}.run").read_text().split()[:6]
        assert (words[1], words[3], words[5]) == ("Q0", "1", name.partition(".")[0])
        assert ("#" in words[2]) == bool(first)
