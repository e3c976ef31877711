from pathlib import Path

import pytest

from rag_pipeline.cli.inputs import check_models
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline_tests.testing.corpora import write_corpus

RULE = {"chunking": "markdown", "retriever": "dense"}


def test_every_model_that_cannot_be_asked_gets_one_line_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "COHERE_API_KEY", "ABSENT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("VOYAGE_API_KEY", "x")
    file = write_corpus(
        tmp_path,
        chats={"small": {"provider": "openai", "model": "m", "api_key_env": "ABSENT"}},
        embeddings={
            "openai": {"provider": "openai"},
            "voyage": {"provider": "voyage"},
            "own": {"provider": "openai", "model": "bge", "base_url": "http://127.0.0.1:1/v1"},
            "unused": {"provider": "openai", "api_key_env": "NOBODY_ASKS"},
        },
        rerankers={
            "cohere": {"method": "cohere"},
            "llm": {"method": "llm", "chat": "small"},
            "local": {"method": "flashrank", "path": "no/such/ms-marco-MiniLM-L-12-v2"},
        },
        configurations=[
            {**RULE, "name": "a", "embedding": "openai", "reranker": "cohere"},
            {**RULE, "name": "b", "embedding": "voyage", "reranker": "llm"},
            {**RULE, "name": "c", "embedding": "own", "reranker": "local"},
        ],
    )
    config = load_config(file)
    with pytest.raises(ConfigError) as caught:
        check_models(config)
    lines = str(caught.value).splitlines()
    assert [line.removeprefix(f"{file.resolve()}: ").split(":")[0] for line in lines] == [
        "embeddings.openai",
        "rerankers.cohere",
        "embeddings.own",
        "rerankers.local",
        "chats.small",
    ]
    assert "OPENAI_API_KEY is not set" in lines[0]
    assert "set `dimensions`" in lines[2]
    assert f"{tmp_path}/no/such" in lines[3], "paths are the corpus file's"
    with pytest.raises(ConfigError, match="ABSENT is not set"):
        check_models(config, "b")
    monkeypatch.setenv("ABSENT", "x")
    assert check_models(config, "b") == 3, "embedding, reranker, chat model"
