"""The calls of a plan are the calls of the run, and planning writes nothing."""

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_pipeline.config import load_config
from rag_pipeline.errors import BudgetError
from rag_pipeline.pipeline.driver import make
from rag_pipeline.pipeline.dry_run import (
    RERANKING,
    PlannedStep,
    RunPlan,
    needed_calls,
    plan_run,
)
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    copy_corpus,
    question,
    read_questions,
    rule,
    write_corpus,
    write_documents,
    write_file,
    write_questions,
)
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import ModelServer, serving

ENTITIES = {"TIME": [["five (5) years"]]}


def reply(body: Body) -> str:
    """Answer as each prompt of the pipeline wants it, by its schema."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    properties = schema.get("properties", {})
    if "score" in properties:
        passage = body["messages"][-1]["content"]
        return json.dumps({"score": hashlib.sha256(passage.encode()).digest()[0] / 255})
    if "missing" in properties:
        judged = {"level": "low", "used": False, "reason": "same subject"}
        return json.dumps({n: [] if n == "missing" else judged for n in properties})
    if properties:
        return json.dumps({kind: [] for kind in properties})
    if '"YES" or "NO"' in body["messages"][0]["content"]:
        return "NO"
    return "It is of the policies. [1]"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving(reply) as running:
        yield running


def settings_for(folder: Path, url: str, **changes: Any) -> dict[str, Any]:
    """Return a corpus whose every step asks the server that may, and pays for it."""
    host = url.removeprefix("http://").removesuffix("/v1")
    usual = {"input": 1.0, "output": 10.0}
    models = {"m": usual, "e": usual, "rerank-2.5": usual}
    prices = {"providers": {host: {"date": "2026-11-21", "models": models}}}
    (folder / "prices.yaml").write_text(yaml.safe_dump(prices))
    remote = {"provider": "openai", "model": "e", "base_url": url, "dimensions": 8}
    limits = {"max_text_tokens": 8000, "max_request_tokens": 100_000}
    made: dict[str, Any] = {
        "prices": str(folder / "prices.yaml"),
        "chats": {"small": {"provider": "openai", "model": "m", "base_url": url}},
        "embeddings": {"remote": {**remote, **limits}},
        "contextualizers": {"none": {"method": "none"}, "llm": {"method": "llm", "chat": "small"}},
        "retrievers": {
            "dense": {"method": "dense", "k": 6},
            "split": {"method": "hybrid", "k": 6, "split_query": True},
        },
        "rerankers": {
            "none": {"method": "none"},
            "llm": {"method": "llm", "chat": "small", "candidates": 4},
            "voyage": {"method": "voyage", "base_url": url, "candidates": 3},
        },
        "evaluation": {
            "relevance": {"judge": "llm", "chat": "small", "passages": 2},
            "answers": {"method": "llm", "chat": "small", "contexts": 3},
            "context": {"judge": "llm", "chat": "small", "contexts": 3},
            "entities": {"extractor": "llm", "chat": "small"},
        },
        "configurations": [
            rule("by_llm", "recursive_150", "llm", "remote", "split", reranker="llm"),
            rule("by_voyage", embedding="remote", reranker="voyage"),
            rule("plain", embedding="remote"),
        ],
    }
    return {**made, **changes}


def write(folder: Path, **settings: Any) -> Path:
    file = write_corpus(folder, **settings)
    first, *others = read_questions(folder)
    write_questions(folder, [{**first, "entities": ENTITIES}, *others])
    return file


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ModelServer]]:
    """Yield the folder of a corpus that is current, and the server that it asks."""
    folder = tmp_path_factory.mktemp("built")
    with serving(reply) as running:
        list(run(load_config(write(folder, **settings_for(folder, running.url)))))
        yield folder, running


@pytest.fixture
def built(template: tuple[Path, ModelServer], tmp_path: Path) -> tuple[Path, ModelServer]:
    """Return the file of a copy of that corpus, to be changed, and the server."""
    folder, server = template
    copy_corpus(folder, tmp_path)
    return write_file(tmp_path, **settings_for(tmp_path, server.url)), server


def planned(file: Path) -> list[PlannedStep]:
    return plan_run(Workspace(load_config(file)))


def written(folder: Path) -> dict[str, str]:
    """Return the content of the store's files, and the rows of its databases.

    Left out are `files.sqlite`, where a comparison notes which files need no second look, and the
    time in `rag_processes` that each process renews.
    """
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        if path.name.startswith("files.sqlite"):
            continue
        if path.suffix == ".sqlite":
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
                lines = [line for line in connection.iterdump() if "rag_processes" not in line]
                found[path.name] = "\n".join(lines)
        elif not path.name.endswith(("-wal", "-shm")):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def group_of(step: Step) -> Step:
    """Return the step whose job makes a step."""
    if step.asset == RERANKING:
        return Step("retrieval_run", step.partition)
    return Step(step.row.made_by or step.asset, step.partition)


def billed_by_step(file: Path, server: ModelServer) -> Counter[Step]:
    """Run the corpus; return how many items the server worked on in each job."""
    billed: Counter[Step] = Counter()
    before = server.billed.total()
    for result in run(load_config(file)):
        billed[group_of(result.step)] += server.billed.total() - before
        before = server.billed.total()
    return billed


def agree(file: Path, server: ModelServer) -> dict[str, int | None]:
    """Compare a plan with the run after it; return the plan's calls, None if not exact."""
    store = file.parent / "store"
    before, asked = written(store), len(server.requests)
    plan = planned(file)
    assert written(store) == before
    assert len(server.requests) == asked
    expected: Counter[Step] = Counter()
    inexact = set()
    for row in plan:
        if row.calls is None or row.asks is None or not row.exact:
            inexact.add(group_of(row.step))
        else:
            expected[group_of(row.step)] += row.calls + row.asks
    made = billed_by_step(file, server)
    for step in {group_of(row.step) for row in plan} - inexact:
        assert made[step] == expected[step], step
    assert planned(file)[0].stale == 0
    assert not any(row.calls or row.asks or row.runs for row in planned(file))
    steps = {group_of(row.step): None for row in plan}
    return {str(s): None if s in inexact else expected[s] for s in steps}


def test_from_nothing_only_the_queries_are_known(tmp_path: Path, server: ModelServer) -> None:
    said = agree(write(tmp_path, **settings_for(tmp_path, server.url)), server)
    assert said["chunks recursive_150"] is None
    assert said["vector_index recursive_150.none.remote"] is None
    assert said["retrieval_run plain"] is None, "split shares its queries, in words not known yet"


def test_a_new_chunking_is_exact_up_to_the_search(
    tmp_path: Path, built: tuple[Path, ModelServer]
) -> None:
    file, server = built
    _forget(tmp_path, 3)
    chunkings = {"recursive_150": {"method": "recursive", "max_characters": 130}}
    write_file(tmp_path, **settings_for(tmp_path, server.url, chunkings=chunkings))
    said = agree(file, server)
    assert said["chunks recursive_150"] == 0
    assert said["contextualized_chunks recursive_150.llm"]
    assert said["vector_index recursive_150.llm.remote"] is None, "contexts are not written yet"
    assert said["vector_index recursive_150.none.remote"]
    assert said["relevance_labels plain"] is None, "what is found is not known"


def test_other_judges_and_rerankers_are_exact_where_the_index_stays(
    tmp_path: Path, built: tuple[Path, ModelServer]
) -> None:
    file, server = built
    changed = settings_for(tmp_path, server.url)
    changed["rerankers"]["llm"]["candidates"] = 6
    changed["rerankers"]["voyage"]["candidates"] = 5
    changed["retrievers"]["dense"]["k"] = 5
    changed["evaluation"]["relevance"]["passages"] = 4
    write_file(tmp_path, **changed)
    said = agree(file, server)
    # Four queries: two more passages each by prompts; one request each with five passages.
    assert said["retrieval_run by_llm"] == 4 * 2
    assert said["retrieval_run by_voyage"] == 4
    assert said["retrieval_run plain"] == 0
    assert said["relevance_labels by_voyage"] is None, "its order is not known before"
    assert said["relevance_labels plain"] is None, "those before it may judge the same passages"
    assert said["answers plain"] == 0


def test_a_new_question_leaves_those_known_that_were_asked_before(
    tmp_path: Path, built: tuple[Path, ModelServer]
) -> None:
    file, server = built
    new = question("q5", "Who made the leave policy?", "policy/leave.md", "Acme Rockets")
    write_questions(tmp_path, [*read_questions(tmp_path), new])
    plan = {row.step: row for row in planned(file)}
    assert plan[Step("retrieval_run", "by_llm")].calls == 1, "its vector"
    assert plan[Step(RERANKING, "by_llm")].asks == 4, "its passages alone"
    assert plan[Step("retrieval_run", "by_voyage")].calls == 1, "it does not split the query"
    assert plan[Step(RERANKING, "by_voyage")].asks == 1
    assert plan[Step("relevance_labels", "by_llm")].asks == 2
    made = billed_by_step(file, server)
    assert made[Step("retrieval_run", "by_llm")] == 1 + 4
    assert made[Step("retrieval_run", "by_voyage")] == 1 + 1


def test_a_deleted_document_takes_its_rows_and_its_question_along(
    tmp_path: Path, built: tuple[Path, ModelServer]
) -> None:
    file, server = built
    (tmp_path / "documents" / "policy" / "travel.md").unlink()
    reranking = {row.step: row for row in planned(file)}[Step(RERANKING, "by_llm")]
    assert reranking.asks == 1, "a chunk moves up in one of the last rows"
    chunkings = {"recursive_150": {"method": "recursive", "max_characters": 130}}
    write_file(tmp_path, **settings_for(tmp_path, server.url, chunkings=chunkings))
    chunks = {row.step: row for row in planned(file)}[Step("chunks", "recursive_150")]
    assert (chunks.stale, chunks.orphaned) == (3, 1), "it is not cut once more"


def test_a_changed_document_and_a_forgotten_answer(
    tmp_path: Path, built: tuple[Path, ModelServer]
) -> None:
    file, server = built
    text = DOCUMENTS["nda/cedar.txt"].replace("two (2) years", "seven (7) years")
    write_documents(tmp_path / "documents", {"nda/cedar.txt": text})
    said = agree(file, server)
    assert said["vector_index recursive_150.none.remote"] is None, "it is not loaded yet"
    _forget(tmp_path, 0)
    chunkings = {"recursive_150": {"method": "recursive", "max_characters": 150}}
    settings = settings_for(tmp_path, server.url, chunkings=chunkings)
    settings["evaluation"]["context"]["contexts"] = 2
    write_file(tmp_path, **settings)
    said = agree(file, server)
    # Run and answers stay: a judgement for each query and distinct answer.
    assert {s: n for s, n in said.items() if n} == {
        "answers by_llm": 4,
        "answers by_voyage": said["answers by_voyage"],
        "answers plain": said["answers plain"],
    }


def test_local_models_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    semantic = {"semantic": {"method": "semantic", "min_characters": 20}}
    file = write(
        tmp_path,
        chunkings=semantic,
        configurations=[{"chunking": "semantic", "embedding": "minilm", "retriever": "hybrid"}],
    )
    list(run(load_config(file)))
    semantic["semantic"]["threshold"] = 0.5
    write_file(
        tmp_path,
        chunkings=semantic,
        configurations=[{"chunking": "semantic", "embedding": "minilm", "retriever": "dense"}],
    )

    def never(*_: Any) -> None:
        raise AssertionError("a model was run")

    monkeypatch.setattr("rag_pipeline.models.providers.minilm.MiniLM._run", never)
    plan = {row.step.asset: row for row in planned(file)}
    assert (plan["chunks"].calls, plan["chunks"].exact) == (0, True), "all sentences are known"
    assert plan["vector_index"].chunks


def test_what_a_store_needs_are_the_calls_that_a_plan_would_look_up(
    tmp_path: Path, built: tuple[Path, ModelServer]
) -> None:
    file, _ = built
    workspace = Workspace(load_config(file))
    before = written(tmp_path / "store")
    needed = set(needed_calls(workspace))
    assert written(tmp_path / "store") == before
    # All that was asked so far is of the texts as they are: prompts, texts and passages.
    with sqlite3.connect(workspace.store.calls_path) as connection:
        assert needed == {key for (key,) in connection.execute("SELECT key FROM rag_answers")}


def test_a_step_s_budget_counts_exactly_its_own_calls(tmp_path: Path, server: ModelServer) -> None:
    settings = settings_for(tmp_path, server.url)
    file = write(tmp_path, **settings)
    workspace = Workspace(load_config(file))
    behind = [s for s in steps(workspace.config, "plain") if s.asset != "queries"]
    for before in behind[:3]:
        make(workspace, before)
    # A document changes that this step will not see: it reads the tables as they are.
    text = DOCUMENTS["nda/cedar.txt"].replace("two (2) years", "seven (7) years")
    write_documents(tmp_path / "documents", {"nda/cedar.txt": text})
    step = Step("vector_index", "recursive_150.none.remote")
    (own,) = plan_run(workspace, [step])
    assert own.exact and own.calls and own.usd

    write_file(tmp_path, **settings, budget_usd=0.9 * own.usd)
    with pytest.raises(BudgetError, match="a run would cost about"):
        RunPlan(Workspace(load_config(file)), [step]).estimate()
    assert not server.requests
    write_file(tmp_path, **settings, budget_usd=2 * own.usd)
    workspace = Workspace(load_config(file))
    RunPlan(workspace, [step]).estimate()
    make(workspace, step)
    assert server.billed.total() == own.calls


def _forget(folder: Path, count: int) -> None:
    """Delete some answers from the call cache."""
    with sqlite3.connect(folder / "store" / "calls.sqlite") as connection:
        connection.execute(
            "DELETE FROM rag_answers WHERE key IN"
            " (SELECT key FROM rag_answers ORDER BY key LIMIT ?)",
            (count,),
        )
