"""Provide a workspace for dry runs. It keeps results in memory, and records calls."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from rag_pipeline.calls.costs import Ledger
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config import CorpusConfig, PassageReranker
from rag_pipeline.store import Store, Table
from rag_pipeline.workspace import Workspace

StoredRows = dict[str, list[pa.RecordBatch]]
"""The rows of each document, by document id."""


class DryTable(Table):
    """A table of the store. For documents that were built dry, the rows in memory count."""

    made: StoredRows

    def hold(self, document_ids: Iterable[str], batches: Iterable[pa.RecordBatch]) -> int:
        """Hold rows of documents in memory, one document per batch. Return the number of rows."""
        self.made.update((document_id, []) for document_id in document_ids)
        rows = 0
        for batch in batches:
            self.made[batch.column("document_id")[0].as_py()].append(batch)
            rows += batch.num_rows
        return rows

    def rows(self, document_ids: Iterable[str]) -> int:
        """Return the number of rows of the given documents, in memory or in the store."""
        stored = self.state()
        return sum(
            sum(batch.num_rows for batch in self.made[document_id])
            if document_id in self.made
            else stored[document_id].rows
            for document_id in document_ids
            if document_id in self.made or document_id in stored
        )

    def read(
        self,
        columns: Sequence[str],
        document_ids: Sequence[str] | None = None,
        version: int | None = None,
        batch_rows: int = 4096,
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of the given documents, first from memory and then from the store.

        If `document_ids` is None, yield columns of all documents in the store.
        """
        if document_ids is not None:
            for document_id in document_ids:
                for batch in self.made.get(document_id, ()):
                    yield batch.select(list(columns))
            document_ids = [d for d in document_ids if d not in self.made]
            if not document_ids:
                return
        yield from super().read(columns, document_ids, version, batch_rows)

    def pin(self, tag: str, version: int) -> None:
        """Do nothing, because a dry run pins nothing."""


class DryStore(Store):
    """A store that writes files to memory."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.url, store.corpus)
        self._states = store._states
        self._rows: dict[str, StoredRows] = {}
        self._written: dict[str, bytes] = {}

    def table(self, name: str, schema: pa.Schema) -> DryTable:
        """Return a table that reads and holds rows in the memory of this store."""
        table = DryTable(self.files, name, schema, self._keep_versions, self._states)
        table.made = self._rows.setdefault(name, {})
        return table

    def forget(self) -> None:
        """Drop the rows in memory, but not the files in memory."""
        self._rows.clear()

    def read_bytes(self, path: str) -> bytes | None:
        """Return the content of a file from memory, or else from the store."""
        return self._written.get(path) or super().read_bytes(path)

    def write_bytes(self, path: str, content: bytes) -> None:
        """Keep a file's content in memory."""
        self._written[path] = content


class DryWorkspace(Workspace):
    """A workspace that writes only to memory and makes no calls."""

    is_dry = True

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_keeping_order(workspace.config))
        self.real = workspace

    @cached_property
    def store(self) -> DryStore:
        """Return the store with the results of the dry run."""
        return DryStore(self.real.store)

    @cached_property
    def cache(self) -> RecordingCache:
        """Return a call cache that records calls without making them."""
        return RecordingCache.of(self.real.cache)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the corpus's ledger, which a dry run only reads."""
        return self.real.ledger

    def dry_table(self, name: str) -> DryTable:
        """Return the table with this name, without a schema."""
        return self.store.table(name, pa.schema([]))


def _keeping_order(config: CorpusConfig) -> CorpusConfig:
    """Return settings with which a query without scores does not end the search."""
    rerankers = {
        name: settings.model_copy(update={"on_error": "keep_order"})
        if isinstance(settings, PassageReranker)
        else settings
        for name, settings in config.rerankers.items()
    }
    return config.model_copy(update={"rerankers": rerankers})
