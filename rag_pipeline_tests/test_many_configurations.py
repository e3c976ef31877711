"""Many configurations over remote models: paid calls and served results."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline import indexing
from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import Totals
from rag_pipeline.config import load_config
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation import answers, quality, runs
from rag_pipeline.evaluation.leaderboard import update_leaderboard
from rag_pipeline.evaluation.queries import update_queries
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.release.publishing import publish
from rag_pipeline.search.vector_index import indexed_text
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import QUERIES, write_corpus, write_file
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_replies import score_of
from rag_pipeline_tests.testing.model_server import ModelServer, serving

SECRET = "a-secret-of-nobody"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("PLANTED_KEY", SECRET)
    with serving() as started:
        yield started


def embeddings(server: ModelServer) -> dict[str, Any]:
    shared = {"base_url": server.url, "api_key_env": "PLANTED_KEY", "max_texts": 5}
    return {
        "own": {"provider": "openai", "model": "own", "dimensions": 16, "shorten": True, **shared},
        "voyage": {"provider": "voyage", "dimensions": 256, **shared},
    }


def rerankers(server: ModelServer, **changes: Any) -> dict[str, Any]:
    remote = {"base_url": server.url, "api_key_env": "PLANTED_KEY"}
    return {
        "none": {"method": "none"},
        "jina": {"method": "jina", "model": "words", "candidates": 8, **remote, **changes},
    }


def build(workspace: Workspace) -> CallCounts:
    """Bring all tables and runs up to date; return the calls."""
    counts = CallCounts()
    config = workspace.config
    indexing.update_documents(workspace)
    update_queries(workspace)
    configurations = list(config.all_configurations.values())
    for chunking in dict.fromkeys(c.chunking for c in configurations):
        indexing.update(workspace, "chunks", chunking)
    for key in dict.fromkeys(c.context_key for c in configurations):
        indexing.update(workspace, "contextualized_chunks", key)
    for key in dict.fromkeys(c.vector_key for c in configurations):
        counts.add(indexing.update(workspace, "vector_index", key).calls)
    for configuration in configurations:
        note = runs.update_run(workspace, configuration)
        counts.add(CallCounts(**note["calls"]))
    return counts


def test_a_release_is_searched_through_the_models_it_was_evaluated_with(
    tmp_path: Path, server: ModelServer
) -> None:
    rule = {"chunking": "recursive_150", "contextualizer": "structural", "retriever": "dense"}
    changes: dict[str, Any] = {
        "embeddings": embeddings(server),
        "rerankers": rerankers(server),
        "retrievers": {"dense": {"method": "dense", "k": 10}},
        "configurations": [{"name": "remote", **rule, "embedding": "own", "reranker": "jina"}],
        "gate": {"metrics": ["AnswerPresence@5"]},  # all that is measured here
    }
    file = write_corpus(tmp_path, **changes)
    workspace = Workspace(load_config(file))
    build(workspace)
    (configuration,) = workspace.config.all_configurations.values()
    quality.update_scores(workspace, configuration.name)
    update_leaderboard(workspace)
    publish(workspace)

    evaluated = RUN.rows(workspace, "remote")
    assert RUN.note(workspace, "remote")["latency_ms"] > 0, "some are asked one by one"
    asked = len(server.requests)
    corpus = Corpus.load(file)
    for query_id, query, *_ in QUERIES:
        expected = [row for row in evaluated if row["query_id"] == query_id]
        found = corpus.search(query, k=10)
        assert [c.chunk_id for c in found] == [row["chunk_id"] for row in expected]
        scores = [score_of(query, indexed_text(c.context, c.text)) for c in found[:8]]
        assert [c.score for c in found[:8]] == pytest.approx(scores)
        assert scores == sorted(scores, reverse=True)
        assert {c.score for c in found[8:]} <= {min(scores)}, "the others follow"
    assert len(server.requests) == asked, "questions that were paid for are not sent again"
    corpus.search("something new", k=1)
    assert [request.path for request in server.requests[asked:]] == ["embeddings", "rerank"]

    held = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(held) > 10
    assert not [path for path in held if SECRET.encode() in path.read_bytes()]
    assert server.keys == {f"Bearer {SECRET}"}

    # a reranker that fails: an error that names the query, or the order is kept and counted
    failing = lambda path, body: Fault(400, "no") if path == "rerank" else None  # noqa: E731
    with serving(faults=failing) as other:
        changes["embeddings"] = embeddings(server)
        for on_error in ("fail", "keep_order"):
            changes["rerankers"] = rerankers(other, on_error=on_error)
            again = Workspace(load_config(write_file(tmp_path, **changes)))
            if on_error == "fail":
                with pytest.raises(ProviderError, match=r"query 'How long .*: no \(HTTP 400\)"):
                    runs.update_run(again, configuration)
            else:
                note = runs.update_run(again, configuration)
                assert len(note["not_reranked"]) == len(QUERIES)
                assert "q1: " in note["not_reranked"][0]


def test_what_a_search_costs_is_told_from_the_calls_that_were_made() -> None:
    """0.06 dollars for 30 of 40 inputs of 10 queries: 0.08 in all, 0.008 each."""
    totals = Totals(usd=0.16)
    assert runs.usd_per_query(totals, 0.10, 0, CallCounts(30, 10), 10) == pytest.approx(0.008)
    assert runs.usd_per_query(totals, 0.16, 0, CallCounts(), 10) == 0.0, "nothing is asked"
    assert runs.usd_per_query(Totals(unpriced=1), 0.0, 0, CallCounts(5, 0), 10) is None
    assert runs.usd_per_query(None, 0.0, 0, CallCounts(5, 0), 10) is None


def test_a_sweep_of_contexts_judges_answers_and_reranker_pays_for_each_prompt_once(
    tmp_path: Path,
) -> None:
    def answer(body: dict[str, Any]) -> str:
        if "response_format" not in body:
            return "YES" if "YES" in str(body["messages"]) else "It is of a policy."
        schema = body["response_format"]["json_schema"]["schema"]
        return json.dumps(_example(schema, schema))

    with serving(answer) as server:
        remote = {"base_url": server.url}
        chat = {"provider": "openai", "model": "m", **remote}
        asked = {"chat": "small"}
        file = write_corpus(
            tmp_path,
            chats={"small": chat},
            chunkings={
                "small": {"method": "recursive", "max_characters": 150},
                "large": {"method": "recursive", "max_characters": 250},
                "markdown": {"method": "markdown"},
            },
            contextualizers={"none": {"method": "none"}, "llm": {"method": "llm", **asked}},
            embeddings={"own": embeddings(server)["own"]},
            retrievers={"dense": {"method": "dense", "k": 6}},
            rerankers=rerankers(server, candidates=4),
            evaluation={
                "relevance": {"judge": "llm", "passages": 2, **asked},
                "answers": {"method": "llm", "contexts": 2, **asked},
                "context": {"judge": "llm", **asked},
                "entities": {"extractor": "llm", **asked},
            },
            configurations=[
                {
                    "chunking": "*",
                    "contextualizer": "*",
                    "embedding": "own",
                    "retriever": "dense",
                    "reranker": "*",
                }
            ],
        )
        workspace = Workspace(load_config(file))
        configurations = list(workspace.config.all_configurations.values())
        assert len(configurations) == 12

        def judge(workspace: Workspace) -> None:
            for one in configurations:
                quality.update_labels(workspace, one.name)
                answers.update_answers(workspace, one)
                quality.update_entity_scores(workspace, one.name)
                quality.update_context_scores(workspace, one.name)

        build(workspace)
        judge(workspace)
        sent = Counter(
            (path, text) if path == "embeddings" else (path, json.dumps(body))
            for path, body, _ in server.requests
            for text in (body["input"] if path == "embeddings" else [""])
        )
        kinds = Counter(path for path, _ in sent)
        assert kinds["chat/completions"] > 60
        assert kinds["rerank"] > 12
        assert max(sent.values()) == 1, "each distinct prompt is billed once"
        assert not server.wasted

        before = len(server.requests)
        for configuration in configurations:
            workspace.store.drop_table(f"vector_index.{configuration.vector_key}")
        again = Workspace(load_config(file))
        build(again)
        judge(again)
        assert len(server.requests) == before, "built anew from what was paid for"


def _example(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """Return a small value of a JSON schema."""
    if "$ref" in schema:
        return _example(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], root)
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: _example(properties[name], root) for name in schema.get("required", [])}
        case "array":
            return []
        case "number" | "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    return "word"
