"""Define the `assistant` section of a corpus file: how the assistant answers questions."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from rag_pipeline.config.settings import ChatName, Settings, Share


class FolderSource(Settings):
    """A folder with documents that are not in the index."""

    source: Literal["folder"]
    path: str


class SearxngSource(Settings):
    """A web search with a SearXNG server that allows JSON replies."""

    source: Literal["searxng"]
    base_url: str
    results: int = Field(default=5, ge=1, le=50)
    timeout_seconds: float = Field(default=20.0, gt=0)


class WebSearchSource(Settings):
    """A web search with OpenAI's web search tool and a model of `chats`."""

    source: Literal["openai_web_search"]
    chat: ChatName


ExpansionSource = Annotated[
    FolderSource | SearxngSource | WebSearchSource, Field(discriminator="source")
]


class Expansion(Settings):
    """A search outside the release after an answer of low confidence. Found documents are kept.

    The search starts if the probability that the passages hold the answer is below
    `min_confidence`. At most `max_documents` documents of at most `max_characters` characters each
    are kept for `days_to_live` days.
    """

    look_in: ExpansionSource
    min_confidence: Share = 0.5
    max_documents: int = Field(default=200, ge=1)
    max_characters: int = Field(default=100_000, ge=100)
    documents_per_query: int = Field(default=3, ge=1, le=20)
    days_to_live: int = Field(default=30, ge=1)


class AssistantSettings(Settings):
    """The settings of the assistant. If `chat` is null, rules answer with verbatim sentences.

    `evaluation.answers` configures the answer method, because the evaluation measures the served
    method. An answer lists its first `files` documents. `boosted_files` and `variants` override the
    release's retriever. A model may improve its answer `reflections` times. If a model does not
    reply within `model_seconds`, rules replace the model.
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
                f"reflections {self.reflections}: reflections need a model; set `chat` to one of "
                f"`chats`"
            )
        return self

    def required(self) -> Mapping[str, str]:
        """Return the extra for calls to `chat`, or {} if `chat` is null."""
        return {"dspy": "dspy"} if self.chat else {}

    @property
    def stages(self) -> tuple[int, int] | None:
        """Return `boosted_files` and `variants`, or None to keep the retriever's settings."""
        if self.boosted_files is None and self.variants is None:
            return None
        files = 3 if self.boosted_files is None else self.boosted_files
        return files, 1 if self.variants is None else self.variants
