"""Text -> windows of as many whole sentences as fit a maximum size."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from pydantic import Field, model_validator

from rag_pipeline.chunking.lines import whole_lines
from rag_pipeline.chunking.recursive import recursive_spans
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.chunking.sizes import Limit, SizedChunking
from rag_pipeline.config.chunkings import Models
from rag_pipeline.datamodels import Document, Span


class SentencesChunking(SizedChunking):
    """Windows of as many whole sentences as fit the size; neighbours share `overlap`.

    `overlap` counts characters, or tokens if only these limit the size.
    """

    method: Literal["sentences"]
    overlap: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "SentencesChunking":
        name = "max_tokens" if self.max_characters is None else "max_characters"
        most = self.max_tokens if self.max_characters is None else self.max_characters
        if most is not None and self.overlap >= most:
            raise ValueError(f"overlap {self.overlap} must be smaller than {name} {most}")
        return self

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Cut a document into its windows."""
        text = document.text
        limit = self.limit(text, models)
        return window_spans(
            text, limit, self.overlap, whole_lines if self.by_tokens else sentence_spans
        )


def window_spans(
    text: str,
    largest: int | Limit,
    overlap: int,
    split: Callable[[str], list[Span]] = sentence_spans,
) -> list[Span]:
    """Return windows of whole sentences with at most `largest` characters. Linear in the text.

    A window begins with the last sentences of the one before, up to `overlap` characters, if the
    next sentence still fits. A sentence over the maximum is cut as by `recursive`.
    """
    limit = Limit(largest) if isinstance(largest, int) else largest
    sentences = [
        piece for start, end in split(text) for piece in recursive_spans(text, limit, start, end)
    ]
    return list(_windows(sentences, limit, overlap))


def _windows(sentences: Sequence[Span], limit: Limit, overlap: int) -> Iterator[Span]:
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
