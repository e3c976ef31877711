"""Search a corpus's release, read its leaderboard and roll it back from Python."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from rag_pipeline import release as manifests
from rag_pipeline.calls.costs import attributed, charging
from rag_pipeline.config import AnswerSettings, ChatSettings, CorpusConfig, load_config
from rag_pipeline.config.calibration import DEFAULT, Calibration
from rag_pipeline.datamodels import (
    OPERATOR,
    Caller,
    Document,
    Query,
    ScoredChunk,
    SearchRequest,
    SearchResult,
)
from rag_pipeline.errors import DocumentError, InputError, StoreError
from rag_pipeline.loading.places import Place, place_of
from rag_pipeline.models.providers.minilm import MiniLMTokens
from rag_pipeline.release import Release
from rag_pipeline.release.manifest import ReleaseSettings, pointer, rollback_note
from rag_pipeline.release.opening import Served, current_chats, give_way, labels_of, open_release
from rag_pipeline.search.mapped import MappedFolder
from rag_pipeline.search.retrieval import check_query
from rag_pipeline.search.retrievers import single_pass
from rag_pipeline.search.views import Labels
from rag_pipeline.search.widening import EXPAND, widened
from rag_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from rag_pipeline.assistant import Assistant, AssistedAnswer
    from rag_pipeline.evaluation.leaderboard import Board

_log = logging.getLogger(__name__)
_AT_ONCE_SECONDS = 0.05
"""Seconds that a search waits for a new release of at most `_AT_ONCE_CHUNKS` chunks."""
_AT_ONCE_CHUNKS = 5_000
_LOOK_SECONDS = {False: 0.1, True: 1.0}
"""Seconds between two checks of a server for a new release. True stands for buckets."""
_QUIET_SECONDS = 3.0
"""Seconds without a look after which requests to a server wait for a new release."""
_QUIET_WAIT_SECONDS = 5.0
"""Maximum seconds of this wait."""
_RETRY_SECONDS = 30.0
"""Seconds after which a release that could not be opened is tried again."""


class Corpus:
    """A corpus file with its builds.

    >>> corpus = Corpus.load("rag_pipeline/defs/sample/defs.yaml")
    >>> corpus.search("How long does confidentiality last?", k=5)
    """

    def __init__(self, config: CorpusConfig, verify: bool = False) -> None:
        """Keep the settings. If `verify` is set, check the hashes of releases before opening them.

        If a release has changed on disk, searches stay with the previous release.
        """
        self.config = config
        self.name = config.corpus
        self.verify = verify
        self.is_server = False
        """Whether a release is opened for many searches (see `open_release`)."""
        self.mapped: MappedFolder | None = None
        """The files that share the open release between the processes of a server."""
        self.after_opening: Callable[[], None] = lambda: None
        self.used = 0.0  # the time of the last search or opening, by `time.monotonic`
        self.workspace = Workspace(config)
        self._lock = Lock()
        """Guards the fields below. No code opens or reads a file while it holds the lock."""
        self._served: Served | None = None
        self._opening: tuple[str, Future[Served]] | None = None
        self._answered: tuple[str, list[Query]] | None = None
        """A release id, and the queries whose first found chunk answers them."""
        self._labels: tuple[str, Labels | None] | None = None
        """A release id, and the labels of its documents."""
        self._not_before = self._next_look = self._looked = self._wait_until = 0.0
        self._logged: tuple[str, float] | None = None
        """The last logged error about a new release, and the time of logging."""

    @classmethod
    def load(cls, file: str | Path, verify: bool = False) -> "Corpus":
        """Return the corpus of a corpus file. For `verify`, see the constructor.

        If settings are wrong, raise a ConfigError that names all of them.
        """
        return cls(load_config(file), verify)

    def search(
        self, query: str, k: int = 5, where: str | None = None, caller: Caller = OPERATOR
    ) -> list[ScoredChunk]:
        """Return the k best chunks that a caller may see in the release, best first.

        `where` is a filter in SQL, such as `document_id LIKE 'policies/%'` or
        `json_get_string(metadata, 'suffix') = '.pdf'`. A newer release is opened in the background,
        and searches do not wait for it (see `reopen`). If the retriever's `expand` is set, the
        chunks are widened to passages, possibly fewer than k. Raise NotReleasedError before the
        first release. Raise InputError for an empty query or an invalid filter.
        """
        found = self.retrieve(SearchRequest(query=query, k=k, where=where, caller=caller))
        return [passage for _, passage in self.widened(found.chunks)]

    def ask(
        self, query: str, turns: Sequence[str] = (), caller: Caller = OPERATOR, **options: Any
    ) -> "AssistedAnswer":
        """Answer a question from the release, with checked sources, as `rag ask` does.

        `turns` are the earlier questions, oldest first. `options` are passed to `Assistant.ask`.
        The first call opens the assistant. Raise the same errors as `search`.
        """
        return self._assistant.seen_by(caller).ask(query, turns=turns, **options)

    @cached_property
    def _assistant(self) -> "Assistant":
        from rag_pipeline.assistant import open_assistant

        return open_assistant([self])

    def retrieve(self, request: SearchRequest) -> SearchResult:
        """Return the chunks that the release's retriever and reranker find.

        Only chunks of the packaged model have token signs. Raise the same errors as `search`.
        """
        self._check_named(request.caller)
        check_query(request.query)
        if request.k is not None and request.k < 1:
            raise InputError(f"k is {request.k}; it must be at least 1")
        served = self._open()
        if request.tokens and not isinstance(served.embedder, MiniLMTokens):
            request = replace(request, tokens=False)
        searcher = replace(served.searcher, index=served.index_for(request.caller))
        with charging(self.workspace.ledger), attributed("search"):
            return searcher.search(request)

    def widened(self, chunks: Sequence[ScoredChunk]) -> list[tuple[int, ScoredChunk]]:
        """Widen ranked chunks to passages by the retriever's `expand`.

        Return each passage with the position of its best chunk in `chunks` (see `search.widening`).
        """
        searcher = (self._served or self._open()).searcher
        first = single_pass(searcher.retriever).expand
        widest = max(searcher.retriever.expand, first, key=EXPAND.index)
        return widened(searcher.index, chunks, widest)

    def answers(self) -> tuple[AnswerSettings, Mapping[str, ChatSettings]]:
        """Return the release's answer settings with the chat models that these settings name."""
        settings = self._settings()
        return settings.answers, current_chats(self.workspace, settings.answers_chats)

    def calibration(self) -> Calibration:
        """Return the calibration fitted to the release's queries, or else the default."""
        return self._settings().calibration or DEFAULT

    def _settings(self) -> ReleaseSettings:
        return self.release().typed_settings() if self._served is None else self._open().settings

    def document_ids(self) -> list[str]:
        """Return the sorted ids of the release's documents."""
        pinned = self.searched().pinned
        return sorted(self.workspace.documents().state(pinned.documents_version))

    def questions(self, caller: Caller = OPERATOR, count: int = 6) -> list[str]:
        """Return up to `count` measured queries whose first found chunk answers them.

        The caller may see the documents of each query. No two queries share their first document.
        People's queries come before synthetic queries, and short queries before long queries.
        """
        release = self.searched()
        if self._answered is None or self._answered[0] != release.release_id:
            from rag_pipeline.evaluation.runs import answered_queries

            order = answered_queries(self.workspace, release.configuration)
            self._answered = release.release_id, order
        found: dict[str, str] = {}
        for query in self._answered[1]:
            if len(found) < count and all(self.sees(caller, d) for d in query.answering_documents):
                found.setdefault(query.answering_documents[0], query.query)
        return list(found.values())

    def _check_named(self, caller: Caller) -> None:
        if caller.corpora is not None and self.name not in caller.corpora:
            raise InputError(f"no dataset {self.name!r} for this caller")

    def labels(self, caller: Caller) -> Labels | None:
        """Return the labels of the release's documents, or None if the caller may see all.

        This method does not open a release.
        """
        if caller.labels is None:
            return None
        if self._served is not None and (views := self._open().views) is not None:
            return views.labels
        release = self.searched()
        if self._labels is None or self._labels[0] != release.release_id:
            self._labels = release.release_id, labels_of(self.workspace, release)
        return self._labels[1]

    def sees(self, caller: Caller, document_id: str) -> bool:
        """Return whether a caller may see a document."""
        labels = self.labels(caller)
        return labels is None or labels.sees(caller, document_id)

    def document(self, document_id: str, caller: Caller = OPERATOR) -> Document:
        """Return a document of the release in its indexed version.

        Raise InputError if the release lacks the document, or if the caller may not see it.
        """
        self._check_named(caller)
        found = self._read([document_id]) if self.sees(caller, document_id) else {}
        if document_id not in found:
            raise InputError(f"{self.name}: no document {document_id!r}")
        return found[document_id]

    def places(self, chunks: Sequence[ScoredChunk]) -> list[Place | None]:
        """Return each chunk's place in its document, or None if the release lacks the document."""
        documents = self._read(sorted({chunk.document_id for chunk in chunks}))
        found = ((c, documents.get(c.document_id)) for c in chunks)
        return [None if d is None else place_of(d, c.start, c.end) for c, d in found]

    def _read(self, document_ids: Sequence[str]) -> Mapping[str, Document]:
        if self._served and (opened := self._open().searcher.index.documents) is not None:
            return opened.read(document_ids)
        from rag_pipeline.indexing import read_documents

        version = self.searched().pinned.documents_version
        read = read_documents(self.workspace, document_ids, version)
        return {document.document_id: document for document in read}

    def page_image(self, document_id: str, page: int) -> bytes:
        """Return a page of one of the release's PDF files as a PNG image.

        Raise InputError if the original file or object is missing or has changed.
        """
        from rag_pipeline.loading.originals import read_original
        from rag_pipeline.loading.parser_process import render_apart

        document, settings = self.document(document_id), self.config.documents
        try:
            raw = read_original(document, settings, self.config.documents_path)
            return render_apart(document_id, raw, page, settings)
        except DocumentError as error:
            raise InputError(f"{self.name}: {error}") from None

    def release(self) -> Release:
        """Return the manifest of the served release."""
        return manifests.current(self.workspace)

    def open(self) -> Release:
        """Return the open release's manifest. If no release is open, open the current release."""
        return self._open().release

    def opened(self) -> Served | None:
        """Return the release that is open, or None before the first search."""
        return self._served

    def close(self) -> None:
        """Free the memory of the open release. The next search opens the current release."""
        with self._lock:
            self._served = None

    def searched(self) -> Release:
        """Return the manifest of the release that searches read.

        While a newer release is being opened, searches read the previous release. Before the first
        search, this method returns the served release.
        """
        return self.searched_with_note()[0]

    def searched_with_note(self) -> tuple[Release, str]:
        """Return the manifest of `searched`, and a sentence about a rollback to it or ""."""
        if self._served is not None:
            served = self._open()
            return served.release, served.note
        release = manifests.current(self.workspace)
        return release, rollback_note(release, pointer(self.workspace))

    def reopen(self) -> Release:
        """Wait until searches read the current release, and return its manifest.

        If the release can't be opened, raise StoreError. Searches stay with the previous release.
        """
        release = manifests.current(self.workspace)
        with self._lock:
            served = self._served
            if served is not None and served.release.release_id == release.release_id:
                return served.release
            _, opening = self._begin(release)
        return opening.result().release

    def releases(self) -> list[Release]:
        """Return all manifests, newest first."""
        return manifests.history(self.workspace)

    def roll_back(self, release_id: str | None = None) -> Release:
        """Serve an earlier release again, by default the previous release."""
        from rag_pipeline.release.publishing import roll_back

        release = roll_back(self.workspace, release_id)
        if self._served is not None:
            self.reopen()
        return release

    def leaderboard(self, metric: str | None = None) -> dict[str, Any]:
        """Return the leaderboard of `board` as plain JSON values."""
        return self.board(metric).record()

    def board(self, metric: str | None = None) -> "Board":
        """Return every evaluated configuration with its metrics, best first.

        Each configuration is compared with the baseline and with the served configuration by the
        leaderboard's usual metrics, and by `metric` if it is given.
        """
        from rag_pipeline.evaluation.leaderboard import load_leaderboard, with_verdicts
        from rag_pipeline.release.candidate import served_reference

        board, served = load_leaderboard(self.workspace), served_reference(self.workspace)
        return with_verdicts(self.workspace, board, served, [metric] if metric else [])

    def _open(self) -> Served:
        """Return the current release. If no release is open, wait until it is open.

        Wait up to `_wait_until` for a release that is being opened. After that, or if the current
        release can't be read, return the open release.
        """
        served, opening = self._look(), self._opening
        if opening is not None and (seconds := self._wait_until - time.monotonic()) > 0:
            with suppress(Exception):  # logged by `_stay`, and the previous release still serves
                return opening[1].result(seconds)
        return served

    def _look(self) -> Served:
        """Return the open release. Begin to open the current release if it is another one."""
        served, self.used = self._served, time.monotonic()
        if served is not None and self.used < self._next_look:
            return served
        try:
            content = pointer(self.workspace)
            is_quiet = self.is_server and self.used > self._looked + _QUIET_SECONDS
            self._looked = self.used
            if self.is_server:
                self._next_look = self.used + _LOOK_SECONDS[self.workspace.store.files.shared]
            if served is not None and served.release.release_id == content.get("release_id"):
                if (note := rollback_note(served.release, content)) == served.note:
                    return served
                noted = replace(served, note=note)
                with self._lock:
                    self._served = noted if self._served is served else self._served
                return noted
            release = manifests.current(self.workspace)
        except StoreError as error:
            if served is None:
                raise
            self._stay(served, "the current release", error)
            return served
        with self._lock:
            served = self._served
            if served is not None and (
                served.release.release_id == release.release_id
                or time.monotonic() < self._not_before
            ):
                return served
            begun, opening = self._begin(release)
            if begun:
                is_small = release.pinned.rows <= _AT_ONCE_CHUNKS
                seconds = _QUIET_WAIT_SECONDS if is_quiet else _AT_ONCE_SECONDS * is_small
                self._wait_until = time.monotonic() + seconds
        return opening.result() if served is None else served

    def _begin(self, release: Release) -> tuple[bool, "Future[Served]"]:
        """Open a release in a new thread, unless another thread already opens it.

        Return whether this call started the thread, and the future result.
        """
        if self._opening is not None and self._opening[0] == release.release_id:
            return False, self._opening[1]
        opening: Future[Served] = Future()
        self._opening = release.release_id, opening

        def work() -> None:
            before = self._served
            try:
                if before is not None:
                    give_way()
                if self.verify:
                    manifests.verify(self.workspace, release)
                served = open_release(self.workspace, release, before, self.is_server, self.mapped)
            except BaseException as error:  # noqa: BLE001 - the future passes it to waiting callers
                self._end(opening, None)
                if self._served is not None:
                    self._stay(self._served, release.release_id, error)
                opening.set_exception(error)
            else:
                self._end(opening, served)
                opening.set_result(served)

        # Not a daemon: if a daemon thread is stopped inside LanceDB, the process aborts.
        Thread(target=work, name=f"open {release.release_id}").start()
        return True, opening

    def _end(self, opening: "Future[Served]", served: Served | None) -> None:
        with self._lock:
            if self._opening is None or self._opening[1] is not opening:
                return  # a newer release is being opened
            self._opening, self._next_look, self.used = None, 0.0, time.monotonic()
            self._served = served or self._served
            self._not_before = 0.0 if served else time.monotonic() + _RETRY_SECONDS
        self.after_opening()

    def _stay(self, served: Served, other: str, error: BaseException) -> None:
        """Log why a new release can't be searched, at most once a minute for the same reason."""
        said = f"{other}: searches stay with {served.release.release_id}: {error}"
        now = time.monotonic()
        if self._logged is None or self._logged[0] != said or now > self._logged[1] + 60.0:
            self._logged = said, now
            _log.error("%s", said)
