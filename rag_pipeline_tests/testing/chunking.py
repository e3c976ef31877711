"""Chunks of tests, and models of a chunking method whose vectors come from a function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rag_pipeline.chunking import NoCorpus
from rag_pipeline.datamodels import ScoredChunk, Vectors


@dataclass
class Embedding(NoCorpus):
    embed: Callable[[Sequence[str]], Vectors]

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        return self.embed(texts)


def scored(
    document_id: str, text: str, score: float = 1.0, start: int = 0, **more: Any
) -> ScoredChunk:
    """A ranked chunk of a document."""
    end = start + len(text)
    chunk_id = f"{document_id}#{start}-{end}"
    return ScoredChunk(chunk_id, document_id, start, end, text, score, **more)
