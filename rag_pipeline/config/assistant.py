"""The `assistant` section of a corpus file: how the release answers questions."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rag_pipeline.config.settings import ChatName, Settings, Share


class FolderSource(Settings):
    """Search a folder of documents that are not indexed yet."""

    source: Literal["folder"]
    path: str


class SearxngSource(Settings):
    """Search the web by a SearXNG server with JSON answers enabled."""

    source: Literal["searxng"]
    base_url: str
    results: int = Field(default=5, ge=1, le=50)
    timeout_seconds: float = Field(default=20.0, gt=0)


class WebSearchSource(Settings):
    """Search the web by OpenAI's web search tool, with a model of `chats`."""

    source: Literal["openai_web_search"]
    chat: ChatName


ExpansionSource = Annotated[
    FolderSource | SearxngSource | WebSearchSource, Field(discriminator="source")
]


class Expansion(Settings):
    """Search outside the release when its answer is not confident enough; keep found documents.

    The search starts below `min_confidence`, the chance that the passages hold the answer. At most
    `max_documents` documents are kept, each with `max_characters`, for `days_to_live` days.
    """

    look_in: ExpansionSource
    min_confidence: Share = 0.5
    max_documents: int = Field(default=200, ge=1)
    max_characters: int = Field(default=100_000, ge=100)
    documents_per_query: int = Field(default=3, ge=1, le=20)
    days_to_live: int = Field(default=30, ge=1)


class AssistantSettings(Settings):
    """The steps from a question to an answer; without `chat`, rules and verbatim sentences.

    `evaluation.answers` sets how passages become an answer, so the served method is the measured
    one. An answer lists `files` leading documents. `boosted_files` and `variants` replace those of
    the release's retriever. A model may improve its answer `reflections` times. After
    `model_seconds` without a model's reply, rules take over.
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
        """Return `boosted_files` and `variants`, None for the retriever's own."""
        if self.boosted_files is None and self.variants is None:
            return None
        files = 3 if self.boosted_files is None else self.boosted_files
        return files, 1 if self.variants is None else self.variants
