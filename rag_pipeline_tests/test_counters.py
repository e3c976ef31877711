"""The counts of a run are those of the server's log: every prompt, text and query that it got."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.config import load_config
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import rule, write_corpus, write_file
from rag_pipeline_tests.testing.model_faults import Failure, Fault, finished
from rag_pipeline_tests.testing.model_replies import Body, items_of
from rag_pipeline_tests.testing.model_server import ModelServer, serving


class Service:
    """A server for every use of a model, and the corpus that asks it."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder, self.server = folder, server
        remote = {"base_url": server.url, "max_concurrency": 4}
        self.chat = {"provider": "openai", "model": "m", **remote, "batch_poll_seconds": 0.01}
        own = {"provider": "openai", "model": "b", "dimensions": 8, "shorten": True, **remote}
        self.settings: dict[str, Any] = {
            "chats": {"small": self.chat},
            "contextualizers": {"llm": {"method": "llm", "chat": "small"}},
            "embeddings": {"own": own},
            "rerankers": {
                "none": {"method": "none"},
                "chat": {"method": "llm", "chat": "small", "candidates": 3},
                "jina": {"method": "jina", "model": "words", "candidates": 4, **remote},
            },
            "evaluation": {},
            "configurations": [rule("one", contextualizer="llm", embedding="own")],
            "gate": {"metrics": []},
        }
        file = write_corpus(folder, **self.settings)
        queries = file.parent / "queries.jsonl"
        records = [json.loads(line) for line in queries.read_text().splitlines()]
        facts = {"entities": {"TIME": ["five (5) years"]}}
        queries.write_text("".join(json.dumps({**one, **facts}) + "\n" for one in records))

    def counted(self) -> tuple[int, int]:
        """Run the corpus; return the counts of its steps and of the server's log."""
        before = self._logged()
        file = write_file(self.folder, **self.settings)
        told = sum(done.calls.made for done in run(load_config(file)))
        return told, self._logged() - before

    def _logged(self) -> int:
        single = sum(len(items_of(path, body)) for path, body, _ in self.server.requests)
        return single + len(self.server.batches.submitted)

    def add(self, name: str, **choices: str) -> None:
        self.settings["configurations"].append(
            rule(name, **{"contextualizer": "llm", "embedding": "own", **choices})
        )

    def edit(self, text: str) -> None:
        file = self.folder / "documents/policy/travel.md"
        file.write_text(f"# Travel\n\n{text} A hotel may cost at most 180 euros a night.\n")


def reply(body: Body) -> str:
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    fields = schema.get("properties", {})
    if "score" in fields:
        return '{"score": 0.5}'
    if "missing" in fields:
        part = {"level": "low", "used": False, "reason": "r"}
        return json.dumps({name: [] if name == "missing" else part for name in fields})
    if "MONEY" in fields:
        return json.dumps({name: [] for name in fields})
    if '"YES"' in body["messages"][0]["content"]:
        return "YES"
    asked = body["messages"][-1]["content"]
    return f"It is {len(asked)} long [1]."


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(reply, lambda path, body: failing(path, body)) as server:
        yield Service(tmp_path, server)


_fails: list[Failure] = []


def failing(path: str, body: Body) -> Failure:
    asks = path in ("chat/completions", "embeddings", "rerank")
    return _fails.pop() if _fails and asks else None


@pytest.mark.long
def test_the_counts_are_those_of_the_servers_log(service: Service) -> None:
    said: dict[str, tuple[int, int]] = {"first run": service.counted()}
    said["second run"] = service.counted()
    service.edit("Trains come first.")
    said["edited document"] = service.counted()
    service.settings["evaluation"] = {
        "relevance": {"judge": "llm", "chat": "small", "passages": 3},
        "answers": {"method": "llm", "chat": "small", "contexts": 2},
        "entities": {"extractor": "llm", "chat": "small"},
        "context": {"judge": "llm", "chat": "small", "contexts": 2},
    }
    service.add("reranked", reranker="chat")
    said["judges, answers and a reranker"] = service.counted()
    service.add("jina", reranker="jina")
    service.add("markdown", chunking="markdown")
    said["several configurations"] = service.counted()
    service.edit("Busy servers are asked again.")
    _fails.extend([Fault(503), Fault(429), finished("length"), Fault(500)])
    said["retries and a cut reply"] = service.counted()
    assert not _fails
    service.chat["batch"] = True
    service.edit("Batches are cheap.")
    said["batches"] = service.counted()
    service.settings["embeddings"]["own"]["dimensions"] = 4
    said["another embedding"] = service.counted()

    assert {name: told for name, (told, _) in said.items()} == {
        name: logged for name, (_, logged) in said.items()
    }
    assert len(said) == 8
    assert [name for name, (told, _) in said.items() if not told] == ["second run"]
    assert len(service.server.batches.submitted) > 0
