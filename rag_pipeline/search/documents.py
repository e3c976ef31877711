"""Read documents from one version of their table, and keep the last used documents in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from threading import Lock

from cachetools import LRUCache

from rag_pipeline.datamodels import Document
from rag_pipeline.search import deadlines
from rag_pipeline.store import Table
from rag_pipeline.store.schemas import parse_metadata

_MOST_CHARACTERS = 8_000_000
"""Maximum number of characters of all texts in memory. They need 8 to 32 MB."""
_COLUMNS = [field.name for field in fields(Document)]


class PinnedDocuments:
    """A reader of a release's documents. Threads may share it.

    The table stays open, because opening the table takes longer than a search.
    """

    def __init__(self, table: Table, version: int) -> None:
        self._table = table
        self._version = version
        self._opened: Table | None = None
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
            if self._opened is None:
                self._opened = self._table.opened(self._version)
            for row in self._opened.read_rows(_COLUMNS, missing, batch_rows=16):
                document = Document(**{**row, "metadata": parse_metadata(row["metadata"])})
                found[document.document_id] = document
                with self._lock:
                    if len(document.text) < _MOST_CHARACTERS // 4:
                        self._kept[document.document_id] = document
        return found

    def texts(self, document_ids: Sequence[str]) -> Mapping[str, str]:
        """Return the documents' texts by id."""
        return {name: document.text for name, document in self.read(document_ids).items()}
