"""The exact builds that a configuration searches: a run pins them, a release serves them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from rag_pipeline.config import Configuration
from rag_pipeline.search.index import Index
from rag_pipeline.search.lexical_index import open_lexical_index
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Pinned:
    """The exact builds that a configuration's run searched, and that a release serves."""

    vector_table: str
    vector_version: int
    lexical_path: str | None
    rows: int
    documents_version: int | None = None
    """Version of the documents table that citations are shown in."""


def pin(workspace: Workspace, configuration: Configuration) -> Pinned:
    """Return the current builds of a configuration."""
    # The documents come first: the other builds then lack documents that are loaded meanwhile.
    documents = workspace.documents()
    documents_version = documents.version if documents.exists() else None
    table = workspace.vector_index(configuration.vector_key)
    engine = workspace.config.engine(configuration)
    lance = table.open()
    return Pinned(
        vector_table=table.name,
        vector_version=int(lance.version),
        lexical_path=engine and workspace.lexical_path(configuration.context_key, engine),
        rows=int(lance.count_rows()),
        documents_version=documents_version,
    )


def open_index(workspace: Workspace, pinned: Pinned) -> Index:
    """Return the pinned builds, opened; the last one opened stays open for the next call.

    The steps that evaluate a run follow each other; opening takes seconds at 10^6 chunks.
    """
    if pinned not in workspace.held:
        workspace.held.clear()  # or two would be in memory while the second opens
        workspace.held[pinned] = open_builds(workspace, pinned)
    index: Index = workspace.held[pinned]
    return index


def open_builds(workspace: Workspace, pinned: Pinned, before: Index | None = None) -> Index:
    """Open the pinned builds for searching; copy the vectors that they share with `before`."""
    table = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    lexical = None
    if pinned.lexical_path is not None:
        lexical = open_lexical_index(workspace.store.local_folder(pinned.lexical_path))
    index = Index.open(table.open(pinned.vector_version), lexical, before)
    version = pinned.documents_version
    return index if version is None else replace(index, texts=partial(_texts, workspace, version))


def _texts(workspace: Workspace, version: int, document_ids: Sequence[str]) -> dict[str, str]:
    columns = ["document_id", "text"]
    batches = workspace.documents().read(columns, document_ids, version)
    rows = (row for batch in batches for row in batch.to_pylist())
    return {row["document_id"]: row["text"] for row in rows}
