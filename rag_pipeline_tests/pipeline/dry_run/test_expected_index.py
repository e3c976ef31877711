"""A plan counts the calls that a change of documents or settings will need."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_pipeline.config import Lexical, load_config
from rag_pipeline.config.models import LocalEmbedder
from rag_pipeline.errors import BudgetError
from rag_pipeline.evaluation import answers
from rag_pipeline.pipeline.driver import load_and_cut
from rag_pipeline.pipeline.dry_run import RunPlan, plan_run
from rag_pipeline.pipeline.dry_run.expected_index import (
    Change,
    LastIndex,
    Row,
    expect_index,
    reorder,
)
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import (
    copy_corpus,
    rule,
    write_corpus,
    write_file,
    write_questions,
)
from rag_pipeline_tests.testing.model_server import ModelServer, serving
from rag_pipeline_tests.testing.planned_calls import (
    asked_by_step,
    planned_by_step,
    reply,
    settings_for,
)

FIRMS = "Acme Birch Cedar Dune Elm Fjord".split()
SUBJECTS = {
    "leave": "Parents at {firm} take {n} weeks of paid leave after a birth. A doctor confirms it.",
    "travel": "A hotel for staff of {firm} costs at most {n}0 euros a night. Trains go first.",
    "data": "The {firm} archive keeps client records for {n} years. Backups are encrypted.",
    "notice": "Contracts with {firm} end {n} months after written notice. Email is not enough.",
    "expenses": "Expenses reach the {firm} accountants within {n} days. Receipts are attached.",
}
QUESTIONS = {
    f"{firm}-{subject}": text.format(firm=firm)
    for number, firm in enumerate(FIRMS)
    for subject, text in list(
        {
            "leave": "How many weeks of leave do parents at {firm} take?",
            "travel": "What may a hotel cost for staff of {firm}?",
            "data": "How long does {firm} keep client records?",
        }.items()
    )[number % 3 :: 3]
}


def document(firm: str, number: int, subjects: dict[str, str] = SUBJECTS) -> str:
    parts = (
        f"## {subject.title()}\n\n{text.format(firm=firm, n=number + place)}\n"
        for place, (subject, text) in enumerate(subjects.items(), 2)
    )
    return f"# Rules of {firm}\n\n" + "\n".join(parts)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ModelServer]]:
    """Yield the folder of a corpus that is current, and the server that it asks."""
    folder = tmp_path_factory.mktemp("built")
    with serving(reply) as server:
        file = write_corpus(folder, **settings_for(folder, server.url))
        shutil.rmtree(folder / "documents")
        (folder / "documents").mkdir()
        for number, firm in enumerate(FIRMS):
            (folder / f"documents/{firm}.md").write_text(document(firm, number))
        gold = ({"document_id": f"{query_id.partition('-')[0]}.md"} for query_id in QUESTIONS)
        write_questions(
            folder,
            (
                {"query_id": query_id, "query": query, "gold_spans": [span]}
                for (query_id, query), span in zip(QUESTIONS.items(), gold, strict=True)
            ),
        )
        list(run(load_config(file)))
        yield folder, server


def edited(folder: Path, url: str) -> dict[str, Any]:
    text = document("Cedar", 2).replace("costs at most", "never costs more than")
    (folder / "documents/Cedar.md").write_text(text)
    return {}


def with_configuration(folder: Path, url: str) -> dict[str, Any]:
    settings = settings_for(folder, url)
    new = rule("third", "markdown", "none", "minilm", "hybrid", reranker="llm")
    settings["contextualizers"]["none"] = {"method": "none"}
    return {**settings, "configurations": [*settings["configurations"], new]}


Edit = Callable[[Path, str], dict[str, Any]]


@pytest.mark.parametrize("change", [edited, with_configuration])
def test_planned_calls_are_near_the_calls_that_the_server_logs(
    tmp_path: Path, template: tuple[Path, ModelServer], change: Edit
) -> None:
    folder, server = template
    copy_corpus(folder, tmp_path)
    file = write_file(tmp_path, **settings_for(tmp_path, server.url))
    settings = change(tmp_path, server.url)
    if settings:
        file = write_file(tmp_path, **settings)
    workspace = Workspace(load_config(file))
    load_and_cut(workspace)
    before = len(server.requests)
    plan = plan_run(workspace)
    planned, usd = planned_by_step(plan), sum(row.usd or 0.0 for row in plan)
    assert len(server.requests) == before
    asked, paid = asked_by_step(file, server)
    assert planned.total() == pytest.approx(asked.total(), rel=0.2), (planned, asked)
    assert planned["contextualized_chunks"] == asked["contextualized_chunks"]
    assert usd > 0.8 * paid, "a budget of four fifths of the cost would be refused"


def test_a_run_that_would_pass_its_budget_is_refused(
    tmp_path: Path, template: tuple[Path, ModelServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A calibration takes minutes, and no call depends on it.
    monkeypatch.setattr(answers, "calibrated", lambda *_: pytest.fail("a plan calibrates"))
    folder, server = template
    copy_corpus(folder, tmp_path)
    file = write_file(tmp_path, **settings_for(tmp_path, server.url))
    edited(tmp_path, server.url)
    workspace = Workspace(load_config(file))
    load_and_cut(workspace)
    before, spent = len(server.requests), workspace.ledger.spent()
    usd = sum(row.usd or 0.0 for row in plan_run(workspace))
    tight = settings_for(tmp_path, server.url, budget_usd=spent + 1.1 * usd)
    workspace = Workspace(load_config(write_file(tmp_path, **tight)))
    with pytest.raises(BudgetError, match="a run would cost about"):
        RunPlan(workspace, steps(workspace.config)).estimate()
    assert len(server.requests) == before, "and nothing was asked"


def test_a_new_chunk_gets_the_vector_of_the_chunks_that_it_resembles(
    tmp_path: Path, template: tuple[Path, ModelServer]
) -> None:
    folder, _ = template
    workspace = Workspace(load_config(folder / "tiny.yaml"))
    table, embedder = workspace.vector_index("markdown.llm.minilm"), workspace.embedder("minilm")
    assert isinstance(embedder, LocalEmbedder)
    rows = list(table.read_rows(table.schema.names, ["Acme.md"]))
    leave, travel = (next(r for r in rows if said in r["text"]) for said in ("birth", "hotel"))
    texts = [leave["text"], f"{travel['text']} Trains are late.", "Nobody may bring llamas."]
    change = Change(
        stale=frozenset({"Acme.md"}),
        orphaned=frozenset({"Birch.md"}),
        chunks={
            "Acme.md": [
                {**leave, "chunk_id": f"Acme.md#{n}-{n + 1}", "text": text, "context": "unknown"}
                for n, text in enumerate(texts)
            ]
        },
    )
    last = LastIndex(table, table.version, None, embedder, is_comparable=True)
    expected = expect_index(last, change, Lexical(), tmp_path)
    found = expected.index.take(np.arange(len(expected.index)), table.schema.names).to_pylist()
    assert {row["document_id"] for row in found} == {f"{firm}.md" for firm in FIRMS} - {"Birch.md"}
    same, longer, new = (row for row in found if row["document_id"] == "Acme.md")
    for row, old in ((same, leave), (longer, travel)):
        assert row["context"] == old["context"]
        assert row["vector"] == pytest.approx(old["vector"], abs=1e-6)
        assert expected.origins[row["text"]] == old["text"]
    assert new["context"] is None and new["text"] not in expected.origins
    assert new["vector"] == pytest.approx(embedder.embed([texts[2]], "document")[0], abs=1e-6)


def test_a_chunk_that_the_reranker_has_not_scored_may_get_any_rank() -> None:
    places = []
    for number in range(20):
        rows: list[Row] = [{"chunk_id": f"{number} {n}", "text": f"{n}"} for n in range(7)]
        reorder(rows, {"0": 0.5, "1": 0.9, "3": 0.7, "4": 0.6, "6": 1.0}, 5)
        texts = [row["text"] for row in rows]
        assert texts[5:] == ["5", "6"], "below the reranker's chunks"
        assert [text for text in texts if text in "0134"] == ["1", "3", "4", "0"]
        assert [row["score"] for row in rows if row["text"] in "134"] == [0.9, 0.7, 0.6]
        assert [row["score"] for row in rows] == sorted((r["score"] for r in rows), reverse=True)
        places.append(texts.index("2"))
    assert {2, 3, 4} <= set(places)
    assert sum(places) > 20 * 2, "lower ranks are more likely"
