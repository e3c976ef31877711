"""Limit an opened index to the documents that a caller may see."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock

from cachetools import LRUCache

from rag_pipeline.config import Access
from rag_pipeline.datamodels import Caller
from rag_pipeline.search.index import Index
from rag_pipeline.store.schemas import parse_metadata
from rag_pipeline.workspace import Workspace

_MOST_VIEWS = 64

DocumentLabels = Mapping[str, frozenset[str]]
"""The labels of each document, by its id."""


def document_labels(
    workspace: Workspace,
    access: Access,
    version: int | None,
    document_ids: Sequence[str] | None = None,
) -> DocumentLabels:
    """Return the labels of documents in a version of the documents table, by default of all."""
    rows = workspace.documents().read_rows(["document_id", "metadata"], document_ids, version)
    return {
        row["document_id"]: access.of(row["document_id"], parse_metadata(row["metadata"]))
        for row in rows
    }


class Labels:
    """The labels of a release's documents. Threads may share an instance.

    `read` returns the labels of all documents. `chunks` returns the document id of each chunk.
    Each function is called once, at the first use. A document without labels is hidden from every
    caller whose `labels` are not None.
    """

    def __init__(
        self, read: Callable[[], DocumentLabels], chunks: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self._read, self._chunks = read, chunks
        self._lock, self._counting = Lock(), Lock()
        self._known: DocumentLabels | None = None
        self._counts: Counter[frozenset[str]] | None = None

    @property
    def of_documents(self) -> DocumentLabels:
        """Return the labels of each document."""
        with self._lock:
            if self._known is None:
                shared: dict[frozenset[str], frozenset[str]] = {}
                labels = self._read()
                self._known = {d: shared.setdefault(held, held) for d, held in labels.items()}
            return self._known

    def sees(self, caller: Caller, document_id: str) -> bool:
        """Return whether a caller may see a document. Return False for an unknown document."""
        if caller.labels is None:
            return True
        labels = self.of_documents.get(document_id)
        return labels is not None and caller.sees(labels)

    def shows_all(self, caller: Caller) -> bool:
        """Return whether a caller may see all documents."""
        return all(caller.sees(held) for held in {*self.of_documents.values()})

    def count_chunks(self, caller: Caller) -> int:
        """Return the number of chunks that a caller may see."""
        labels = self.of_documents
        with self._counting:
            if self._counts is None:
                self._counts = Counter(labels[d] for d in self._chunks() if d in labels)
            counts = self._counts
        return sum(count for held, count in counts.items() if caller.sees(held))


class Views:
    """The last used views of an index. Threads may share an instance.

    A view is the index with only the documents that some callers may see. Each view is made once,
    and only callers who need this view wait for it.
    """

    def __init__(self, index: Index, labels: Labels) -> None:
        self.labels = labels
        self._index = index
        self._lock = Lock()
        self._views: LRUCache[frozenset[frozenset[str]], Future[Index]] = LRUCache(_MOST_VIEWS)

    def index_for(self, caller: Caller) -> Index:
        """Return the view of the index for a caller."""
        if caller.labels is None:
            return self._index
        labels = self.labels.of_documents
        seen = frozenset(held for held in set(labels.values()) if caller.sees(held))
        with self._lock:
            known = self._views.get(seen)
            view = self._views[seen] = known or Future()
        if known is None:
            try:
                only = self._index.only([d for d, held in labels.items() if held in seen])
                is_whole = only.visible is not None and only.visible.all() and len(labels)
                view.set_result(self._index if is_whole else only)
            except BaseException as error:  # noqa: BLE001 - the future passes it to all callers
                with self._lock:
                    self._views.pop(seen, None)
                view.set_exception(error)
        return view.result()
