"""A key is planted, every kind of failure made, and everything that was written searched for it."""

from pathlib import Path
from typing import Any

import pytest

from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import write_corpus
from rag_pipeline_tests.testing.model_faults import CUT, Fault
from rag_pipeline_tests.testing.model_server import serving

KEY = "my-own.key-8d1f5c2a7e"
MESSAGE = f"Incorrect API key provided: {KEY}, Bearer {KEY}"
BODY = f'{{"error": {{"message": "{MESSAGE}"}}}}'.encode()
WRONG_KEY = [Fault(401, BODY)]
PASSING = [
    Fault(500, BODY),
    Fault(429, BODY),
    CUT,
    Fault(200, BODY[:20]),
    Fault(200, BODY),
    Fault(400, BODY),
]


def write(folder: Path, url: str) -> Path:
    chat = {"provider": "openai", "model": "m", "base_url": url, "patience_seconds": 1}
    configuration = {"name": "default", "chunking": "markdown", "contextualizer": "llm"}
    return write_corpus(
        folder,
        queries=None,
        chats={"small": chat},
        chunkings={"markdown": {"method": "markdown"}},
        contextualizers={"llm": {"method": "llm", "chat": "small"}},
        configurations=[{**configuration, "embedding": "minilm", "retriever": "dense"}],
    )


def test_a_key_is_in_nothing_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "dagster"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    outcomes = []
    for faults in (WRONG_KEY, PASSING):
        left = list(faults)

        def answer(body: dict[str, Any], left: list[Fault] = left) -> Fault:
            return left.pop(0) if len(left) > 1 else left[0]

        with serving(answer) as server:
            outcomes.append(rag("run", write(tmp_path, server.url)))
            assert f"Bearer {KEY}" in server.requests[0].headers.values()
    assert [outcome.code for outcome in outcomes] == [1, 1]
    told = " ".join((outcomes[0].out + outcomes[0].err).split())
    assert "Incorrect API key provided: [key]" in told
    assert "check the key" in told
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.is_relative_to(home) for path in files)
    for outcome in outcomes:
        assert KEY not in outcome.out + outcome.err
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
