"""Cut text into windows of a fixed number of tokens."""

from typing import Any, Literal

from pydantic import Field, model_validator

from rag_pipeline.chunking.sentences import trim
from rag_pipeline.config import CorpusFile
from rag_pipeline.config.chunkings import ChunkingSettings, Models
from rag_pipeline.config.models import TokenStarts, embedding_or_packaged
from rag_pipeline.config.settings import EmbeddingName, Settings
from rag_pipeline.datamodels import Document, Span


class FixedChunking(ChunkingSettings):
    """Chunking into windows of `tokens` tokens that overlap by `overlap` tokens.

    `tokens_of` names the embedding that counts tokens, by default the packaged model.
    """

    method: Literal["fixed"]
    tokens: int = Field(default=200, ge=8)
    overlap: int = Field(default=0, ge=0)
    tokens_of: EmbeddingName | None = None

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "FixedChunking":
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap {self.overlap} must be smaller than tokens {self.tokens}")
        return self

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Return the windows of a document."""
        starts = models.token_starts(document.text, self.tokens_of)
        return fixed_spans(document.text, self.tokens, self.overlap, starts)

    def models_used(self, config: CorpusFile) -> list[Settings]:
        """Return [], because counting tokens calls no model."""
        return []

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the settings of the embedding `tokens_of`, or [] for the packaged model."""
        return [embedding_or_packaged(config, self.tokens_of)] if self.tokens_of else []


def fixed_spans(text: str, tokens: int, overlap: int, starts: TokenStarts) -> list[Span]:
    """Return windows of `tokens` tokens that overlap by `overlap` tokens.

    `starts` holds the offset of each token. A window ends at the next token's start, and therefore
    includes the characters between tokens.
    """
    spans: list[Span] = []
    step = tokens - overlap
    for first in range(0, max(len(starts), 1), step):
        past = first + tokens
        start = int(starts[first]) if first else 0
        end = int(starts[past]) if past < len(starts) else len(text)
        span = trim(text, start, end)
        if span[0] < span[1] and span not in spans[-1:]:
            spans.append(span)
        if past >= len(starts):
            break
    return spans
