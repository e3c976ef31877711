"""The counts of a run are those of the server's log: every prompt, text and query that it got."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_pipeline.assistant import open_assistant
from rag_pipeline.config import load_config
from rag_pipeline.corpus import Corpus
from rag_pipeline_tests.testing import app_server
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
        self.edit("Trains come last.")
        (folder / "documents/policy/pets.md").write_text(
            "# Pets\n\nDogs stay at home on Fridays.\n"
        )
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

    def streamed(self, question: str) -> tuple[int, int]:
        """Ask for a streamed answer; return the charges of the ledger and the server's requests."""
        before = len(self.server.requests)
        self.settings["assistant"] = {"chat": "small"}
        corpus = Corpus.load(write_file(self.folder, **self.settings))
        charged = len([*corpus.workspace.ledger.charges()])
        with app_server.serving(open_assistant([corpus])) as app:
            asked = {"query": question, "stream": True}
            reply = httpx.post(f"{app.url}/v1/ask", json=asked, timeout=60, trust_env=False)
        assert "event: answer" in reply.text
        told = len([*corpus.workspace.ledger.charges()]) - charged
        return told, len(self.server.requests) - before

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
UNREADABLE, REFUSED = "That is hard to say in JSON.", "A hotel that no judge likes is refused."


def unreadable(reply: Body) -> Any:
    (choice,) = reply["choices"]
    return {
        **reply,
        "choices": [{**choice, "message": {**choice["message"], "content": UNREADABLE}}],
    }


def failing(path: str, body: Body) -> Failure:
    if REFUSED in str(body) and '"YES"' in str(body):  # the judge refuses
        return Fault(400)
    asks = path in ("chat/completions", "embeddings", "rerank")
    fits = _fails and (_fails[-1] is not unreadable or "response_format" in body)
    return _fails.pop() if asks and fits else None


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
    service.edit("Busy servers are asked again.")
    _fails.extend([Fault(503), Fault(429), finished("length"), Fault(500)])
    said["retries and a cut reply"] = service.counted()
    assert not _fails
    service.edit("Some replies are no scores.")
    _fails.extend([unreadable] * 4)
    said["replies that are repaired"] = service.counted()
    assert not _fails
    assert sum(UNREADABLE in str(body) for body in service.server.bodies) >= 2, "quoted in repairs"
    service.edit(REFUSED)
    said["a refused text"] = service.counted()
    refused = [b for b in service.server.bodies if failing("chat/completions", b) is not None]
    assert refused, "the judge was asked about it"
    service.edit("The text is gone.")
    (service.folder / "documents/policy/pets.md").unlink()
    said["a deleted document"] = service.counted()
    said["a streamed answer"] = service.streamed("How expensive may a hotel be?")
    service.add("jina", reranker="jina")
    service.add("markdown", chunking="markdown")
    said["several configurations"] = service.counted()
    service.chat["batch"] = True
    service.edit("Batches are cheap.")
    said["batches"] = service.counted()
    service.settings["embeddings"]["own"]["dimensions"] = 4
    said["another embedding"] = service.counted()

    assert {name: told for name, (told, _) in said.items()} == {
        name: logged for name, (_, logged) in said.items()
    }
    assert len(said) == 12
    assert [name for name, (told, _) in said.items() if not told] == ["second run"]
    assert len(service.server.batches.submitted) > 0
