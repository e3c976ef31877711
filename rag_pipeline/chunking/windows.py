"""Cut text into windows of whole sentences within a maximum size."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from rag_pipeline.chunking.recursive import sentences_within
from rag_pipeline.chunking.sizes import Limit, SizedChunking
from rag_pipeline.config.chunkings import Models
from rag_pipeline.datamodels import Document, Span


class SentencesChunking(SizedChunking):
    """Chunking into windows of as many whole sentences as fit the maximum size.

    Consecutive windows share up to `overlap` characters, or tokens if only `max_tokens` is set.
    """

    method: Literal["sentences"]
    overlap: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "SentencesChunking":
        name = "max_tokens" if self.max_characters is None else "max_characters"
        most = getattr(self, name)
        if self.overlap >= most:
            raise ValueError(f"overlap {self.overlap} must be smaller than {name} {most}")
        return self

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Return the windows of a document."""
        return list(window_spans(document.text, self.limit(document.text, models), self.overlap))


def window_spans(text: str, limit: Limit, overlap: int) -> Iterator[Span]:
    """Yield windows of whole sentences within the limit, in linear time.

    A window repeats the last sentences of the previous window, up to `overlap` characters or
    tokens, if the first new sentence still fits. Sentences over the limit are cut by
    `recursive_spans`.
    """
    sentences = sentences_within(text, limit)
    first = 0
    for past in range(1, len(sentences) + 1):
        if past < len(sentences) and limit.fits(sentences[first][0], sentences[past][1]):
            continue
        start, end = sentences[first][0], sentences[past - 1][1]
        yield start, end
        if past == len(sentences):
            return
        first += 1
        while first < past and (
            limit.size(sentences[first][0], end) > overlap
            or not limit.fits(sentences[first][0], sentences[past][1])
        ):
            first += 1
