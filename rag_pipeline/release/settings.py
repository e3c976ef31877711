"""The settings that a release was made with, as typed as those of a corpus file."""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rag_pipeline.answering import Calibration
from rag_pipeline.config import (
    Answers,
    Chunking,
    Contextualizer,
    Embedding,
    Reranker,
    Retriever,
)
from rag_pipeline.config.models import ChatVariant
from rag_pipeline.errors import ConfigError


class ReleasedSettings(BaseModel):
    """One configuration's settings; what an earlier version did not record is None."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    chunking: Chunking
    contextualizer: Contextualizer
    embedding: Embedding
    retriever: Retriever
    reranker: Reranker
    reranker_chat: ChatVariant | None = None
    answers: Answers | None = None
    answers_chat: ChatVariant | None = None
    calibration: Calibration | None = None
    """What was fitted to the run that is served; no setting of the corpus file."""


def read_settings(record: Any, release_id: str) -> ReleasedSettings:
    """Return the settings of a manifest; raise ConfigError where this environment has no such."""
    try:
        return ReleasedSettings.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"{release_id}: settings.{place}: {first['msg']}; install what it was made with, or "
            f"release again with `rag run`"
        ) from None
