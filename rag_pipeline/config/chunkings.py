"""The settings of the methods that cut documents into chunks."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rag_pipeline.config.settings import Settings


class FixedChunking(Settings):
    """Windows of `tokens` tokens that overlap by `overlap` tokens."""

    method: Literal["fixed"]
    tokens: int = Field(default=200, ge=8)
    overlap: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "FixedChunking":
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap {self.overlap} must be smaller than tokens {self.tokens}")
        return self


class RecursiveChunking(Settings):
    """Split at the largest separator that keeps pieces under `max_characters`."""

    method: Literal["recursive"]
    max_characters: int = Field(default=500, ge=32)


class MarkdownChunking(Settings):
    """One chunk per heading's section, sections over `max_characters` split further."""

    method: Literal["markdown"]
    max_characters: int = Field(default=1000, ge=32)


class SemanticChunking(Settings):
    """Break where neighbouring sentences drift apart by more than mean + threshold x deviation.

    On short documents `max_characters` decides more than `threshold` does.
    `window` is the number of neighbours on each side that a sentence is embedded with;
    `embedding` names the variant whose model compares sentences (the packaged one by default).
    """

    method: Literal["semantic"]
    threshold: float = Field(default=2.0, ge=0.0, le=10.0)
    window: int = Field(default=1, ge=0, le=10)
    min_characters: int = Field(default=200, ge=0)
    max_characters: int = Field(default=1000, ge=32)
    embedding: str | None = None


class SentencesChunking(Settings):
    """Windows of whole sentences, as many as fit `max_characters`; neighbours share `overlap`."""

    method: Literal["sentences"]
    max_characters: int = Field(default=500, ge=32)
    overlap: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "SentencesChunking":
        if self.overlap >= self.max_characters:
            raise ValueError(
                f"overlap {self.overlap} must be smaller than max_characters {self.max_characters}"
            )
        return self


class GivenChunking(Settings):
    """Spans that were cut upstream, read from a `chunks.jsonl` (beside the queries by default)."""

    method: Literal["given"]
    path: str | None = None


Chunking = Annotated[
    FixedChunking
    | RecursiveChunking
    | MarkdownChunking
    | SemanticChunking
    | SentencesChunking
    | GivenChunking,
    Field(discriminator="method"),
]
