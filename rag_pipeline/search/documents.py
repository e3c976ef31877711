"""Read documents from one version of their table, and keep the last used documents in memory."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from threading import Lock
from typing import Any

import pyarrow as pa
from cachetools import LRUCache

from rag_pipeline.datamodels import Document
from rag_pipeline.search import deadlines
from rag_pipeline.search.mapped import MappedFolder
from rag_pipeline.store import Table
from rag_pipeline.store.schemas import parse_metadata

_MOST_CHARACTERS = 8_000_000
"""Maximum number of characters of all texts in memory. They need 8 to 32 MB."""
_COLUMNS = [field.name for field in fields(Document)]


def places_in(ids: pa.Array, wanted: Sequence[str]) -> list[int]:
    """Return each id's place in sorted ids. An unknown id gets the place of the next larger id."""
    return [bisect_left(ids, one, key=lambda found: found.as_py()) for one in wanted]


class PinnedDocuments:
    """A reader of a release's documents. Threads may share it.

    The table stays open, because opening the table takes longer than a search.
    """

    def __init__(self, table: Table, version: int) -> None:
        self._table = table
        self._version = version
        self._opened: Table | None = None
        self._rows: pa.Table | None = None
        """All documents, sorted by id. None if documents are read from the table."""
        self._lock = Lock()
        self._kept: LRUCache[str, Document] = LRUCache(
            _MOST_CHARACTERS, lambda document: len(document.text) + 200
        )

    def read(self, document_ids: Sequence[str]) -> dict[str, Document]:
        """Return the documents by id. Unknown ids are left out."""
        with self._lock:
            found = {d: self._kept[d] for d in document_ids if d in self._kept}
        missing = [d for d in document_ids if d not in found]
        if missing:
            deadlines.check()
            for row in self._read(missing):
                document = Document(**{**row, "metadata": parse_metadata(row["metadata"])})
                found[document.document_id] = document
                with self._lock:
                    if len(document.text) < _MOST_CHARACTERS // 4:
                        self._kept[document.document_id] = document
        return found

    def _read(self, document_ids: Sequence[str]) -> Iterable[dict[str, Any]]:
        if self._rows is not None:
            ids = self._rows.column("document_id").chunk(0)
            pairs = zip(places_in(ids, document_ids), document_ids, strict=True)
            known = [n for n, d in pairs if ids[n : n + 1].to_pylist() == [d]]
            rows: list[dict[str, Any]] = self._rows.take(known).to_pylist()
            return rows
        if self._opened is None:
            self._opened = self._table.opened(self._version)
        return self._opened.read_rows(_COLUMNS, document_ids, batch_rows=16)

    @property
    def name(self) -> str:
        """Return the name of the table with its identity and the version."""
        return f"{self._table.name}-{self._table.identity}-{self._version}"

    def for_server(self, most: int, mapped: MappedFolder) -> "PinnedDocuments":
        """Return a reader of a mapped file of all documents, unless they exceed `most` bytes."""

        def sorted_rows() -> pa.Table | None:
            batches, size = [], 0
            for batch in self._table.read(_COLUMNS, version=self._version):
                size += batch.nbytes
                if size > most:
                    return None
                batches.append(batch)
            if not batches:
                return None
            return pa.Table.from_batches(batches).sort_by("document_id").combine_chunks()

        made = PinnedDocuments(self._table, self._version)
        made._rows = mapped.rows(self.name, sorted_rows)
        return made

    def texts(self, document_ids: Sequence[str]) -> Mapping[str, str]:
        """Return the documents' texts by id."""
        return {name: document.text for name, document in self.read(document_ids).items()}
