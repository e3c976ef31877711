"""A workspace in which steps run dry: what they write stays in memory, their calls are noted."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from rag_pipeline.calls.costs import Ledger
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config import CorpusConfig, PassageReranker
from rag_pipeline.store import Store, Table
from rag_pipeline.workspace import Workspace

StoredRows = dict[str, list[pa.RecordBatch]]
"""Rows by their document."""


class DryTable(Table):
    """A table of the store, with other rows for the documents that were made anew."""

    made: StoredRows

    def hold(self, document_ids: Iterable[str], batches: Iterable[pa.RecordBatch]) -> int:
        """Put rows, each batch of one document, in the place of all that the documents have.

        Returns the number of rows. They stay in memory.
        """
        self.made.update((document_id, []) for document_id in document_ids)
        rows = 0
        for batch in batches:
            self.made[batch.column("document_id")[0].as_py()].append(batch)
            rows += batch.num_rows
        return rows

    def rows(self, document_ids: Iterable[str]) -> int:
        """Return how many rows the documents have."""
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
        """Stream some columns, of all stored documents or of these."""
        if document_ids is not None:
            for document_id in document_ids:
                for batch in self.made.get(document_id, ()):
                    yield batch.select(list(columns))
            document_ids = [d for d in document_ids if d not in self.made]
            if not document_ids:
                return
        yield from super().read(columns, document_ids, version, batch_rows)

    def pin(self, tag: str, version: int) -> None:
        """Do nothing: what is searched in a dry run is not released."""


class DryStore(Store):
    """A store of which only its own memory is written."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.url, store.corpus)
        self._states = store._states
        self._rows: dict[str, StoredRows] = {}
        self._written: dict[str, bytes] = {}

    def table(self, name: str, schema: pa.Schema) -> DryTable:
        """Return a handle on a table, with the rows that were made of it."""
        table = DryTable(self._database, name, schema, self._keep_versions, self._states)
        table.made = self._rows.setdefault(name, {})
        return table

    def forget(self) -> None:
        """Let go of the rows that were made, not of the files."""
        self._rows.clear()

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's content as it was written here, else as it is stored."""
        return self._written.get(path) or super().read_bytes(path)

    def write_bytes(self, path: str, content: bytes) -> None:
        """Keep a file's content in memory."""
        self._written[path] = content


class DryWorkspace(Workspace):
    """The handles of a corpus for a dry run."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_going_on(workspace.config))
        self._real = workspace

    @cached_property
    def store(self) -> DryStore:
        """Return the store with what the dry run has made."""
        return DryStore(self._real.store)

    @cached_property
    def cache(self) -> RecordingCache:
        """Return the call cache that notes calls."""
        return RecordingCache(self._real.store.calls_path, self._real.cache.exchange)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the corpus's ledger, which a dry run only reads: it makes no call."""
        return self._real.ledger

    def dry_table(self, name: str) -> DryTable:
        """Return a table by its name, to hold rows."""
        return self.store.table(name, pa.schema([]))


def _going_on(config: CorpusConfig) -> CorpusConfig:
    """Return settings under which a reranker's unknown scores keep the order.

    With `on_error: raise`, the first query without scores would end the search for the others.
    """
    rerankers = {
        name: settings.model_copy(update={"on_error": "keep_order"})
        if isinstance(settings, PassageReranker)
        else settings
        for name, settings in config.rerankers.items()
    }
    return config.model_copy(update={"rerankers": rerankers})
