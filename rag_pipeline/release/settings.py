"""The settings that a release was made with, as typed as those of a corpus file."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_pipeline.answering import Calibration
from rag_pipeline.config import (
    Answers,
    ChatSettings,
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


class ReleasedSettings(BaseModel):
    """One configuration's settings; what an earlier version did not record is None."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    chunking: Chunking
    contextualizer: Contextualizer
    embedding: Embedding
    retriever: Retriever
    reranker: Reranker
    reranker_chat: ChatVariant | None = None
    reranker_chats: dict[str, ChatVariant] = Field(default={})
    answers: Answers | None = None
    answers_chat: ChatVariant | None = None
    answers_chats: dict[str, ChatVariant] = Field(default={})
    calibration: Calibration | None = None
    """What was fitted to the run that is served; no setting of the corpus file."""

    def asked_by_reranker(self) -> dict[str, ChatSettings]:
        """Return the chat models that the reranker asks, by what its settings call them."""
        return _by_name(self.reranker, self.reranker_chat, self.reranker_chats)

    def asked_by_answers(self) -> dict[str, ChatSettings]:
        """Return the chat models that answers are asked of, by what their settings call them."""
        return _by_name(self.answers, self.answers_chat, self.answers_chats)

    def digest(self, run_digest: str) -> str:
        """Hash what is served of a run: the run, and how questions are answered from it.

        It is the run's own hash for a release of an earlier version, which recorded no answers.
        """
        if self.answers is None:
            return run_digest
        return fingerprint(run_digest, self.answers, self.asked_by_answers())


def _by_name(
    settings: Settings | None, first: ChatSettings | None, all_: Mapping[str, ChatSettings]
) -> dict[str, ChatSettings]:
    names = [] if settings is None else settings.named_chats()
    return {**({names[0]: first} if names and first is not None else {}), **all_}


def record_chats(part: str, settings: Settings, config: CorpusConfig) -> dict[str, Any]:
    """Return the chat models that a part of a release asks, in the form of the manifest.

    The first stands alone, as it did before a part could name several.
    """
    chats = {name: config.chat(name).model_dump(mode="json") for name in settings.named_chats()}
    if not chats:
        return {}
    all_ = {f"{part}_chats": chats} if len(chats) > 1 else {}
    return {f"{part}_chat": next(iter(chats.values())), **all_}


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
