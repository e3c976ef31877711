"""One file per vendor or local model: its settings, its limits and its client."""

from functools import lru_cache

from rag_pipeline.config import EmbeddingSettings
from rag_pipeline.config.models import Embedder
from rag_pipeline.config.rerankers import ModelReranker, Scorer


@lru_cache(maxsize=8)
def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """Return the embedder of a variant; it loads once per process."""
    return settings.open()


@lru_cache(maxsize=8)
def open_scorer(settings: ModelReranker) -> Scorer:
    """Return the scorer of a reranker; it loads once per process."""
    return settings.open()
