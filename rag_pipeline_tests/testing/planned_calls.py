"""A corpus that asks a model in every step, and the counts of its plan and of the server's log."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from rag_pipeline.config import load_config
from rag_pipeline.pipeline.dry_run import PlannedStep
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import rule
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import ModelServer

_QUESTION = re.compile(r"<question>\n(.*?)\n</question>", re.DOTALL)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def reply(body: Body) -> str:
    """Answer by the words that a prompt shares with its question."""
    prompt = body["messages"][-1]["content"]
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    properties = schema.get("properties", {})
    found = _QUESTION.search(prompt)
    question = found[1] if found else ""
    asked = _words(question)
    alike = len(asked & _words(prompt.replace(question, ""))) / (len(asked) or 1)
    if "score" in properties:
        return json.dumps({"score": alike})
    if "missing" in properties:
        judged = {"level": "low", "used": False, "reason": "same subject"}
        return json.dumps({n: [] if n == "missing" else judged for n in properties})
    if '"YES" or "NO"' in body["messages"][0]["content"]:
        return "YES" if alike > 0.8 else "NO"
    return f"It is said in the rules, number {hashlib.sha256(prompt.encode()).hexdigest()}. [1]"


def settings_for(folder: Path, url: str, **changes: Any) -> dict[str, Any]:
    """Return a corpus with contexts, a reranker, a judge, answers and a context judge."""
    host = url.removeprefix("http://").removesuffix("/v1")
    prices = {"date": "2026-11-21", "models": {"m": {"input": 1.0, "output": 10.0}}}
    (folder / "prices.yaml").write_text(yaml.safe_dump({"providers": {host: prices}}))
    return {
        "prices": str(folder / "prices.yaml"),
        "chats": {"small": {"provider": "openai", "model": "m", "base_url": url}},
        "chunkings": {
            "markdown": {"method": "markdown", "max_characters": 120},
            "semantic": {"method": "semantic", "threshold": 1.0, "min_characters": 20},
        },
        "contextualizers": {"llm": {"method": "llm", "chat": "small"}},
        "retrievers": {
            "hybrid": {"method": "hybrid", "k": 15},
            "dense": {"method": "dense", "k": 15},
        },
        "rerankers": {"llm": {"method": "llm", "chat": "small", "candidates": 10}},
        "evaluation": {
            "relevance": {"judge": "llm", "chat": "small", "passages": 5},
            "answers": {"method": "llm", "chat": "small", "contexts": 4},
            "context": {"judge": "llm", "chat": "small", "contexts": 4},
        },
        "configurations": [
            rule("first", "markdown", "llm", "minilm", "hybrid", reranker="llm"),
            rule("second", "semantic", "llm", "minilm", "hybrid", reranker="llm"),
        ],
        **changes,
    }


def asked_by_step(file: Path, server: ModelServer) -> tuple[Counter[str], float]:
    """Run the corpus, and return the requests in the server's log by asset and the USD charged."""
    workspace = Workspace(load_config(file))
    asked: Counter[str] = Counter()
    spent, before = workspace.ledger.spent(), len(server.requests)
    for result in run(workspace.config):
        asked[result.step.asset] += len(server.requests) - before
        before = len(server.requests)
    return +asked, workspace.ledger.spent() - spent


def planned_by_step(plan: list[PlannedStep]) -> Counter[str]:
    planned: Counter[str] = Counter()
    for row in plan:
        asset = row.step.asset.replace("reranking", "retrieval_run")
        assert row.asks is not None
        planned[asset] += row.asks
    return +planned
