"""The judgements of a built corpus, with a chat model that fails on some of them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Judged
from rag_pipeline.evaluation import answers, quality
from rag_pipeline.evaluation.context_quality.llm import judgement_schema
from rag_pipeline.evaluation.entities.llm import ENTITIES_SCHEMA
from rag_pipeline.evaluation.results import JUDGED
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.evaluation.slices import context_breakdown
from rag_pipeline.pipeline.planning import Step, is_incomplete, plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import (
    copy_corpus,
    read_questions,
    rule,
    write_corpus,
    write_file,
    write_questions,
)
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import ModelServer, serving

RULE = rule("one")
LLM: dict[str, dict[str, Any]] = {
    "relevance": {"judge": "llm", "chat": "judge", "passages": 3},
    "answers": {"method": "llm", "chat": "judge", "contexts": 3},
    "entities": {"extractor": "llm", "chat": "judge"},
    "context": {"judge": "llm", "chat": "judge", "contexts": 3},
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus that is indexed, searched and evaluated without any chat model."""
    folder = tmp_path_factory.mktemp("built")
    file = write_corpus(folder, configurations=[RULE])
    lines = read_questions(folder)
    lines[0]["entities"] = {"TIME": [["five years"]]}
    lines[1]["entities"] = {"LOCATION": [["Switzerland"]]}
    lines[3]["entities"] = {"MONEY": [["EUR 180"]]}
    write_questions(folder, lines)
    list(run(load_config(file)))
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    copy_corpus(built, tmp_path / "corpus")
    return tmp_path / "corpus"


@contextmanager
def judged_by(
    folder: Path, answer: Any, **evaluation: Any
) -> Iterator[tuple[Workspace, ModelServer]]:
    """Let a chat model judge the built corpus."""
    with serving(answer) as server:
        impatient = {"patience_seconds": 0.2, "max_concurrency": 1}
        chat = {"provider": "openai", "model": "judge", "base_url": server.url, **impatient}
        file = write_file(
            folder, configurations=[RULE], chats={"judge": chat}, evaluation=evaluation
        )
        yield Workspace(load_config(file)), server


def prompt_of(body: dict[str, Any]) -> str:
    """Return the last message with data; a repair asks after it."""
    said = [str(message["content"]) for message in body["messages"]]
    return next(text for text in reversed(said) if "</question>" in text or "</answer>" in text)


# --- without a chat model ---


def test_everything_is_made_offline_and_shown_in_the_leaderboard(built: Path) -> None:
    workspace = Workspace(load_config(built / "tiny.yaml"))
    scores = read_scores(workspace, "one")
    assert scores["EntityF1"]["q3"] is None, "not annotated"
    assert scores["EntityRecall"]["q1"] == 1.0
    assert all(value is not None for value in scores["ContextRelevance"].values())
    given = answers.load_answers(workspace, "one")
    text = (built / "documents/nda/acme.txt").read_text()
    (first, *_) = given["q1"].citations
    assert text[first.start : first.end] == first.text
    row = json.loads((built / "store/tiny/evaluation/leaderboard.json").read_text())
    metrics = row["configurations"][0]["metrics"]
    assert (metrics["EntityF1"]["n"], metrics["EntityF1"]["missing"]) == (3, 1)
    assert metrics["ContextRelevance"]["n"] == 4
    for asset in ("answers", "entity_scores", "context_scores"):
        assert JUDGED[asset].is_current(workspace, "one")


def test_a_changed_setting_makes_stale_only_what_follows_from_it(folder: Path) -> None:
    def stale(**evaluation: Any) -> set[str]:
        file = write_file(folder, configurations=[RULE], evaluation=evaluation)
        workspace = Workspace(load_config(file))
        return {s.asset for s in steps(workspace.config) if plan_step(workspace, s).must_run}

    assert stale() == set()
    assert stale(entities={"extractor": "rules", "similarity": 95}) == {"entity_scores"}
    assert stale(context={"judge": "rules", "low": 0.2}) == {"context_scores"}
    assert stale(health={"relevance": 0.1}) == {"leaderboard"}
    assert stale(answers={"method": "extractive", "sentences": 1}) == {"answers", "release"}


# --- with one ---


def test_labels_of_a_judge_replace_gold_and_are_held_against_it(folder: Path) -> None:
    def answer(body: dict[str, Any]) -> str:
        passage = prompt_of(body).split("<question>")[0]
        return "YES" if "five (5) years" in passage or "180 euros" in passage else "No."

    with judged_by(folder, answer, relevance=LLM["relevance"]) as (workspace, server):
        note = quality.update_labels(workspace, "one")
        assert (note["judged"], note["missing"], len(server.requests)) == (12, 0, 12)
        labels = quality.load_labels(workspace, "one")
        summaries = quality.update_scores(workspace, "one", labels)
        assert JUDGED["relevance_labels"].is_current(workspace, "one")
        assert plan_step(workspace, Step("relevance_labels", "one")).must_run is False
        quality.update_labels(workspace, "one")
        assert len(server.requests) == 12, "nothing is asked twice"
    found = note["agreement"]
    assert found["n"] == 12
    # gold says yes of the passages with the four answers; the judge knows only two of these
    assert found["both_yes"] + found["only_gold"] >= 3
    assert 0 < found["kappa"] < 1
    presence = summaries["AnswerPresence@3"]
    assert (presence.mean, presence.n) == (sum(any(v) for v in labels.values()) / 4, 4)
    settled = sum(any(v) for v in labels.values())
    presence = summaries["AnswerPresence@5"]
    assert (presence.n, presence.missing) == (settled, 4 - settled), "three passages were judged"
    assert summaries["P@5"].n == 0, "which no three labels settle"
    assert summaries["R@3"].n == 0
    assert summaries["SpanRecall@3"].n == 4, "characters are still measured by gold"


def test_a_failing_judge_leaves_items_missing_and_is_asked_for_those_alone(folder: Path) -> None:
    broken = True

    def answer(body: dict[str, Any]) -> str | Fault:
        if broken and "hotel" in prompt_of(body).casefold():
            return Fault(400)
        if broken and "doctor's note is needed" in prompt_of(body).split("<question>")[0]:
            return "Perhaps."
        return "YES"

    with judged_by(folder, answer, relevance=LLM["relevance"]) as (workspace, server):
        ran = [str(result.step) for result in run(workspace.config) if result.ran]
        assert ran[:3] == ["relevance_labels one", "answer_presence one", "leaderboard"]
        file = JUDGED["relevance_labels"].file("one")
        first = workspace.store.read_note(file)
        assert first["missing"] > 0
        assert first["judged"] + first["missing"] == 12
        labels = quality.load_labels(workspace, "one")
        failed = sum(not any(of_query) for of_query in labels.values())
        assert failed < sum(None in of_query for of_query in labels.values()), "a YES settles it"
        board = json.loads((folder / "store/tiny/evaluation/leaderboard.json").read_text())
        presence = board["configurations"][0]["metrics"]["AnswerPresence@3"]
        assert (presence["mean"], presence["n"], presence["missing"]) == (1.0, 4 - failed, failed)
        step = Step("relevance_labels", "one")
        assert plan_step(workspace, step).must_run and is_incomplete(workspace, step)

        broken = False
        asked = len(server.requests)
        again = [str(result.step) for result in run(workspace.config) if result.ran]
        assert again[:3] == ran[:3], "what follows is measured again"
        assert len(server.requests) - asked == first["missing"]
        second = workspace.store.read_note(file)
        assert (second["judged"], second["missing"]) == (12, 0)
        assert not any(result.ran for result in run(workspace.config))


def test_answers_entities_and_contexts_by_a_chat_model(folder: Path) -> None:
    broken = True

    def answer(body: dict[str, Any]) -> str | Fault:
        prompt = prompt_of(body)
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if schema is None:
            if broken and "Dune Sand" in prompt.split("<question>")[1]:
                return Fault(400)
            # The clauses of both agreements score nearly alike.
            after = "two (2)" in prompt.partition("five (5)")[0]
            return f"It lasts for five (5) years [{1 + after}]. See also [9]."
        if schema == ENTITIES_SCHEMA:
            kinds: dict[str, list[str]] = {kind: [] for kind in schema["required"]}
            return json.dumps({**kinds, "TIME": ["five (5) years", "made up"]})
        assert schema == judgement_schema(3, overall=True)
        if broken and "doctor" in prompt.split("<question>")[1]:
            return "not even JSON"
        part = {"level": "high", "used": True, "reason": "It gives the term."}
        names = [f"context_{n}" for n in (3, 2, 1)]
        low = {**part, "level": "low", "used": False}
        more = {"overallAssessment": "The first alone would do.", "context_1": part}
        return json.dumps({"missing": ["x"], **dict.fromkeys(names, low), **more})

    wanted = {name: LLM[name] for name in ("answers", "entities", "context")}
    wanted["context"] = {**LLM["context"], "overall": True}
    with judged_by(folder, answer, **wanted) as (workspace, server):
        configuration = workspace.config.configuration("one")

        def update() -> list[dict[str, Any]]:
            return [
                answers.update_answers(workspace, configuration),
                quality.update_entity_scores(workspace, "one"),
                quality.update_context_scores(workspace, "one"),
            ]

        notes = update()
        assert [note["missing"] for note in notes] == [1, 1, 2]
        assert notes[0]["flagged"] == 3
        assert all(note["errors"] for note in (notes[0], notes[2]))
        given = answers.load_answers(workspace, "one")
        assert given["q2"] is None
        assert any("[9] is cited" in problem for problem in given["q1"].problems)
        scores = read_scores(workspace, "one")
        assert scores["EntityF1"] == {"q1": 1.0, "q2": None, "q3": None, "q4": 1.0}, (
            "no passage supports the model's answer to q4, so a quotation replaces it"
        )
        # (1 + 0.3 + 0.3) / 3 - 0.15 for the missing item
        relevance = pytest.approx(1.6 / 3 - 0.15)
        assert scores["ContextRelevance"] == {
            "q1": relevance,
            "q2": None,
            "q3": None,
            "q4": relevance,
        }
        assert notes[2]["health"]["queries"] == 2

        # Reasons and overall judgements are kept, and shown by query and by position.
        kept = quality.load_judgements(workspace, "one")
        assert sorted(kept) == ["q1", "q4"]
        assert kept["q1"].contexts[0] == Judged("high", True, "It gives the term.")
        assert kept["q1"].overall == "The first alone would do."
        parts = context_breakdown(workspace, "one", scores, {})
        assert [(p.name, p.measured["relevant"].mean) for p in parts[:3]] == [
            ("1", 1.0),
            ("2", 0.0),
            ("3", 0.0),
        ]
        (counted,) = (p for p in parts if p.kind == "number of contexts")
        assert (counted.name, counted.measured["ContextRelevance"].mean) == ("3 to 4", relevance)
        lengths = [p for p in parts if p.kind == "characters of contexts"]
        assert sum(p.measured["ContextRelevance"].n for p in lengths) == 2
        assert notes[2]["health"]["raw_relevance"] == relevance

        broken = False
        asked = len(server.requests)
        assert [note["missing"] for note in update()] == [0, 0, 0]
        # one answer, the quotation that replaces it, and the contexts of two queries
        assert len(server.requests) - asked == 1 + 1 + 2
        assert all(JUDGED[a].is_current(workspace, "one") for a in ("answers", "entity_scores"))
