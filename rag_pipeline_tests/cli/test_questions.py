"""A user with documents only gets a leaderboard, which counts its synthetic questions."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer

from rag_pipeline.loading.queries import read_queries
from rag_pipeline_tests.testing.command_line import rag, refused, said
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    QUERIES,
    paid_contexts,
    write_corpus,
    write_documents,
    write_file,
)
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving


@pytest.fixture
def documents(here: Path) -> Path:
    write_documents(here / "docs", DOCUMENTS)
    return here


def test_from_documents_alone_to_a_leaderboard(documents: Path) -> None:
    written = rag("init", "mine", "--documents", "docs")
    assert "Next: rag questions" in written.out
    outcome = rag("questions")
    made = outcome.out
    assert outcome.err.startswith("  reading the documents: 0 of 4 documents\n")
    assert "  making at most 150 questions from 4 documents by rules: " in outcome.err
    assert made.splitlines()[-1] == "Next: rag run"
    assert " facts found; no question came of these:\n" in made
    assert ": the rules cannot turn the sentence into a question\n" in made
    reasons = made.partition(" facts found")[2].partition("To make more")[0]
    assert max(map(len, reasons.splitlines())) < 80, "a line for each reason"
    assert "English" not in made, "no document is in another language"
    rows = read_queries(Path("queries.jsonl"))
    assert len(rows) >= 3
    assert all(row.synthetic for row in rows)
    asked = {span.document_id for row in rows for span in row.gold_spans}
    assert asked < set(DOCUMENTS)
    silent = made.partition("4 documents read; no question came of these:\n")[2].splitlines()
    assert silent[0] == f"  {4 - len(asked)}: no fact in it became a question"
    assert "facts found" in silent[1], "no document is left out of these numbers"
    ran = rag("run")
    assert ran.code == 0
    assert ", so the first of the corpus file that may be served is chosen\n" in ran.out
    told = f"{len(rows)} of {len(rows)} questions were made from the documents and are easier"
    board = json.loads(rag("leaderboard", "--json").out)
    assert (board["queries"], board["synthetic"]) == (len(rows), len(rows))
    assert rag("report", "--output", "report.html").code == 0
    page = Path("report.html").read_text()
    for shown in (ran.out, page):
        assert told in shown
        assert f"of {len(rows)} questions (" in shown

    # A quote moves with its text. A question whose text was edited is left out and named.
    about = [{span.document_id for span in row.gold_spans} for row in rows]
    assert {"nda/cedar.txt"} in about and {"policy/leave.md"} in about
    edited = DOCUMENTS["nda/cedar.txt"].replace("two (2) years", "seven (7) years")
    moved = "# New heading\n\n" + DOCUMENTS["policy/leave.md"]
    write_documents(documents / "docs", {"nda/cedar.txt": edited, "policy/leave.md": moved})
    planned = rag("plan").out
    (lost,) = [row.query_id for row in rows if "two (2)" in (row.gold_spans[0].quote or "")]
    assert f"1 of {len(rows)} queries is left out, because their gold is not in" in planned
    assert f"query {lost}: " in planned and '"nda/cedar.txt" does not hold "' in planned
    assert "to make such questions again: rag questions\n" in planned


def test_questions_of_people_are_not_mixed_with_others_unasked(here: Path) -> None:
    write_corpus(here)
    before = Path("queries.jsonl").read_text()
    assert "holds 4 questions that people asked" in refused("questions")
    assert Path("queries.jsonl").read_text() == before
    assert rag("questions", "--add", "--number", "3").code == 0
    assert Path("queries.jsonl").read_text().startswith(before)
    records = read_queries(Path("queries.jsonl"))
    assert [r.synthetic for r in records] == [False] * 4 + [True] * 3
    ran = rag("run")
    assert "3 of 7 questions were made from the documents; figures mix both kinds" in ran.out
    assert " of 7 questions (" in ran.out


def test_questions_are_reviewed(documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rag("init", "mine", "--documents", "docs")
    rag("questions")
    ids = [r.query_id for r in read_queries(Path("queries.jsonl"))]
    with monkeypatch.context() as pressed:  # as click.prompt does after Ctrl-C
        pressed.setattr("typer.prompt", mock.Mock(side_effect=typer.Abort))
        stopped = rag("questions", "review")
    assert (stopped.code, stopped.err.partition(":")[0]) == (130, "stopped")
    said = iter(["a", "q", "r", "e", "How many weeks of paid leave may a parent take?", "y", "q"])
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(said))
    monkeypatch.setattr("typer.confirm", lambda *_, **__: next(said) == "y")
    assert "1 accepted, 0 rejected" in rag("questions", "review").out
    # The third is edited; some questions then need a confirmation.
    done = rag("questions", "review")
    assert done.code == 0
    assert "1 accepted, 1 rejected" in done.out
    left = read_queries(Path("queries.jsonl"))
    assert [r.query_id for r in left] == [ids[0], *ids[2:]]
    assert [r.metadata.get("review") for r in left][:2] == ["accepted", "accepted"]
    assert left[1].query == "How many weeks of paid leave may a parent take?"


def test_documents_that_state_nothing_are_named_as_the_reason(here: Path) -> None:
    write_documents(here / "docs", {"a.txt": "Thank you very much for all of this.\n"})
    rag("init", "mine", "--documents", "docs")
    told = refused("questions")
    assert "no question passed" in told and "English" not in told
    write_documents(here / "docs", {"a.txt": PORTUGUESE})
    assert "they read English and German" in refused("questions")
    assert not Path("queries.jsonl").exists()


PORTUGUESE = (
    "O contrato pode ser rescindido por qualquer das partes com um aviso prévio de trinta dias. "
    "A confidencialidade mantém-se durante três anos depois do fim do contrato.\n"
)
SICK = "A doctor's note is needed from the third day of sickness on."


def ask_for_questions(body) -> str:
    shown = body["messages"][-1]["content"]
    answered = []
    if SICK in shown:
        question = "When is a note of the doctor needed in sickness?"
        answered = [{"question": question, "answer": "from the third day", "quote": SICK}]
    return json.dumps(
        {"answered": answered, "unanswered": ["For how many weeks is every parent on paid leave?"]}
    )


def test_a_chat_model_writes_and_nothing_is_paid_twice(documents: Path) -> None:
    with serving(ask_for_questions) as server:
        file = write_file(Path(), queries="queries.jsonl", **paid_contexts(Path(), server.url))
        write_documents(Path("documents"), DOCUMENTS)
        foretold = json.loads(
            rag("questions", str(file), "--chat", "small", "--plan", "--json").out
        )
        assert (foretold["prompts"], server.requests) == (4, [])
        assert foretold["usd"] > 0
        asked = ("questions", str(file), "--chat", "small", "--unanswerable", "1")
        made = said(*asked)
        assert made.startswith("small: 4 prompts, about ") and "cost: 0.0" in made
        rows = read_queries(Path("queries.jsonl"))
        assert {row.tags for row in rows} == {("written",), ("unanswerable", "written")}
        assert len(server.requests) == 4
        again = rag(*asked)
        assert "cost: 0.0000 USD" in again.out
        assert len(server.requests) == 4
        unnamed = rag("questions", str(file), "--unanswerable", "1", "--json")
        assert unnamed.code == 0 and read_queries(Path("queries.jsonl")) == rows
        assert rag("questions", str(file), "--chat", "none").code == 0
        assert not any("written" in row.tags for row in read_queries(Path("queries.jsonl")))
        assert len(server.requests) == 4
        told = refused("questions", str(file), "--chat", "small", "--number", "0")
        assert "no question of small passed" in told


def test_rules_take_over_from_a_chat_model_that_fails(documents: Path) -> None:
    with serving(lambda body: Fault(400)) as server:
        file = write_file(Path(), queries="queries.jsonl", **paid_contexts(Path(), server.url))
        write_documents(Path("documents"), DOCUMENTS)
        made = rag("questions", str(file))
        assert made.code == 0 and server.requests
        assert "small failed: " in made.out
        assert "rules make the questions instead" in made.out
    rows = read_queries(Path("queries.jsonl"))
    assert rows and not any("written" in row.tags for row in rows)


def test_a_budget_that_is_spent_stops_it(documents: Path) -> None:
    with serving(ask_for_questions) as server:
        settings = paid_contexts(Path(), server.url, budget_usd=0.000001)
        file = write_file(Path(), queries="queries.jsonl", **settings)
        write_documents(Path("documents"), DOCUMENTS)
        stopped = rag("questions", str(file), "--chat", "small")
        assert stopped.code != 0
        assert "budget" in stopped.err
        assert server.requests == []
    assert not Path("queries.jsonl").exists()
    assert "no call, no cost" in said("questions", str(file), "--chat", "none", "--plan")


def test_questions_of_a_servers_log_are_sampled_and_labelled(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"chunking": "recursive_150", "contextualizer": "none", "embedding": "minilm"}
    write_corpus(here, configurations=[{**rule, "retriever": "dense"}])
    rates = "# Rates\n\n| stay | rate |\n| --- | --- |\n| Paris | 90 EUR |\n"
    (here / "documents/rates.md").write_text(rates)
    assert rag("run").code == 0
    asked = ["How many weeks of leave do parents get?", "Which hotel has a pool?", QUERIES[0][1]]
    Path("asked.jsonl").write_text("".join(json.dumps({"query": q}) + "\n" for q in asked * 2))
    made = json.loads(rag("questions", "import", "asked.jsonl", "--json").out)
    assert (made["asked"], made["distinct"], made["questions"]) == (6, 3, 2), "one is known"
    waiting = read_queries(Path("queries.unlabelled.jsonl"))
    said = iter(["7", "1", "no such words", "1", "", "n"])
    prompts: list[str] = []

    def prompt(text: str, **_: Any) -> str:
        prompts.append(text)
        return next(said)

    monkeypatch.setattr("typer.prompt", prompt)
    told = rag("questions", "label")
    assert told.code == 0
    assert "'7' is neither a passage's number" in told.out
    assert told.out.count("the passage does not contain these words, or they are one char") == 2
    assert "Copy the answering words from passage 1 (Enter: all of it)" in prompts
    added = read_queries(Path("queries.jsonl"))[-2:]
    assert [r.query_id for r in added] == [r.query_id for r in waiting]
    assert not any(r.synthetic for r in added)
    assert [len(r.gold_spans) for r in added] == [1, 0]
    assert added[1].tags == ("asked", "unanswerable")
    assert added[0].metadata["asked"] == 2
    assert read_queries(Path("queries.jsonl"))[:4] != added
    assert "no question is waiting" in rag("questions", "label").out
    assert "no new question" in refused("questions", "import", "asked.jsonl")
    text = DOCUMENTS["policy/leave.md"]
    passage = {"document_id": "policy/leave.md", "start": 0, "end": 30, "text": text[:30]}
    gone = {**passage, "document_id": "gone.md"}
    judged = {"query": "What is the rate in Paris?", "corpus": "tiny", "verdict": "helpful"}
    Path("judged.jsonl").write_text(json.dumps({**judged, "sources": [gone, passage]}))
    assert json.loads(rag("questions", "import", "judged.jsonl", "--json").out)["questions"] == 1
    said = iter(["1 2", text[2:14], "Paris · 90 EUR"])
    told = rag("questions", "label")
    assert told.out.count("(named by a user)") == 1
    assert "stay · rate; Paris · 90 EUR" in told.out, "rows as `rag search` shows them"
    first, row = read_queries(Path("queries.jsonl"))[-1].gold_spans
    assert (first.document_id, first.start, first.end) == ("policy/leave.md", 2, 14)
    assert rates[row.start : row.end] == "Paris | 90 EUR"
