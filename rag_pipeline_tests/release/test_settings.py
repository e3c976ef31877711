import pytest

from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.errors import ConfigError
from rag_pipeline.release.settings import read_settings

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
