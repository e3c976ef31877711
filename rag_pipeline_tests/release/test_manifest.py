from typing import Literal

import pytest

from rag_pipeline.answering.llm import ChatAnswers
from rag_pipeline.config import load_config
from rag_pipeline.config.rerankers import RerankerSettings
from rag_pipeline.config.settings import ChatName
from rag_pipeline.errors import ConfigError
from rag_pipeline.release.manifest import read_settings, record_chats
from rag_pipeline_tests.testing.corpora import write_corpus

RECORD = {
    "chunking": {"method": "recursive", "max_characters": 150},
    "contextualizer": {"method": "none"},
    "embedding": {"provider": "minilm"},
    "retriever": {"method": "dense"},
    "reranker": {"method": "none"},
    "answers": {"method": "extractive"},
    "names": {"chunking": "recursive_150"},
}


def test_a_method_that_is_not_installed_is_named_with_the_release():
    record = {**RECORD, "chunking": {"method": "paragraphs"}}
    with pytest.raises(ConfigError, match=r"release-000001: settings\.chunking: .*'paragraphs'"):
        read_settings(record, "release-000001")


class TwoModels(RerankerSettings):
    """Calls two chat models."""

    method: Literal["two"] = "two"
    first: ChatName = "small"
    second: ChatName = "large"


def test_every_chat_model_of_a_part_is_recorded_by_name(tmp_path):
    chats = {name: {"provider": "openai", "model": name} for name in ("small", "large")}
    config = load_config(write_corpus(tmp_path, chats=chats))
    recorded = {"reranker_chats": record_chats(TwoModels(), config)}
    found = read_settings({**RECORD, **recorded}, "r").reranker_chats
    assert {name: chat.model for name, chat in found.items()} == {
        "small": "small",
        "large": "large",
    }
    answers = record_chats(ChatAnswers(method="llm", chat="large"), config)
    assert list(answers) == ["large"]
