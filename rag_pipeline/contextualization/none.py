"""Index chunks without contexts."""

from collections.abc import Sequence
from typing import Literal

from rag_pipeline.config import ContextualizerSettings, Models
from rag_pipeline.datamodels import Chunk, Document


class NoContext(ContextualizerSettings):
    """Empty contexts for all chunks."""

    method: Literal["none"]

    def contexts(self, document: Document, chunks: Sequence[Chunk], models: Models) -> list[str]:
        """Return an empty context for each chunk."""
        return [""] * len(chunks)
