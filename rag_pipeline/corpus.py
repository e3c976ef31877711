"""One corpus as a Python object: search its release, read its leaderboard, roll back."""

import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock, Thread, get_native_id
from typing import Any

from rag_pipeline import release as manifests
from rag_pipeline.answering import DEFAULT, Calibration
from rag_pipeline.calls import CallCache
from rag_pipeline.calls.costs import attributed, charging
from rag_pipeline.config import (
    AnswerSettings,
    ChatSettings,
    CorpusConfig,
    Reranker,
    Retriever,
    load_config,
)
from rag_pipeline.config.endpoints import at_current_endpoint
from rag_pipeline.datamodels import Document, ScoredChunk
from rag_pipeline.errors import DocumentError, InputError
from rag_pipeline.evaluation.leaderboard import Board, load_leaderboard, with_verdicts
from rag_pipeline.indexing import read_documents
from rag_pipeline.loading.originals import read_original
from rag_pipeline.loading.parser_process import render_apart
from rag_pipeline.loading.places import Place, place_of
from rag_pipeline.models.embedding import Embedded, embed_queries
from rag_pipeline.models.providers import Embedder, open_embedder
from rag_pipeline.models.providers.minilm import MiniLMTokens
from rag_pipeline.release import Release
from rag_pipeline.search.index import Index
from rag_pipeline.search.pinned import open_index
from rag_pipeline.search.reranking.models import passage_scorer
from rag_pipeline.search.reranking.none import NoReranker
from rag_pipeline.search.retrieval import (
    Retrieved,
    check_query,
    remembering,
    retrieve_all,
    with_tokens,
)
from rag_pipeline.search.staged import Boost, single_pass, with_stages
from rag_pipeline.search.widening import EXPAND, widened
from rag_pipeline.workspace import Workspace

_log = logging.getLogger(__name__)
_AT_ONCE_SECONDS = 0.05
"""Time that the first search after a release of at most `_AT_ONCE_CHUNKS` waits for its opening."""
_AT_ONCE_CHUNKS = 5_000
_NICE = 5
"""Added to a thread's priority value: on a busy processor it gets a third of a search's time."""
_RETRY_SECONDS = 30.0
"""Time after which a release that could not be opened is tried again."""


@dataclass(frozen=True, slots=True)
class Served:
    """A release that is open for searching, with all that a search needs."""

    release: Release
    index: Index
    embedder: Embedder
    retriever: Retriever
    reranker: Reranker
    chats: Mapping[str, ChatSettings]
    cache: CallCache

    def embed(self, queries: Sequence[str]) -> Embedded:
        """Embed queries; nothing of them is kept but what was paid for."""
        return embed_queries(queries, self.embedder, self.cache)


class Corpus:
    """A corpus file with what was built from it.

    >>> corpus = Corpus.load("rag_pipeline/defs/sample/defs.yaml")
    >>> corpus.search("How long does confidentiality last?", k=5)
    """

    def __init__(self, config: CorpusConfig, verify: bool = False) -> None:
        """Take the settings; with `verify` a release's files are hashed before it is searched.

        One that is not as it was released is not opened: searches stay with the one before.
        """
        self.config = config
        self.verify = verify
        self.workspace = Workspace(config)
        self._lock = Lock()
        """Held for moments only: nothing is read or opened under it."""
        self._served: Served | None = None
        self._opening: tuple[str, Future[Served]] | None = None
        self._not_before = 0.0

    @classmethod
    def load(cls, file: str | Path, verify: bool = False) -> "Corpus":
        """Read a corpus file; raise ConfigError naming what is wrong in it."""
        return cls(load_config(file), verify)

    @cached_property
    def name(self) -> str:
        """Return the corpus's name."""
        return self.config.corpus

    def search(self, query: str, k: int = 5, where: str | None = None) -> list[ScoredChunk]:
        """Return the k best chunks of the release, best first.

        `where` is a filter in LanceDB's SQL, such as `document_id LIKE 'policies/%'` or
        `json_get_string(metadata, 'suffix') = '.pdf'`. Raises NotReleasedError before the first
        release and InputError for an empty query or a filter that can't be read. A release made
        meanwhile is opened beside the one that is searched, which no search waits for; `reopen`
        does. With `expand` they are larger passages, of which there may be fewer than k.
        """
        return [passage for _, passage in self.widened(self.retrieve(query, k, where).chunks)]

    def search_in_stages(
        self,
        query: str,
        k: int = 5,
        where: str | None = None,
        boost: Boost | None = None,
        boosted_files: int = 3,
        variants: int = 1,
        rerank: bool = True,
    ) -> Retrieved:
        """Return the k best chunks of the release and the documents discovered on the way.

        The release's retriever makes the first pass; up to `variants` boosted queries (of `boost`,
        or by local expansion) search each of the first `boosted_files` documents once more. Raises
        what `search` raises.
        """
        return self.retrieve(
            query, k, where, boost, (boosted_files, variants), rerank, discover=True
        )

    def retrieve(
        self,
        query: str,
        k: int,
        where: str | None = None,
        boost: Boost | None = None,
        stages: tuple[int, int] | None = None,
        rerank: bool = True,
        discover: bool = False,
        deepen: bool = True,
        tokens: bool = False,
    ) -> Retrieved:
        """Return what the release's retriever and reranker find, by `retrieve_all`.

        `stages` are other `boosted_files` and `variants` than the release's. More chunks than the
        release's `top_k` are found only where the search may `deepen`; these are other candidates,
        and so other scores, than those that were measured. With `tokens` the chunks hold what the
        packaged model's index keeps of them. Raises what `search` raises.
        """
        check_query(query)
        if k < 1:
            raise InputError(f"k is {k}; it must be at least 1")
        served = self._open()
        settings = with_stages(served.retriever, stages) if stages else served.retriever
        top_k = settings.top_k
        if deepen:
            top_k = max(k, top_k)
        else:
            k = min(k, settings.top_n or top_k)
        settings = settings.model_copy(update={"top_k": top_k, "top_n": k})
        reranker = served.reranker if rerank else NoReranker(method="none")
        score = passage_scorer(self.workspace, reranker, chats=served.chats)
        with charging(self.workspace.ledger), attributed("search"):
            found = retrieve_all(
                *(served.index, [query], settings, reranker, remembering(served.embed), score),
                *(where, boost, discover),
            )
            one = next(found)
        reads = tokens and isinstance(served.embedder, MiniLMTokens)
        return with_tokens(served.index, one) if reads else one

    def widened(self, chunks: Sequence[ScoredChunk]) -> list[tuple[int, ScoredChunk]]:
        """Return ranked chunks as the passages that `expand` of the release's retriever makes.

        Each comes with the place of its best chunk (see `search.widening`).
        """
        served = self._served or self._open()
        first = single_pass(served.retriever).expand
        return widened(served.index, chunks, max(served.retriever.expand, first, key=EXPAND.index))

    def answers(self) -> tuple[AnswerSettings, Mapping[str, ChatSettings]]:
        """Return the release's answer settings and their chat models by name."""
        recorded = self.searched().typed_settings()
        return recorded.answers, self._at_current_endpoints(recorded.answers_chats)

    def _at_current_endpoints(self, chats: Mapping[str, ChatSettings]) -> dict[str, ChatSettings]:
        config = self.workspace.config
        return {name: at_current_endpoint(config, chat) for name, chat in chats.items()}

    def calibration(self) -> Calibration:
        """Return the calibration that was fitted to the release's questions."""
        return self.searched().typed_settings().calibration or DEFAULT

    def document_ids(self) -> list[str]:
        """Return the release's documents, sorted."""
        pinned = self.searched().pinned
        return sorted(self.workspace.documents().state(pinned.documents_version))

    def document(self, document_id: str) -> Document:
        """Return a document of the release as it was indexed.

        Raises InputError for a document that the release does not have.
        """
        pinned = self.searched().pinned
        found = read_documents(self.workspace, [document_id], pinned.documents_version)
        document = next(iter(found), None)
        if document is None:
            raise InputError(f"{self.name}: no document {document_id!r}")
        return document

    def places(self, chunks: Sequence[ScoredChunk]) -> list[Place | None]:
        """Return where each chunk stands in its document; None where the release lacks that."""
        wanted = sorted({chunk.document_id for chunk in chunks})
        version = self.searched().pinned.documents_version
        found: dict[str, Place] = {}
        for document in read_documents(self.workspace, wanted, version):
            for chunk in chunks:
                if chunk.document_id == document.document_id:
                    found[chunk.chunk_id] = place_of(document, chunk.start, chunk.end)
        return [found.get(chunk.chunk_id) for chunk in chunks]

    def page_image(self, document_id: str, page: int) -> bytes:
        """Return a page of a PDF of the release as PNG, drawn from the file that was read.

        Raises InputError where the file or object is not there any more, or has changed.
        """
        document, settings = self.document(document_id), self.config.documents
        try:
            raw = read_original(document, settings, self.config.documents_path)
            return render_apart(document_id, raw, page, settings)
        except DocumentError as error:
            raise InputError(f"{self.name}: {error}") from None

    def release(self) -> Release:
        """Return the manifest that is served."""
        return manifests.current(self.workspace)

    def searched(self) -> Release:
        """Return the manifest that searches read: `release`, or while it is opened the one before.

        Where nothing was searched yet, nothing is opened for it.
        """
        return manifests.current(self.workspace) if self._served is None else self._open().release

    def reopen(self) -> Release:
        """Wait until searches read what is served now; return its manifest.

        Raises StoreError where it can't be opened, and searches stay with what they had.
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
        """Serve an earlier release again, the one before the current by default."""
        release = manifests.roll_back(self.workspace, release_id)
        if self._served is not None:
            self.reopen()
        return release

    def leaderboard(self, metric: str | None = None) -> dict[str, Any]:
        """Return `board` as plain JSON values."""
        return self.board(metric).record()

    def board(self, metric: str | None = None) -> Board:
        """Return every evaluated configuration with its metrics, best first.

        Rows are compared with the baseline and with what is served now, in the metrics that
        tables show and in `metric`.
        """
        board = load_leaderboard(self.workspace)
        also = [metric] if metric else []
        served = manifests.served_reference(self.workspace)
        return with_verdicts(self.workspace, board, served, also)

    def _open(self) -> Served:
        """Return what is served, opened; while that is under way, what was served before."""
        release = manifests.current(self.workspace)
        with self._lock:
            served = self._served
            if served is not None and (
                served.release.release_id == release.release_id
                or time.monotonic() < self._not_before
            ):
                return served
            begun, opening = self._begin(release)
        if served is None:
            return opening.result()
        if begun and release.pinned.rows <= _AT_ONCE_CHUNKS:
            with suppress(Exception):  # logged; what was served before is whole
                return opening.result(_AT_ONCE_SECONDS)
        return served

    def _begin(self, release: Release) -> tuple[bool, "Future[Served]"]:
        """Open a release in a thread of its own, unless one does; tell whether this call began."""
        if self._opening is not None and self._opening[0] == release.release_id:
            return False, self._opening[1]
        opening: Future[Served] = Future()
        self._opening = release.release_id, opening

        def work() -> None:
            before = self._served
            try:
                if before is not None:
                    _give_way()
                if self.verify:
                    manifests.verify(self.workspace, release)
                shared = None if before is None else before.index
                index = open_index(self.workspace, release.pinned, shared)
                served = self._searched_with(release, index)
            except BaseException as error:  # noqa: BLE001 - told to whoever waits
                self._end(opening, None)
                if self._served is not None:
                    stay = self._served.release.release_id
                    _log.error("%s: searches stay with %s: %s", release.release_id, stay, error)
                opening.set_exception(error)
            else:
                self._end(opening, served)
                opening.set_result(served)

        # Not a daemon: one that is stopped inside of LanceDB aborts the process.
        Thread(target=work, name=f"open {release.release_id}").start()
        return True, opening

    def _end(self, opening: "Future[Served]", served: Served | None) -> None:
        with self._lock:
            if self._opening is None or self._opening[1] is not opening:
                return  # another release was served meanwhile
            self._opening = None
            self._served = served or self._served
            self._not_before = 0.0 if served else time.monotonic() + _RETRY_SECONDS

    def _searched_with(self, release: Release, index: Index) -> Served:
        """Return an index with the models and settings of a release."""
        settings, now = release.typed_settings(), self.workspace.config
        return Served(
            release,
            index,
            open_embedder(now.located(at_current_endpoint(now, settings.embedding))),
            settings.retriever,
            at_current_endpoint(now, settings.reranker),
            self._at_current_endpoints(settings.reranker_chats),
            self.workspace.cache,
        )


def _give_way() -> None:
    """Let other threads go before this one and those it starts, where threads have priorities."""
    if sys.platform == "linux":
        thread = get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)
