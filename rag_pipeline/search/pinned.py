"""Pin the exact builds that a configuration searches, and open pinned builds."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from pydantic import ConfigDict

from rag_pipeline.config import Configuration
from rag_pipeline.search.copies import copies_matching, find_copies
from rag_pipeline.search.documents import PinnedDocuments
from rag_pipeline.search.index import Index
from rag_pipeline.search.lexical_index import open_lexical_index
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.store.states import read_once
from rag_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Pinned:
    """The exact builds that a run of a configuration searches and a release serves."""

    vector_table: str
    vector_version: int
    lexical_path: str | None
    rows: int
    documents_version: int | None = None
    """Version of the documents table, which holds the cited texts."""
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")


def pin(workspace: Workspace, configuration: Configuration) -> Pinned:
    """Return the current builds of a configuration."""
    engine = workspace.config.engine(configuration)
    own = workspace.store.address("pinned"), configuration.vector_key, engine
    return read_once(own, lambda: _pin(workspace, configuration))


def _pin(workspace: Workspace, configuration: Configuration) -> Pinned:
    # A later version of the documents could have documents that the other builds lack.
    documents = workspace.documents()
    documents_version = documents.version if documents.exists() else None
    table = workspace.vector_index(configuration.vector_key)
    engine = workspace.config.engine(configuration)
    lance = table.dataset()
    return Pinned(
        vector_table=table.name,
        vector_version=int(lance.version),
        lexical_path=engine and workspace.lexical_path(configuration.context_key, engine),
        rows=int(lance.count_rows()),
        documents_version=documents_version,
    )


def open_index(workspace: Workspace, pinned: Pinned) -> Index:
    """Return an index of the pinned builds. The last opened index stays open for the next call.

    The evaluation steps of a run search the same index, and opening 10^6 chunks takes seconds.
    """
    if pinned not in workspace.held:
        workspace.held.clear()  # free the memory before the next index opens
        workspace.held[pinned] = open_builds(workspace, pinned)
    index: Index = workspace.held[pinned]
    return index


def open_builds(workspace: Workspace, pinned: Pinned, before: Index | None = None) -> Index:
    """Open the pinned builds for searching. Reuse vectors of the open index `before`."""
    table = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    lexical = None
    if pinned.lexical_path is not None:
        lexical = open_lexical_index(workspace.store.local_folder(pinned.lexical_path))
    index = Index.open(table.dataset(pinned.vector_version), lexical, before)
    version = pinned.documents_version
    if version is None:
        return index
    copies = find_copies(workspace, version)
    return replace(
        index,
        documents=PinnedDocuments(workspace.documents(), version),
        copies=copies,
        copies_matching=partial(copies_matching, workspace, version, copies),
    )
