"""One file per vendor or local model: its settings, its limits and its client."""

from functools import lru_cache

from rag_pipeline.config import EmbeddingSettings
from rag_pipeline.config.models import Embedder
from rag_pipeline.config.rerankers import ModelReranker, Scorer


@lru_cache(maxsize=8)
def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """Return the embedder for these settings. A process loads each embedder once."""
    return settings.open()


@lru_cache(maxsize=8)
def open_scorer(settings: ModelReranker) -> Scorer:
    """Return the scorer for a reranker's settings. A process loads each scorer once."""
    return settings.open()
