"""What an assistant searches: released corpora, or any other source with the same few verbs."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import Document, ScoredChunk
from rag_pipeline.errors import InputError
from rag_pipeline.search.staged import Discovered
from rag_pipeline.store import quoted

Boost = Callable[[str, Sequence[str]], Sequence[str]]
"""From a document's id and its best chunks' texts to boosted queries for it."""

_REMEMBERED = 64
"""So many searches of the assistant's own are kept, a few passages each."""


@dataclass(frozen=True, slots=True)
class Search:
    """One search of a dataset; `document_id` restricts it to one document.

    `own` says that the query is the assistant's own, the same for many questions.
    """

    query: str
    k: int
    document_id: str | None = None
    boosted_files: int = 0
    variants: int = 0
    rerank: bool = True
    own: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a dataset found: chunks and documents, best first, and the boosted queries used."""

    chunks: Sequence[ScoredChunk]
    documents: Sequence[Discovered]
    boosted: Mapping[str, Sequence[str]]


class Dataset(Protocol):
    """A set of documents that can be searched."""

    name: str

    def search(self, wanted: Search, boost: Boost | None = None) -> Found:
        """Return ranked chunks and documents."""

    def document(self, document_id: str) -> Document:
        """Return a whole document; raise InputError where there is none of this name."""

    def describe(self) -> dict[str, Any]:
        """Return what a client may know: name, description, release, document and chunk counts."""


class ReleasedDataset:
    """The release of a corpus; a newer release is picked up by the next search."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.name = corpus.name
        self._made: OrderedDict[tuple[str, Search], Found] = OrderedDict()
        self._lock = Lock()

    def search(self, wanted: Search, boost: Boost | None = None) -> Found:
        """Search the release in stages; what the assistant itself asks is searched once."""
        if not wanted.own or boost is not None:
            return self._search(wanted, boost)
        release_id = self.corpus.release().release_id
        key = release_id, wanted
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        found = self._search(wanted, None)
        if self.corpus.release().release_id == release_id:  # or it may be of either
            with self._lock:
                self._made[key] = found
                while len(self._made) > _REMEMBERED:
                    self._made.popitem(last=False)
        return found

    def _search(self, wanted: Search, boost: Boost | None) -> Found:
        where = None
        if wanted.document_id is not None:
            where = f"document_id = {quoted(wanted.document_id)}"
        staged = self.corpus.search_in_stages(
            wanted.query,
            wanted.k,
            where,
            boost,
            wanted.boosted_files,
            wanted.variants,
            wanted.rerank,
        )
        return Found(staged.chunks, staged.documents, staged.boosted)

    def document(self, document_id: str) -> Document:
        """Return a document of the release as it was indexed."""
        return self.corpus.document(document_id)

    def document_ids(self) -> list[str]:
        """Return the release's documents, sorted."""
        return self.corpus.document_ids()

    def describe(self) -> dict[str, Any]:
        """Return name, description, release, and how much it holds."""
        release = self.corpus.release()
        return {
            "name": self.name,
            "description": self.corpus.config.description,
            "release": release.release_id,
            "released": release.created,
            "configuration": release.configuration,
            "chunks": release.pinned.rows,
        }


def choose(datasets: Mapping[str, Dataset], names: Sequence[str] | None) -> list[Dataset]:
    """Return the named datasets, all of them if none is named; raise InputError for others."""
    if not names:
        if not datasets:
            raise InputError("name the dataset to search")
        return list(datasets.values())
    for name in names:
        if name not in datasets:
            raise InputError(f"no dataset {name[:80]!r}; there are: {', '.join(datasets)}")
    return [datasets[name] for name in dict.fromkeys(names)]
