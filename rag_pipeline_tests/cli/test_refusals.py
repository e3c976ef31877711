"""A refusal by a provider or a budget ends `rag run` with one clear line and an exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import paid_contexts, write_corpus, write_documents
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving

DOCUMENT = {"policy.md": "# Leave\n\nEvery parent may take sixteen weeks of paid leave.\n"}
REFUSAL = {
    "id": "c",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": None, "refusal": "I cannot help with it."},
        }
    ],
}


def run(folder: Path, settings: dict[str, Any]) -> tuple[int, str]:
    """Run a corpus of one document; return the exit code and the last line of its errors."""
    file = write_corpus(folder, **settings, queries=None)
    (folder / "documents").rename(folder / "unused")
    write_documents(folder / "documents", DOCUMENT)
    outcome = rag("run", file)
    shown = outcome.out + outcome.err
    assert "Traceback" not in shown
    lines = [line for line in outcome.err.splitlines() if line.strip()]
    assert len(lines) == 1, outcome.err
    return outcome.code, lines[0]


@pytest.mark.parametrize(
    ("reply", "changes", "code", "says"),
    [
        (Fault(401, "Incorrect API key"), {}, 1, "Incorrect API key (HTTP 401); check the key"),
        (Fault(404, "no model m"), {}, 1, "no model m (HTTP 404); check model and base_url"),
        (Fault(200, json.dumps(REFUSAL).encode()), {}, 1, "refused: I cannot help with it."),
        ("unused", {"budget_usd": 0.0}, 3, "more than budget_usd 0"),
    ],
    ids=["key", "model", "refusal", "budget"],
)
def test_what_a_chat_model_refuses_is_one_line(
    tmp_path: Path, reply: str | Fault, changes: dict[str, Any], code: int, says: str
):
    with serving(lambda body: reply) as server:
        found, line = run(tmp_path, paid_contexts(tmp_path, server.url, **changes))
        assert says in line
        assert found == code
        assert len(server.requests) == (0 if "budget_usd" in changes else 1)
    note = json.loads((tmp_path / "store/tiny/costs/last_run.json").read_text())
    assert note["estimate"]["output"] == 150, "one chunk, one prompt"


def test_a_wrong_address_is_one_line(tmp_path: Path):
    with serving(lambda body: "") as server:
        url = server.url
    settings = paid_contexts(tmp_path, url)
    settings["chats"]["small"]["patience_seconds"] = 0.5
    code, line = run(tmp_path, settings)
    assert code == 1
    assert url.removeprefix("http://").removesuffix("/v1") in line


def test_a_wrong_dimension_is_one_line(tmp_path: Path):
    def ignored(path: str, body: dict[str, Any]) -> None:
        body.pop("dimensions", None)  # a server that always gives its own

    with serving(faults=ignored) as server:
        given = {"provider": "openai", "model": "e", "base_url": server.url, "dimensions": 16}
        plain = {"name": "plain", "chunking": "markdown", "contextualizer": "none"}
        settings = {
            "embeddings": {"remote": given},
            "configurations": [{**plain, "embedding": "remote", "retriever": "dense"}],
        }
        code, line = run(tmp_path, settings)
    assert code == 1
    assert "16" in line
    assert "8" in line
