"""The `assistant` section of a corpus file: how questions to the release are answered."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rag_pipeline.config.settings import ChatName, Settings, Share


class FolderSource(Settings):
    """Look outside in a folder of documents that are not indexed yet."""

    source: Literal["folder"]
    path: str


class SearxngSource(Settings):
    """Look outside with a SearXNG server, whose JSON answers must be switched on."""

    source: Literal["searxng"]
    base_url: str
    results: int = Field(default=5, ge=1, le=50)
    timeout_seconds: float = Field(default=20.0, gt=0)


class WebSearchSource(Settings):
    """Look outside with OpenAI's web search tool, by a model of `chats`."""

    source: Literal["openai_web_search"]
    chat: ChatName


ExpansionSource = Annotated[
    FolderSource | SearxngSource | WebSearchSource, Field(discriminator="source")
]


class Expansion(Settings):
    """Look outside when nothing in the release is good enough, and keep what was found.

    `min_confidence` is the least confidence, the chance that the passages hold the answer, of an
    answer that needs nothing from outside (docs/assistant.md).
    `max_documents` and `max_characters` bound what is kept in all and from each document;
    `days_to_live` is after how many days it is forgotten.
    """

    look_in: ExpansionSource
    min_confidence: Share = 0.5
    max_documents: int = Field(default=200, ge=1)
    max_characters: int = Field(default=100_000, ge=100)
    documents_per_query: int = Field(default=3, ge=1, le=20)
    days_to_live: int = Field(default=30, ge=1)


class AssistantSettings(Settings):
    """The way from a question to an answer; without `chat`, by rules and verbatim sentences.

    How an answer is made from its passages is set in `evaluation.answers`, so that what is served
    is what is measured. `files` is how many leading documents an answer lists. A question is
    searched for as the release's retriever says;
    where `boosted_files` or `variants` is set, with so many stages instead. `reflections` bounds
    how often a model may improve its answer. What a model does not do within `model_seconds` of
    being asked, rules do.
    """

    chat: ChatName | None = None
    model_seconds: float = Field(default=30.0, gt=0)
    files: int = Field(default=5, ge=1, le=50)
    boosted_files: int | None = Field(default=None, ge=0, le=50)
    variants: int | None = Field(default=None, ge=0, le=5)
    rewrite_queries: bool = False
    reflections: int = Field(default=0, ge=0, le=5)
    expansion: Expansion | None = None

    @model_validator(mode="after")
    def _reflection_needs_a_model(self) -> "AssistantSettings":
        if self.reflections and self.chat is None:
            raise ValueError(
                f"reflections {self.reflections}: needs a model; name one of `chats` as `chat`"
            )
        return self

    @property
    def stages(self) -> tuple[int, int] | None:
        """Return `boosted_files` and `variants` of a search, None for those of the release."""
        if self.boosted_files is None and self.variants is None:
            return None
        files = 3 if self.boosted_files is None else self.boosted_files
        return files, 1 if self.variants is None else self.variants
