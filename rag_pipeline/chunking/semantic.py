"""Cut text where the embeddings of neighbouring sentences differ most."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_pipeline.chunking.recursive import sentences_within
from rag_pipeline.chunking.sizes import Limit, SizedChunking
from rag_pipeline.config import CorpusFile
from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.models import embedding_or_packaged
from rag_pipeline.config.settings import EmbeddingName, Settings
from rag_pipeline.datamodels import Document, Span, Vectors

_NOISE = 1e-6
"""Maximum rounding error of the distance of two single-precision unit vectors."""

_Distances = npt.NDArray[np.float64]


class SemanticChunking(SizedChunking):
    """Chunking at unusually large distances between the vectors of neighbouring sentences.

    Text is cut at distances above mean + `threshold` * standard deviation. In short documents, the
    maximum size affects the cuts more than `threshold` does. Each sentence is embedded with
    `window` neighbours on each side. `embedding` names the model, by default the packaged model.
    """

    method: Literal["semantic"]
    threshold: float = Field(default=2.0, ge=0.0, le=10.0)
    window: int = Field(default=1, ge=0, le=10)
    min_characters: int = Field(default=200, ge=0)
    max_characters: int | None = Field(default=1000, ge=32)
    embedding: EmbeddingName | None = None

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Return spans of whole sentences, cut where neighbouring sentences differ most.

        Text is cut at cosine distances above the document's mean + `threshold` * population
        standard deviation (after Kamradt, "5 Levels of Text Splitting"). Pieces under
        `min_characters` are joined with the nearer neighbour. Pieces over the maximum size are cut
        at their largest distance, if possible with `min_characters` on both sides. Sentences over
        the maximum size are first cut by `recursive_spans`.
        """
        text = document.text
        limit = self.limit(text, models)
        sentences = sentences_within(text, limit)
        if len(sentences) < 2:
            return sentences
        vectors = models.vectors(_windows(text, sentences, self.window), self.embedding)
        distances = _distances(vectors, len(sentences))
        cutoff = distances.mean() + self.threshold * distances.std() + _NOISE
        breaks = (np.flatnonzero(distances > cutoff) + 1).tolist()
        pieces = list(pairwise([0, *breaks, len(sentences)]))
        return [
            (sentences[first][0], sentences[past - 1][1])
            for piece in _join_short(pieces, sentences, distances, self.min_characters)
            for first, past in _split_long(piece, sentences, distances, self, limit)
        ]

    def models_used(self, config: CorpusFile) -> list[Settings]:
        """Return the settings of the model that compares sentences."""
        return [embedding_or_packaged(config, self.embedding)]


def _windows(text: str, sentences: Sequence[Span], window: int) -> list[str]:
    last = len(sentences) - 1
    return [
        text[sentences[max(i - window, 0)][0] : sentences[min(i + window, last)][1]]
        for i in range(len(sentences))
    ]


def _distances(vectors: Vectors, sentences: int) -> _Distances:
    """Return the cosine distance between each row and the next, or 1 if a row is all zeros."""
    if vectors.ndim != 2 or len(vectors) != sentences:
        raise ValueError(f"embed returned shape {vectors.shape} for {sentences} texts")
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    norms[norms == 0] = 1.0
    products = np.einsum("ij,ij->i", vectors[:-1], vectors[1:], dtype=np.float64)
    distances: _Distances = 1.0 - products / (norms[:-1] * norms[1:])
    return distances


def _join_short(
    pieces: list[Span], sentences: Sequence[Span], distances: _Distances, minimum: int
) -> list[Span]:
    """Join each piece under `minimum` characters with the nearer neighbour, in a tie the left."""
    joined: list[Span] = []
    first = 0
    for _, past in pieces:
        if sentences[past - 1][1] - sentences[first][0] < minimum:
            is_last = past == len(sentences)
            if not is_last and (first == 0 or distances[past - 1] < distances[first - 1]):
                continue
            if joined:
                first = joined.pop()[0]
        joined.append((first, past))
        first = past
    return joined


def _split_long(
    piece: Span,
    sentences: Sequence[Span],
    distances: _Distances,
    settings: SemanticChunking,
    limit: Limit,
) -> Iterator[Span]:
    """Split a piece at its largest inner distances until all parts fit the limit."""
    todo = [piece]
    while todo:
        first, past = todo.pop()
        start, end = sentences[first][0], sentences[past - 1][1]
        if limit.fits(start, end):
            yield first, past
            continue
        left = np.array([at for _, at in sentences[first : past - 1]]) - start
        right = end - np.array([at for at, _ in sentences[first + 1 : past]])
        smaller = np.minimum(left, right)
        inner = np.where(smaller >= settings.min_characters, distances[first : past - 1], -np.inf)
        if np.isneginf(inner).all():
            inner = distances[first : past - 1]
        # Of equal distances, take the most central, which halves a monotonous text.
        equals = np.flatnonzero(inner >= inner.max() - _NOISE)
        cut = first + 1 + int(equals[smaller[equals].argmax()])
        todo += [(cut, past), (first, cut)]
