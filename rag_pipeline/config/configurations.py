"""Define configurations, which name one variant per stage."""

from functools import cached_property

from rag_pipeline.config.keys import Key
from rag_pipeline.config.settings import Name, Settings

STAGES = ("chunking", "contextualizer", "embedding", "retriever", "reranker")


class _Choices(Settings):
    def variant(self, stage: str) -> str:
        """Return the name of the variant that is chosen for `stage`, one of the STAGES."""
        return str(dict(self)[stage])


class ConfigurationRule(_Choices):
    """Names a variant per stage in an entry of `configurations`. `*` means every variant."""

    name: Name | None = None
    chunking: str
    contextualizer: str = "none"
    embedding: str
    retriever: str
    reranker: str = "none"


class Configuration(_Choices):
    """Names one variant per stage. The evaluation compares configurations."""

    name: str
    chunking: str
    contextualizer: str
    embedding: str
    retriever: str
    reranker: str

    @cached_property
    def key(self) -> Key:
        """Return the partition of this configuration's own assets."""
        return Key(self.chunking, self.contextualizer, self.embedding, self.name)

    @property
    def context_key(self) -> Key:
        """Return the partition of the contextualized chunks and the lexical index."""
        return self.key.at("contextualizer")

    @property
    def vector_key(self) -> Key:
        """Return the partition of the vector index."""
        return self.key.at("embedding")
