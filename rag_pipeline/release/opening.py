"""Open a release for searching, with its settings and models."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import get_native_id

from rag_pipeline.config import ChatSettings, PassageReranker
from rag_pipeline.config.endpoints import at_current_endpoint
from rag_pipeline.config.models import Embedder
from rag_pipeline.datamodels import Caller, SearchRequest
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.models.embedding import embed_queries
from rag_pipeline.models.providers import open_embedder
from rag_pipeline.release.manifest import Release, ReleaseSettings
from rag_pipeline.search.index import Index
from rag_pipeline.search.mapped import MappedFolder
from rag_pipeline.search.pinned import open_builds
from rag_pipeline.search.reranking.passages import passage_scorer
from rag_pipeline.search.retrieval import Searcher
from rag_pipeline.search.views import Labels, Views, document_labels
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.workspace import Workspace

_log = logging.getLogger(__name__)
FIRST_QUERY = "What is this about?"
"""The query of the first search in a new release."""
_CHUNK_BYTES = 250
"""Approximate bytes of the ids, offsets and row numbers of a chunk in an open index."""
_NICE = 5
"""Increment of the nice value of a thread that opens a release.

On a busy processor, the thread gets a third of the time of a search.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """An open release with its settings and models."""

    release: Release
    settings: ReleaseSettings
    embedder: Embedder
    searcher: Searcher
    views: Views | None
    """The visible documents by caller. None if every caller may see all documents."""
    note: str = ""
    """The `rollback_note` at the last look at the pointer."""

    @property
    def bytes(self) -> int:
        """Return the approximate bytes of memory of the release, without its models."""
        index, lexical = self.searcher.index, self.release.pinned.lexical_path
        arrays = sum(part.nbytes for part in (index.vectors, index.rows) if part is not None)
        files = self.release.files.items()
        terms = sum(int(f["bytes"]) for path, f in files if lexical and path.startswith(lexical))
        return arrays + terms + _CHUNK_BYTES * len(index)

    def index_for(self, caller: Caller) -> Index:
        """Return an index of only the documents that a caller may see."""
        return self.searcher.index if self.views is None else self.views.index_for(caller)


def open_release(
    workspace: Workspace,
    release: Release,
    before: Served | None,
    is_server: bool,
    mapped: MappedFolder | None = None,
) -> Served:
    """Open a release. Reuse the vectors that the open release `before` also has.

    If `is_server` is True, read the rows into memory, and fill the caches with a first search. With
    `mapped`, the processes of the server share vectors and rows.
    """
    shared = None if before is None else before.searcher.index
    index = open_builds(workspace, release.pinned, shared)
    if is_server:
        index = index.for_server(mapped)
        if mapped is not None:
            mapped.keep_only(index.mapped_names | (shared.mapped_names if shared else set()))
    served = searched_with(workspace, release, index)
    if is_server:
        _warm(served)
    return served


def searched_with(workspace: Workspace, release: Release, index: Index) -> Served:
    """Return the open release of `index`, with its settings and models."""
    settings, now = release.typed_settings(), workspace.config
    reranker = at_current_endpoint(now, settings.reranker)
    chats = current_chats(workspace, settings.reranker_chats)
    embedder = open_embedder(now.located(at_current_endpoint(now, settings.embedding)))
    searcher = Searcher(
        index=index,
        retriever=settings.retriever,
        reranker=reranker,
        embed=lambda queries: embed_queries(queries, embedder, workspace.cache),
        score=passage_scorer(workspace, reranker, chats=chats),
    )
    labels = labels_of(workspace, release)
    views = None if labels is None else Views(index, labels)
    return Served(
        release=release, settings=settings, embedder=embedder, searcher=searcher, views=views
    )


def labels_of(workspace: Workspace, release: Release) -> Labels | None:
    """Return the labels of a release's documents, or None if every caller may see all documents."""
    pinned = release.pinned
    access = workspace.config.access or release.typed_settings().access
    if access is None:
        return None

    def chunks() -> Iterator[str]:
        table = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
        for batch in table.read(["document_id"], version=pinned.vector_version):
            yield from batch.column("document_id").to_pylist()

    return Labels(partial(document_labels, workspace, access, pinned.documents_version), chunks)


def current_chats(
    workspace: Workspace, chats: Mapping[str, ChatSettings]
) -> dict[str, ChatSettings]:
    """Return the chat models of a release, with the addresses in the corpus file."""
    return {name: at_current_endpoint(workspace.config, chat) for name, chat in chats.items()}


def _warm(served: Served) -> None:
    """Search once, to read the files and open the model. Call no reranker model."""
    searcher, caller = served.searcher, Caller(frozenset())
    is_asked = isinstance(searcher.reranker, PassageReranker)
    request = SearchRequest(query=FIRST_QUERY, k=5, rerank=not is_asked, discover=True)
    try:
        for index in (searcher.index, served.index_for(caller)):
            replace(searcher, index=index).search(request)
    except RagPipelineError as error:
        _log.warning("%s: the first search failed: %s", served.release.release_id, error)


def give_way() -> None:
    """On Linux, lower the priority of this thread and of the threads that it starts."""
    if sys.platform == "linux":
        thread = get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)
