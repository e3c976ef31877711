"""Turn raw documents into a searchable, evaluated and released RAG index."""

from typing import TYPE_CHECKING, Any

from rag_pipeline.datamodels import (
    Chunk,
    ContextualizedChunk,
    Document,
    GoldSpan,
    Query,
    ScoredChunk,
)
from rag_pipeline.errors import RagPipelineError

if TYPE_CHECKING:
    from rag_pipeline.corpus import Corpus
    from rag_pipeline.orchestration.component import RagPipeline

__all__ = [
    "Chunk",
    "ContextualizedChunk",
    "Corpus",
    "Document",
    "GoldSpan",
    "Query",
    "RagPipeline",
    "RagPipelineError",
    "ScoredChunk",
]


def __getattr__(name: str) -> Any:
    """Import the two heavy names on first use: `Corpus` (LanceDB) and `RagPipeline` (Dagster)."""
    if name == "Corpus":
        from rag_pipeline.corpus import Corpus

        return Corpus
    if name == "RagPipeline":
        from rag_pipeline.orchestration.component import RagPipeline

        return RagPipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
