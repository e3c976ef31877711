import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.calls import CallCache, Database
from rag_pipeline.config import CorpusConfig


@pytest.fixture
def assistant(released):
    return open_assistant([released])


@pytest.fixture
def talking(released, tmp_path):
    """Return a function that makes an assistant over the release with a model at an address."""

    def made(url, chat=None, **settings):
        changes = {
            "chats": {
                "local": {
                    "provider": "openai",
                    "model": "test-model",
                    "base_url": url,
                    "patience_seconds": 1,
                    **(chat or {}),
                }
            },
            "assistant": {"chat": "local", "variants": 1, **settings},
        }
        config = CorpusConfig.model_validate({**released.config.model_dump(), **changes})
        config._base = released.config._base
        corpus = Corpus(config)
        corpus.workspace.__dict__["cache"] = CallCache(Database(tmp_path / "calls.sqlite"))
        return open_assistant([corpus])

    return made
