"""Search documents from outside with the release's configuration. Find and keep new documents."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rag_pipeline.answering.extractive import extract_answers
from rag_pipeline.answering.reading import Reader
from rag_pipeline.assistant.expansion.kept import ExpandedDocuments, Kept, is_expanded
from rag_pipeline.assistant.expansion.sources import OutsideSource, open_source
from rag_pipeline.calls.costs import attributed, charging
from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.config import STAGES, CorpusConfig, Expansion, ExtractiveAnswers, Key
from rag_pipeline.config.configurations import ConfigurationRule
from rag_pipeline.config.endpoints import at_current_endpoint
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import OPERATOR, Document, ScoredChunk, SearchRequest, SearchResult
from rag_pipeline.errors import InputError, StoreError
from rag_pipeline.indexing import TABLES, read_documents, update, update_lexical
from rag_pipeline.release import Release
from rag_pipeline.release.opening import Served, searched_with
from rag_pipeline.search.index import Index
from rag_pipeline.search.pinned import Pinned, open_builds
from rag_pipeline.store import Store, TableState, state_digest
from rag_pipeline.workspace import Workspace

_NAME = "released"
"""The name of every variant in the settings of the expansion."""
_KEY = Key(_NAME, _NAME, _NAME)
_CANDIDATES = 3
"""Number of requested documents for each document that may be kept."""
_PASSAGES_READ = 50
_LEAST_CONFIDENCE = 0.1
"""Minimum probability that a kept document holds the answer."""
_HOUR = 3_600.0
_LOCKS = 16


class ExpandedCorpus:
    """The documents from outside for one corpus. Threads may share the object.

    The documents are chunked, contextualized, embedded and searched with the settings of the
    released configuration. Each search indexes new documents first.
    """

    def __init__(
        self,
        released: Corpus,
        settings: Expansion,
        clock: Callable[[], float] = time.time,
        source: OutsideSource | None = None,
    ) -> None:
        self.name = released.name
        self.settings = settings
        self.source = source or open_source(released.config, settings)
        self.documents = ExpandedDocuments(released.config, settings, clock)
        self._released = released
        self._indexed = _IndexedExpansion(released, self.documents)
        # Only one of several threads with the same question searches outside.
        self._looking = [threading.Lock() for _ in range(_LOCKS)]

    def search(self, request: SearchRequest) -> SearchResult:
        """Search the kept documents. `metadata["expanded"]` of a chunk is its origin."""
        own = replace(
            request, where=None, deepen=True, discover=True, tokens=False, caller=OPERATOR
        )
        with _clear_errors(self._indexed.workspace):
            kept = {k.document_id: k for k in self._prune()}
            if not kept:
                return SearchResult(query=request.query)
            found = self._indexed.retrieve(own)
        chunks = [
            replace(c, metadata={**c.metadata, "expanded": kept[c.document_id].origin})
            for c in found.chunks
            if c.document_id in kept
        ]
        documents = [d for d in found.documents if d.document_id in kept]
        return replace(found, chunks=chunks, documents=documents)

    def document(self, document_id: str) -> Document:
        """Return a kept document. Raise InputError if the id is unknown."""
        if is_expanded(document_id):
            live = {k.document_id for k in self.documents.live()}
            if document_id in live:
                for document in read_documents(self._indexed.workspace, [document_id]):
                    return document
        raise InputError(f"{self.name}: no expanded document {document_id[:200]!r}")

    def is_empty(self) -> bool:
        """Return whether no document is kept."""
        with _clear_errors(self._indexed.workspace):
            return not self.documents.live()

    def describe(self) -> dict[str, Any]:
        """Return the corpus's name, the source and the number of kept documents."""
        source, kept = self.settings.look_in.source, self.documents.live()
        return {"name": self.name, "source": source, "documents": len(kept)}

    def look_outside(self, query: str, reader: Reader) -> list[Kept]:
        """Find documents outside that answer a question, keep them, and return the new documents.

        If documents of the question are kept already, return [] until they expire. If another
        thread searches for the same question, wait and return its documents. Raise ProviderError,
        ConfigError or StoreError if the source or the store fails.
        """
        lock = self._looking[hash(query) % _LOCKS]
        waits = not lock.acquire(blocking=False)
        if waits:
            lock.acquire()
        try:
            with _clear_errors(self._indexed.workspace):
                return self._look(query, reader, waits)
        finally:
            lock.release()

    def _look(self, query: str, reader: Reader, waited: bool) -> list[Kept]:
        before = {k.document_id: k for k in self._prune()}
        known = [k for k in before.values() if k.query == query]
        if known:
            return known if waited else []
        own = self._own_documents()
        indexed = {one.content_hash for one in own.values()}
        most = self.settings.documents_per_query
        with charging(self._released.workspace.ledger), attributed("expansion"):
            found = self.source.find(query, _CANDIDATES * most, indexed)
        best = to_the_point(query, found, reader)[:most]
        kept = self.documents.keep(best, query, self.settings.look_in.source, own.keys())
        return [k for k in kept if k.document_id not in before]

    def _prune(self) -> list[Kept]:
        self.documents.prune(self._own_documents())
        return self.documents.live()

    def _own_documents(self) -> TableState:
        version = self._released.searched().pinned.documents_version
        return self._released.workspace.documents().state(version)


def to_the_point(query: str, found: Sequence[Document], reader: Reader) -> list[Document]:
    """Return the documents that may hold an answer, by descending confidence.

    The default calibration applies, because a release's calibration is fitted to its documents.
    """
    asked = [SearchResult(query=query, chunks=_passages(one)) for one in found]
    settings = ExtractiveAnswers(contexts=_PASSAGES_READ, sentences=1, confidence=_LEAST_CONFIDENCE)
    answers = extract_answers(asked, settings, reader) if asked else []
    good = [(a.confidence or 0.0, one) for a, one in zip(answers, found, strict=True) if a.answered]
    return [one for _, one in sorted(good, key=lambda pair: -pair[0])]


def _passages(document: Document) -> list[ScoredChunk]:
    size = max(500, 2 * len(document.text) // _PASSAGES_READ)
    settings = RecursiveChunking(method="recursive", max_characters=size)
    return [
        ScoredChunk(c.chunk_id, c.document_id, c.start, c.end, c.text, 0.0)
        for c in chunk(document, settings)
    ]


class _ExpansionWorkspace(Workspace):
    def __init__(self, config: CorpusConfig, store: Store) -> None:
        super().__init__(config)
        self.store = store


class _IndexedExpansion(Corpus):
    """An index of kept documents. A change of the documents or the release makes a new index."""

    def __init__(self, released: Corpus, documents: ExpandedDocuments) -> None:
        super().__init__(released.config)
        self.workspace = _ExpansionWorkspace(released.config, documents.store)
        self._released = released
        self._documents = documents
        self._made_from: tuple[str, str] | None = None

    def _open(self) -> Served:
        release = self._released.searched()
        with self._lock:
            made_from = (release.release_id, state_digest(self._documents.table.state()))
            if self._served is None or made_from != self._made_from:
                workspace = _ExpansionWorkspace(
                    released_config(self._released.workspace.config, release), self._documents.store
                )
                with attributed("expansion"):
                    index = _bring_up_to_date(workspace)
                self._served = searched_with(self.workspace, release, index)
                self._made_from = made_from
            return self._served


def released_config(config: CorpusConfig, release: Release) -> CorpusConfig:
    """Return the corpus's settings with the release's configuration as the only configuration.

    `recursive` replaces a `given` chunking, because `given` has no chunks of other documents.
    """
    pinned = release.typed_settings()
    chunking = pinned.chunking
    if not chunking.any_document:
        chunking = RecursiveChunking(method="recursive")
    rule = ConfigurationRule(name=_NAME, **dict.fromkeys(STAGES, _NAME))
    changes: dict[str, object] = {
        "chunkings": {_NAME: chunking},
        "contextualizers": {_NAME: pinned.contextualizer},
        # A semantic chunking may compare sentences with another embedding.
        "embeddings": {**config.embeddings, _NAME: at_current_endpoint(config, pinned.embedding)},
        "retrievers": {_NAME: pinned.retriever},
        "rerankers": {_NAME: at_current_endpoint(config, pinned.reranker)},
        "configurations": (rule,),
    }
    return config.model_copy(update=changes)


def _bring_up_to_date(workspace: Workspace) -> Index:
    engine = workspace.config.engine(workspace.config.configuration(_NAME))
    for asset in TABLES:
        update(workspace, asset, _KEY)
    update_lexical(workspace, _KEY)
    path = engine and workspace.lexical_path(_KEY, engine)
    vectors = workspace.vector_index(_KEY)
    index = open_builds(workspace, Pinned(vectors.name, vectors.version, path, vectors.count()))
    _drop_superseded(workspace.store, path)
    return index


def _drop_superseded(store: Store, path: str | None) -> None:
    folder = f"lexical/{_KEY.at('contextualizer')}"
    for name in store.list(folder):
        other = f"{folder}/{name}"
        if other != path and store.files.modified(other) < time.time() - _HOUR:
            store.files.remove_folder(other)


@contextmanager
def _clear_errors(workspace: Workspace) -> Iterator[None]:
    """Raise StoreError for the errors that occur if another process clears the store."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        place = workspace.store.address("")
        reason = " ".join(str(error).split())[:200]
        raise StoreError(f"{place}: cannot use the documents from outside: {reason}") from error
