"""One corpus's handles: its settings, tables, call cache and models, opened on first use."""

from collections.abc import Callable, Sequence
from functools import cached_property

from rag_pipeline.calls import CallCache, CallCounts
from rag_pipeline.config import CorpusConfig, SemanticChunking, keeps_tokens
from rag_pipeline.datamodels import (
    CHUNKS_SCHEMA,
    CONTEXTUALIZED_CHUNKS_SCHEMA,
    DOCUMENTS_SCHEMA,
    QUARANTINE_SCHEMA,
    vector_schema,
)
from rag_pipeline.embedding import Embedded, embed, embed_tokens
from rag_pipeline.providers import Embedder, InputType, Vectors, open_embedder
from rag_pipeline.store import Store, Table, state_digest


class Workspace:
    """What every step over one corpus needs."""

    def __init__(self, config: CorpusConfig) -> None:
        self.config = config

    @cached_property
    def store(self) -> Store:
        """Return the corpus's store."""
        return Store(self.config.store_url, self.config.corpus)

    @cached_property
    def cache(self) -> CallCache:
        """Return the call cache."""
        return CallCache(self.store.calls_path)

    # --- tables ---

    def documents(self) -> Table:
        """Return the table of loaded documents."""
        return self.store.table("documents", DOCUMENTS_SCHEMA)

    def quarantine(self, stage: str) -> Table:
        """Return the table of documents that a stage could not use, with the reasons."""
        return self.store.table(f"quarantine.{stage}", QUARANTINE_SCHEMA)

    def chunks(self, chunking: str) -> Table:
        """Return the chunks of one chunking."""
        return self.store.table(f"chunks.{chunking}", CHUNKS_SCHEMA)

    def contextualized_chunks(self, context_key: str) -> Table:
        """Return the contextualized chunks of one `chunking.contextualizer`."""
        schema = CONTEXTUALIZED_CHUNKS_SCHEMA
        return self.store.table(f"contextualized_chunks.{context_key}", schema)

    def vector_index(self, vector_key: str) -> Table:
        """Return the vector index of one `chunking.contextualizer.embedding`."""
        embedding = vector_key.split(".")[2]
        schema = vector_schema(
            self.embedder(embedding).dimension, keeps_tokens(self.config.embeddings[embedding])
        )
        return self.store.table(f"vector_index.{vector_key}", schema)

    def lexical_path(self, context_key: str, engine: str) -> str:
        """Return where the lexical index of the chunks as they are now stands, built or not."""
        made_from = state_digest(self.contextualized_chunks(context_key).state())
        settings = self.config.lexical_fingerprint(*context_key.split("."))
        return f"lexical/{context_key}/{engine}-{settings}-{made_from}"

    # --- models ---

    def embedder(self, embedding: str) -> Embedder:
        """Return the model of an embedding variant."""
        return open_embedder(self.config.embeddings[embedding])

    def embed(
        self,
        embedding: str,
        counts: CallCounts | None = None,
        input_type: InputType = "document",
    ) -> Callable[[Sequence[str]], Embedded]:
        """Return a function from texts to vectors that goes through the call cache."""
        embedder = self.embedder(embedding)
        return lambda texts: embed_tokens(texts, embedder, self.cache, input_type, counts)

    def sentence_embed(
        self, settings: SemanticChunking, counts: CallCounts | None = None
    ) -> Callable[[Sequence[str]], Vectors]:
        """Return the function that a semantic chunking compares sentences with."""
        embedder = open_embedder(self.config.sentence_embedding(settings))
        return lambda texts: embed(texts, embedder, self.cache, "document", counts)
