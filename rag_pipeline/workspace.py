"""Open a corpus's settings, tables, call cache and models on first use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from rag_pipeline.calls import CallCache, CallCounts, Database
from rag_pipeline.calls.costs import Ledger, Totals, attributed, charging, load_prices, vendor
from rag_pipeline.calls.database import shared_database
from rag_pipeline.calls.telemetry import trace_step
from rag_pipeline.config import ChatSettings, CorpusConfig, Key, Models
from rag_pipeline.config.endpoints import (
    endpoints_of,
    model_of,
    provider_of,
    remote_models,
    with_first_endpoints,
)
from rag_pipeline.config.models import Embedder, InputType, TokenStarts, embedding_or_packaged
from rag_pipeline.datamodels import Vectors
from rag_pipeline.errors import ProviderError
from rag_pipeline.models.chat import Ask, Prompt, Reply, ask
from rag_pipeline.models.embedding import Embedded, embed, embed_tokens
from rag_pipeline.models.providers import open_embedder
from rag_pipeline.store import SHARED_CALLS, Store, Table, state_digest
from rag_pipeline.store.schemas import (
    CHUNKS_SCHEMA,
    CONTEXTUALIZED_CHUNKS_SCHEMA,
    DOCUMENTS_SCHEMA,
    QUARANTINE_SCHEMA,
    vector_schema,
)

_ENDPOINTS = "models.json"
"""The store's file with each model's first endpoint, which is part of the cache key of answers."""


class Workspace:
    """The settings, tables, call cache and models that the steps of one corpus share."""

    is_dry = False
    """Whether calls are only recorded for a plan instead of sent."""
    _recorded = False

    def __init__(self, config: CorpusConfig) -> None:
        self._given = config
        self.held: dict[Any, Any] = {}
        """The most recently opened index, by its `Pinned` (see `search.pinned.open_index`)."""
        self.copies: tuple[object, Mapping[str, str]] = None, {}
        """A version of the documents table, and its copies (see `search.copies`)."""
        self.chosen: tuple[str, Any] = "", None
        """A hash of scores and settings, and the candidate chosen from them."""

    @cached_property
    def config(self) -> CorpusConfig:
        """Return the settings. A model at a new address still counts as the same model."""
        if not any(remote_models(self._given)):
            return self._given
        return with_first_endpoints(self._given, self.store.read_json(_ENDPOINTS) or {})

    @cached_property
    def store(self) -> Store:
        """Return the corpus's store."""
        config = self._given
        keep_versions = timedelta(hours=config.retention.version_hours)
        return Store(config.store_url, config.corpus, keep_versions)

    @cached_property
    def cache(self) -> CallCache:
        """Return the call cache of this machine, or of all machines that share a database."""
        own, shared = CallCache(Database(self.store.calls_path)), shared_database()
        if shared is None:
            return own
        files = Store(self.config.store_url, SHARED_CALLS) if self.store.files.shared else None
        return CallCache(shared, own, files, self.store.url)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the ledger with the costs of the corpus's calls."""
        config, cache = self.config, self.cache
        listed = load_prices(config.prices_path)
        prices = listed.including(
            {
                (vendor(provider_of(model), model.base_url), model_of(model)): model.price
                for _, _, model in remote_models(config)
                if model.price is not None
            }
        )
        store = self.store.url if cache.own is not None else ""
        ledger = Ledger(cache.database, config.corpus, prices, config.budget_usd, store)
        if cache.own is not None:
            ledger.take_over(cache.own.database)
        return ledger

    @contextmanager
    def charging(self, asset: str, key: Key = Key()) -> Iterator[Totals]:  # noqa: B008
        """Charge the calls inside the block to an asset's partition, and yield their totals."""
        configurations = tuple(self.config.readers(key.level, key))
        self._record_endpoints()
        with (
            trace_step(self.config.corpus, asset, str(key)) as span,
            charging(self.ledger),
            attributed(asset, str(key), configurations) as totals,
        ):
            try:
                yield totals
            finally:
                span.set_attributes(
                    {
                        "rag.calls": totals.calls,
                        "rag.cost_usd": totals.usd,
                        "gen_ai.usage.input_tokens": totals.input_tokens,
                        "gen_ai.usage.output_tokens": totals.output_tokens,
                    }
                )

    def _record_endpoints(self) -> None:
        """Store the addresses of new models before any of their answers."""
        known = endpoints_of(self.config)
        if known and not self._recorded:
            before = self.store.read_json(_ENDPOINTS) or {}
            if {**before, **known} != before:
                self.store.write_json(_ENDPOINTS, {**before, **known})
        self._recorded = True

    # --- tables ---

    def documents(self) -> Table:
        """Return the table of loaded documents."""
        return self.store.table("documents", DOCUMENTS_SCHEMA)

    def quarantine(self, table: str) -> Table:
        """Return the table with the documents that another table rejected, with reasons."""
        return self.store.table(f"quarantine.{table}", QUARANTINE_SCHEMA)

    # A table's name contains only the part of the key that the table depends on.

    def chunks(self, key: str) -> Table:
        """Return the chunks of one chunking."""
        own = Key.parse(key).at("chunking")
        return self.store.table(f"chunks.{own}", CHUNKS_SCHEMA)

    def contextualized_chunks(self, key: str) -> Table:
        """Return the contextualized chunks of one `chunking.contextualizer`."""
        own = Key.parse(key).at("contextualizer")
        return self.store.table(f"contextualized_chunks.{own}", CONTEXTUALIZED_CHUNKS_SCHEMA)

    def vector_index(self, key: str) -> Table:
        """Return the vector index of one `chunking.contextualizer.embedding`."""
        own = Key.parse(key).at("embedding")
        tokens = self.config.embeddings[own.embedding].keeps_tokens
        schema = vector_schema(self.embedder(own.embedding).dimension, tokens)
        return self.store.table(f"vector_index.{own}", schema)

    def lexical_path(self, key: str, engine: str) -> str:
        """Return the path of the current chunks' lexical index, which may not exist yet."""
        own = Key.parse(key).at("contextualizer")
        made_from = state_digest(self.contextualized_chunks(own).state())
        settings = self.config.lexical_fingerprint(*own.variants)
        return f"lexical/{own}/{engine}-{settings}-{made_from}"

    def lexical_paths(self) -> list[str]:
        """Return the paths of all lexical indexes in the store, including superseded indexes."""
        keys = self.store.list("lexical")
        return [f"lexical/{key}/{n}" for key in keys for n in self.store.list(f"lexical/{key}")]

    # --- models ---

    def embedder(self, embedding: str) -> Embedder:
        """Return the model of an embedding variant."""
        return open_embedder(self.config.located(self.config.embeddings[embedding]))

    def embed(
        self, embedding: str, counts: CallCounts | None = None, input_type: InputType = "document"
    ) -> Callable[..., Embedded]:
        """Return a function that embeds texts through the cache.

        Contextual models also need each text's document_id.
        """
        embedder = self.embedder(embedding)

        def charged(texts: Sequence[str], documents: Sequence[str] | None = None) -> Embedded:
            with charging(self.ledger):
                return embed_tokens(texts, embedder, self.cache, input_type, counts, documents)

        return charged

    def models(
        self, counts: CallCounts | None = None, chats: Mapping[str, ChatSettings] | None = None
    ) -> Models:
        """Return the corpus file's models for methods and judges.

        `chats` overrides chat models by name, for example with the models of a release.
        """
        return _Models(self, counts, chats or {})

    def ask(self, chat: str, counts: CallCounts | None = None) -> Ask:
        """Return a function that sends prompts to a chat model and returns its replies."""
        settings = self.config.chat(chat)

        def charged(prompts: Sequence[Prompt]) -> list[Reply | ProviderError]:
            with charging(self.ledger):
                return ask(prompts, settings, self.cache, counts)

        return charged


@dataclass(frozen=True, slots=True)
class _Models:
    """The models of a corpus file, called through the corpus's cache and charged to its ledger."""

    workspace: Workspace
    counts: CallCounts | None
    chats: Mapping[str, ChatSettings]

    @property
    def config(self) -> CorpusConfig:
        return self.workspace.config

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        embedder = open_embedder(self.config.located(embedding_or_packaged(self.config, embedding)))
        with charging(self.workspace.ledger):
            return embed(texts, embedder, self.workspace.cache, "document", self.counts)

    def token_starts(self, text: str, embedding: str | None) -> TokenStarts:
        return self.config.located(embedding_or_packaged(self.config, embedding)).token_starts(text)

    def ask(self, prompts: Sequence[Prompt], chat: str) -> list[Reply | ProviderError]:
        if chat not in self.chats:
            return self.workspace.ask(chat, self.counts)(prompts)
        with charging(self.workspace.ledger):
            return ask(prompts, self.chats[chat], self.workspace.cache, self.counts)
