"""Define the settings of a release, with the types of a corpus file."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_pipeline.answering import Calibration
from rag_pipeline.config import (
    Access,
    Answers,
    Chunking,
    Contextualizer,
    CorpusConfig,
    Embedding,
    Reranker,
    Retriever,
    Settings,
    fingerprint,
)
from rag_pipeline.config.models import ChatVariant
from rag_pipeline.errors import ConfigError


class ReleaseSettings(BaseModel):
    """The settings of one configuration and its answers, with the chat models by name."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    chunking: Chunking
    contextualizer: Contextualizer
    embedding: Embedding
    retriever: Retriever
    reranker: Reranker
    reranker_chats: dict[str, ChatVariant] = Field(default={})
    answers: Answers
    answers_chats: dict[str, ChatVariant] = Field(default={})
    calibration: Calibration | None = None
    """The calibration fitted to the run of the release. The corpus file has no such setting."""
    access: Access | None = None
    """The access rules of an imported bundle. Those of the importer's corpus file replace them."""

    def digest(self, run_digest: str) -> str:
        """Return a hash of a run's digest and of the settings of its answers."""
        return fingerprint(run_digest, self.answers, self.answers_chats)


def record_chats(settings: Settings, config: CorpusConfig) -> dict[str, Any]:
    """Return the chat models that a part of the configuration calls, by name, as JSON values."""
    return {name: config.chat(name).model_dump(mode="json") for name in settings.named_chats()}


def read_settings(record: Any, release_id: str) -> ReleaseSettings:
    """Parse the settings of a manifest. Raise ConfigError if a method is not installed."""
    try:
        return ReleaseSettings.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        place = f"{release_id}: settings.{'.'.join(map(str, first['loc']))}"
        advice = "install the missing package, or make a new release with `rag run`"
        raise ConfigError(f"{place}: {first['msg']}; {advice}") from None
