from typing import Literal

import pytest

from rag_pipeline.answering.llm import ChatAnswers
from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.config import load_config
from rag_pipeline.config.rerankers import RerankerSettings
from rag_pipeline.config.settings import ChatName
from rag_pipeline.errors import ConfigError
from rag_pipeline.release.settings import read_settings, record_chats
from rag_pipeline_tests.testing.corpora import write_corpus

RECORD = {
    "chunking": {"method": "recursive", "max_characters": 150},
    "contextualizer": {"method": "none"},
    "embedding": {"provider": "minilm"},
    "retriever": {"method": "dense"},
    "reranker": {"method": "none"},
    "names": {"chunking": "recursive_150"},
}


def test_what_an_earlier_version_did_not_record_is_none():
    settings = read_settings(RECORD, "release-000001")
    assert settings.chunking == RecursiveChunking(method="recursive", max_characters=150)
    assert settings.reranker_chat is None
    assert settings.answers is None


def test_a_method_that_is_not_installed_is_named_with_the_release():
    record = {**RECORD, "chunking": {"method": "paragraphs"}}
    with pytest.raises(ConfigError, match=r"release-000001: settings\.chunking: .*'paragraphs'"):
        read_settings(record, "release-000001")


class TwoModels(RerankerSettings):
    """Asks two chat models."""

    method: Literal["two"] = "two"
    first: ChatName = "small"
    second: ChatName = "large"


def test_every_chat_model_that_a_part_asks_is_kept_by_its_name(tmp_path):
    chats = {name: {"provider": "openai", "model": name} for name in ("small", "large")}
    config = load_config(write_corpus(tmp_path, chats=chats))
    (one,) = record_chats("answers", ChatAnswers(method="llm", chat="large"), config)
    assert one == "answers_chat", "as in manifests of earlier versions"
    recorded = record_chats("reranker", TwoModels(), config)
    settings = read_settings({**RECORD, **recorded}, "r").model_copy(
        update={"reranker": TwoModels()}
    )
    asked = settings.asked_by_reranker()
    assert {name: chat.model for name, chat in asked.items()} == {
        "small": "small",
        "large": "large",
    }
    assert settings.asked_by_answers() == {}
    # Of an earlier manifest, which knows the first alone, the other is asked as the file says now.
    earlier = settings.model_copy(update={"reranker_chats": {}})
    assert list(earlier.asked_by_reranker()) == ["small"]
