"""The corpora that an assistant searches, alone and together: passages and documents, merged."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Protocol

from rag_pipeline.answering.confidence import DEFAULT, Calibration
from rag_pipeline.answering.forms import distinct
from rag_pipeline.assistant.results import origin_of
from rag_pipeline.calls.costs import attributed
from rag_pipeline.config import (
    AnswerMethod,
    AnswerSettings,
    AssistantSettings,
    ChatSettings,
)
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import (
    Answer,
    Document,
    FoundDocument,
    ScoredChunk,
    SearchRequest,
    SearchResult,
)
from rag_pipeline.errors import InputError, ProviderError
from rag_pipeline.search.fusion import reciprocal_rank_fusion
from rag_pipeline.search.retrieval import check_query
from rag_pipeline.search.staged import documents_of, in_parallel

MAX_QUERY_CHARACTERS = 4_000
_PATIENCE_SECONDS = 5.0
"""Maximum seconds of retries of a call."""
_MAX_CACHED = 64
"""Maximum number of cached searches in memory, a few passages each."""
_DISCOVERED = 200
_RERANKED = 50
"""Maximum number of documents that are reranked by their best passages."""
_CANDIDATES = 50
"""Least number of passages that the request's reranker orders."""
_MAX_CANDIDATES = 100
"""Maximum number of passages that it orders; the passages after them keep their order."""

PassageScorer = Callable[[str, Sequence[str]], Sequence[float]]
"""From a query and passages to a relevance score for each."""
AnswerMaker = Callable[[Sequence[SearchResult]], Sequence[Answer | ProviderError]]
"""From queries with their chunks to the release's answers, or why there is no answer."""


class SearchedCorpus(Protocol):
    """A set of documents that can be searched.

    A corpus with `shows_documents` False finds passages of documents that it can't show whole.
    """

    name: str

    def search(self, request: SearchRequest) -> SearchResult:
        """Return ranked chunks and documents."""

    def document(self, document_id: str) -> Document:
        """Return a whole document; raise InputError for an unknown id."""

    def describe(self) -> dict[str, Any]:
        """Return public facts: name, description, release, document and chunk counts."""


class ReleasedCorpus:
    """The release of a corpus; a newer release is searched as soon as it is open."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.name = corpus.name
        self._cached: OrderedDict[tuple[str, SearchRequest], SearchResult] = OrderedDict()
        self._lock = Lock()

    def search(self, request: SearchRequest) -> SearchResult:
        """Search the release; a cacheable request is searched once per release.

        `boost` serves requests with `stages` alone: the release was measured without it.
        """
        if not request.cacheable or request.boost is not None:
            boost = request.boost if request.stages else None
            return self.corpus.retrieve(replace(request, boost=boost))
        release_id = self.corpus.searched().release_id
        key = release_id, request
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
                return self._cached[key]
        found = self.corpus.retrieve(request)
        if self.corpus.searched().release_id == release_id:  # or either release may be searched
            with self._lock:
                self._cached[key] = found
                while len(self._cached) > _MAX_CACHED:
                    self._cached.popitem(last=False)
        return found

    def answers(self) -> tuple[AnswerSettings, AnswerMaker | None]:
        """Return the release's answer settings and answer method; None where answers are quotes."""
        settings, chats = self.corpus.answers()
        if not isinstance(settings, AnswerMethod):
            return settings, None
        method, assistant = settings, self.corpus.config.assistant
        impatient = {name: interactive(chat, assistant) for name, chat in chats.items()}
        models = self.corpus.workspace.models(chats=impatient)

        def answer(found: Sequence[SearchResult]) -> Sequence[Answer | ProviderError]:
            with attributed("assistant.answer"):
                return method.answer(found, models)

        return settings, answer

    def document(self, document_id: str) -> Document:
        """Return a document of the release as it was indexed."""
        return self.corpus.document(document_id)

    def describe(self) -> dict[str, Any]:
        """Return name, description, release and number of chunks."""
        release = self.corpus.release()
        return {
            "name": self.name,
            "description": self.corpus.config.description,
            "release": release.release_id,
            "released": release.created,
            "configuration": release.configuration,
            "chunks": release.pinned.rows,
        }


def interactive(chat: ChatSettings, settings: AssistantSettings) -> ChatSettings:
    """Return a chat model's settings for a person who waits: no batches, and early failures."""
    seconds = settings.model_seconds
    impatient = chat.within(seconds, min(seconds, _PATIENCE_SECONDS))
    return impatient.model_copy(update={"batch": False})  # a provider's batches take hours


def choose(
    corpora: Mapping[str, SearchedCorpus], names: Sequence[str] | None
) -> list[SearchedCorpus]:
    """Return the named corpora, all of them if none is named; raise InputError for others."""
    if not names:
        if not corpora:
            raise InputError("name the dataset to search")
        return list(corpora.values())
    for name in names:
        if name not in corpora:
            raise InputError(f"no dataset {name[:80]!r}; there are: {', '.join(corpora)}")
    return [corpora[name] for name in dict.fromkeys(names)]


def calibration_of(chosen: Sequence[SearchedCorpus]) -> Calibration:
    """Return the calibration of the first release among some corpora, else the default."""
    calibrations = (c.corpus.calibration() for c in chosen if isinstance(c, ReleasedCorpus))
    return next(calibrations, DEFAULT)


def check_question(query: str) -> None:
    """Raise InputError for an empty or overlong query."""
    check_query(query)
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"the query has {len(query)} characters; at most {MAX_QUERY_CHARACTERS} are read"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorporaSearcher:
    """Searches corpora together; safe to share between threads.

    `expansions` are the corpora of documents from outside, by the name of their corpus.
    """

    corpora: Mapping[str, SearchedCorpus]
    expansions: Mapping[str, SearchedCorpus]
    reranker: PassageScorer | None

    def chosen(self, names: Sequence[str] | None, document_id: str | None) -> list[SearchedCorpus]:
        """Return the named corpora, or the corpus of a document; raise InputError for none."""
        chosen = choose(self.corpora, names)
        if document_id is None:
            return chosen
        try:
            holder, _ = self.holder(document_id, names)
        except InputError:
            elsewhere = [c for c in chosen if not getattr(c, "shows_documents", True)]
            if not elsewhere:
                raise
            return elsewhere
        return [holder]

    def holder(
        self, document_id: str, names: Sequence[str] | None
    ) -> tuple[SearchedCorpus, Document]:
        """Return a document and the first corpus that has it; raise InputError for none."""
        chosen = choose(self.corpora, names)
        expansions = [self.expansions[c.name] for c in chosen if c.name in self.expansions]
        for corpus in (*chosen, *expansions):
            with suppress(InputError):
                return corpus, corpus.document(document_id)
        raise InputError(
            f"no document {document_id[:200]!r} in: {', '.join(c.name for c in chosen)}"
        )

    def document_of(self, passage: ScoredChunk) -> Document | None:
        """Return the document of a passage; None if its source shows passages only."""
        among = self.corpora if origin_of(passage) is None else self.expansions
        with suppress(InputError):
            return among[passage.corpus].document(passage.document_id)
        return None

    def discover(
        self,
        query: str,
        chosen: Sequence[SearchedCorpus],
        k: int,
        rerank: bool,
        where: str | None = None,
    ) -> list[FoundDocument]:
        """Return the k documents that a query is about, best first (see `Assistant.discover`)."""
        request = SearchRequest(
            query=query, k=_DISCOVERED, rerank=rerank, where=where, discover=True, tokens=True
        )
        found = in_parallel(lambda corpus: corpus.search(request), chosen)
        if rerank:  # the single pass discovers documents, and the reranker orders chunks alone
            found = [_by_their_chunks(each) for each in found]
        documents = _merged_documents(chosen, found)
        if not rerank or self.reranker is None:
            return documents[:k]
        best: dict[tuple[str, str], str] = {}
        for corpus, each in zip(chosen, found, strict=True):
            for chunk in each.chunks:
                best.setdefault((corpus.name, chunk.document_id), chunk.text)
        first = [d for d in documents if (d.corpus, d.document_id) in best][:_RERANKED]
        scores = self.reranker(query, [best[d.corpus, d.document_id] for d in first])
        scored = [replace(d, score=s) for d, s in zip(first, scores, strict=True)]
        lowest = min(scores, default=0.0)
        others = [replace(d, score=lowest) for d in documents if d not in first]
        return [*sorted(scored, key=lambda d: -d.score), *others][:k]

    def search(self, request: SearchRequest, chosen: Sequence[SearchedCorpus]) -> SearchResult:
        """Return the `k` best passages of some corpora, merged by reciprocal rank."""
        assert request.k is not None
        candidates = request.k if self.reranker is None else max(request.k, _CANDIDATES)
        wanted = replace(request, k=candidates, tokens=True)
        found = in_parallel(lambda corpus: corpus.search(wanted), chosen)
        passages: list[ScoredChunk] = []
        rankings = []
        for corpus, each in zip(chosen, found, strict=True):
            own = [replace(chunk, corpus=corpus.name) for chunk in each.chunks]
            rankings.append([(len(passages) + n, chunk.score) for n, chunk in enumerate(own)])
            passages += own
        fused = reciprocal_rank_fusion(rankings)[:candidates]
        passages = distinct([passages[n] for n, _ in fused])
        if self.reranker is not None and passages:
            passages = _reranked(request.query, passages, self.reranker)[: request.k]
        search_texts = {each.search_text for each in found}
        weights = (f.token_weights for f in found if f.token_weights is not None)
        return SearchResult(
            query=request.query,
            search_text=search_texts.pop() if len(search_texts) == 1 else request.query,
            chunks=passages,
            documents=_merged_documents(chosen, found),
            boosted={d: list(q) for each in found for d, q in each.boosted.items()},
            token_weights=next(weights, None),
        )


def once_per_document(searcher: CorporaSearcher) -> Callable[[ScoredChunk], Document | None]:
    """Return `document_of` with a memory: most passages are of the same few documents."""
    known: dict[tuple[str, str, bool], Document | None] = {}

    def document_of(passage: ScoredChunk) -> Document | None:
        key = passage.corpus, passage.document_id, origin_of(passage) is None
        if key not in known:
            known[key] = searcher.document_of(passage)
        return known[key]

    return document_of


def widened(
    chosen: Sequence[SearchedCorpus], passages: Sequence[ScoredChunk]
) -> list[tuple[int, ScoredChunk]]:
    """Return passages as their releases' `expand` makes them, each with its place before."""
    made: dict[int, ScoredChunk] = {}
    releases = {c.name: c.corpus for c in chosen if isinstance(c, ReleasedCorpus)}
    for name in {passage.corpus for passage in passages}:
        places = [n for n, p in enumerate(passages) if p.corpus == name]
        own = [passages[n] for n in places]
        wide = releases[name].widened(own) if name in releases else enumerate(own)
        made |= {places[n]: chunk for n, chunk in wide}
    return sorted(made.items())


def _reranked(
    query: str, passages: Sequence[ScoredChunk], reranker: PassageScorer
) -> list[ScoredChunk]:
    first, others = passages[:_MAX_CANDIDATES], passages[_MAX_CANDIDATES:]
    scores = reranker(query, [passage.text for passage in first])
    ranked = sorted(zip(scores, first, strict=True), key=lambda pair: -pair[0])
    ranked += [(min(scores), passage) for passage in others]
    return [replace(passage, score=score) for score, passage in ranked]


def _by_their_chunks(found: SearchResult) -> SearchResult:
    first = documents_of(found.chunks)
    known = {d.document_id for d in first}
    lowest = min((d.score for d in first), default=0.0)
    others = [d for d in found.documents if d.document_id not in known]
    behind = [replace(d, score=min(d.score, lowest)) for d in others]
    return replace(found, documents=[*first, *behind])


def _merged_documents(
    chosen: Sequence[SearchedCorpus], found: Sequence[SearchResult]
) -> list[FoundDocument]:
    documents: list[FoundDocument] = []
    rankings = []
    for corpus, each in zip(chosen, found, strict=True):
        own = [replace(d, corpus=corpus.name) for d in each.documents]
        rankings.append([(len(documents) + n, d.score) for n, d in enumerate(own)])
        documents += own
    if len(rankings) == 1:
        return documents
    return [replace(documents[n], score=score) for n, score in reciprocal_rank_fusion(rankings)]
