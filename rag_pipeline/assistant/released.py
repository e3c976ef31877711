"""Search the served release of a corpus for a caller."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import replace
from threading import Lock
from typing import Any, Protocol

from cachetools import LRUCache

from rag_pipeline.assistant.model import interactive
from rag_pipeline.calls.costs import attributed
from rag_pipeline.client.records import Released
from rag_pipeline.config import AnswerMethod, AnswerSettings
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import OPERATOR, Answer, Caller, Document, SearchRequest, SearchResult
from rag_pipeline.errors import ProviderError, StoreError

_MOST_BYTES = 64 << 20
"""Maximum size in bytes of the cached search results of a corpus."""
AnswerMaker = Callable[[SearchResult], Answer]
"""Returns the answer of a release's answer method. Raises ProviderError if the method fails."""


class SearchedCorpus(Protocol):
    """A searchable set of documents. With `shows_documents = False`, it returns only passages."""

    name: str

    def search(self, request: SearchRequest) -> SearchResult:
        """Return ranked chunks and documents."""

    def document(self, document_id: str) -> Document:
        """Return a whole document. Raise InputError if the id is unknown."""

    def describe(self) -> dict[str, Any]:
        """Return public facts, such as name, description, release and number of chunks."""


class ReleasedCorpus:
    """The newest open release of a corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.name = corpus.name
        self.caller = OPERATOR
        self._cached: LRUCache[tuple[str, SearchRequest], SearchResult]
        self._cached = LRUCache(_MOST_BYTES, _size_of)
        self.cached = Counter[bool]()
        """Number of searches with a cached result (True) and without one (False)."""
        self._lock = Lock()

    def seen_by(self, caller: Caller) -> "ReleasedCorpus":
        """Return the corpus with only the documents that a caller may see."""
        seen = copy(self)
        seen.caller = caller
        return seen

    def held_bytes(self) -> int:
        """Return the approximate bytes of the open release, without cached results."""
        served = self.corpus.opened()
        return 0 if served is None else served.bytes

    def close(self) -> None:
        """Free the memory of the release and its cached results. The next search opens it again."""
        self.corpus.close()
        with self._lock:
            self._cached.clear()

    def shows_all(self) -> bool:
        """Return whether the caller may see all documents."""
        labels = self.corpus.labels(self.caller)
        return labels is None or labels.shows_all(self.caller)

    def search(self, request: SearchRequest) -> SearchResult:
        """Search the release. Results are cached by release, caller and request.

        A request with `boost` or `allowed` is not cached. Without `stages`, `boost` is ignored,
        because the release was evaluated without `boost`.
        """
        request = replace(request, caller=self.caller)
        if request.boost is not None or request.allowed is not None:
            boost = request.boost if request.stages else None
            return self.corpus.retrieve(replace(request, boost=boost))
        release_id = self.corpus.searched().release_id
        key = release_id, request
        with self._lock:
            self.cached[key in self._cached] += 1
            if key in self._cached:
                return self._cached[key]
        found = self.corpus.retrieve(request)
        is_whole = found.rerank_error is None and found.boost_error is None
        # If the release changed during the search, the searched release is unknown.
        if is_whole and self.corpus.searched().release_id == release_id:
            with self._lock, suppress(ValueError):  # a result larger than the cache
                self._cached[key] = found
        return found

    def released(self) -> Released:
        """Return the release that searches read now."""
        release, note = self.corpus.searched_with_note()
        return Released(
            corpus=self.name,
            release=release.release_id,
            released=release.created,
            configuration=release.configuration,
            note=note,
        )

    def answers(self) -> tuple[AnswerSettings, AnswerMaker | None]:
        """Return the release's answer settings, and its answer method or None for quotes."""
        settings, chats = self.corpus.answers()
        if not isinstance(settings, AnswerMethod):
            return settings, None
        method, assistant = settings, self.corpus.config.assistant
        impatient = {name: interactive(chat, assistant) for name, chat in chats.items()}
        models = self.corpus.workspace.models(chats=impatient)

        def answer(found: SearchResult) -> Answer:
            with attributed("assistant.answer"):
                (made,) = method.answer([found], models)
            if isinstance(made, ProviderError):
                raise made
            return made

        return settings, answer

    def document(self, document_id: str) -> Document:
        """Return the indexed version of a document of the release."""
        return self.corpus.document(document_id, self.caller)

    def describe(self) -> dict[str, Any]:
        """Return facts of the searched release, with the `error` of an unusable newer release."""
        problem, labels = {}, self.corpus.labels(self.caller)
        try:
            release = self.corpus.release()
        except StoreError as error:
            release = self.corpus.searched()
            problem = {"error": f"searches stay with {release.release_id}: {error}"}
        return {
            **problem,
            "name": self.name,
            "description": self.corpus.config.description,
            "release": release.release_id,
            "released": release.created,
            "configuration": release.configuration,
            "documents": sum(self.corpus.sees(self.caller, d) for d in self.corpus.document_ids()),
            "chunks": release.pinned.rows if labels is None else labels.count_chunks(self.caller),
            "questions": self.corpus.questions(self.caller),
        }


def _size_of(found: SearchResult) -> int:
    """Return the approximate bytes of a result."""
    sizes = (1_000 + len(c.text) + len(c.context) + len(c.token_signs) for c in found.chunks)
    return 1_000 + sum(sizes)
