"""Text -> windows of whole sentences, as many as fit a maximum size."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field, model_validator

from rag_pipeline.chunking.recursive import recursive_spans
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.config.chunkings import ChunkingSettings, Models
from rag_pipeline.datamodels import Document, Span


class SentencesChunking(ChunkingSettings):
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

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Cut a document into its windows."""
        return window_spans(document.text, self.max_characters, self.overlap)


def window_spans(text: str, max_characters: int, overlap: int) -> list[Span]:
    """Return windows of at most `max_characters`, each beginning where a sentence does.

    A window starts after the one before, or up to `overlap` characters earlier with whole
    sentences of it, as far as the next sentence still fits. A sentence over the maximum is cut as
    `recursive` does. Linear in the text.
    """
    sentences = [
        piece
        for start, end in sentence_spans(text)
        for piece in recursive_spans(text, max_characters, start, end)
    ]
    return list(_windows(sentences, max_characters, overlap))


def _windows(sentences: Sequence[Span], limit: int, overlap: int) -> Iterator[Span]:
    first = 0
    for past in range(1, len(sentences) + 1):
        if past < len(sentences) and sentences[past][1] - sentences[first][0] <= limit:
            continue
        start, end = sentences[first][0], sentences[past - 1][1]
        yield start, end
        if past == len(sentences):
            return
        first += 1
        while first < past and (
            end - sentences[first][0] > overlap or sentences[past][1] - sentences[first][0] > limit
        ):
            first += 1
