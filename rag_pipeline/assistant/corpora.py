"""Search one or several released corpora, and merge their passages and documents."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self, TypeVar

from rag_pipeline.answering.confidence import passage_chances
from rag_pipeline.answering.forms import distinct
from rag_pipeline.answering.reading import Reader
from rag_pipeline.assistant.expansion import ExpandedCorpus
from rag_pipeline.assistant.released import ReleasedCorpus, SearchedCorpus
from rag_pipeline.assistant.results import AssistedAnswer, DocumentOf, Released, origin_of
from rag_pipeline.assistant.wording import in_language_of
from rag_pipeline.config import AssistantSettings
from rag_pipeline.config.calibration import DEFAULT, Calibration
from rag_pipeline.datamodels import (
    OPERATOR,
    Caller,
    Document,
    FoundDocument,
    ScoredChunk,
    SearchRequest,
    SearchResult,
)
from rag_pipeline.errors import InputError
from rag_pipeline.loading.places import Place, place_of
from rag_pipeline.search.deadlines import in_parallel
from rag_pipeline.search.ranking import reciprocal_rank_fusion
from rag_pipeline.search.retrieval import check_query
from rag_pipeline.search.staged import documents_of
from rag_pipeline.search.unsearched import not_searched

MAX_CHARACTERS = 4_000
"""Maximum length of a question in characters."""
_DISCOVERED = 200
_RERANKED = 50
"""Maximum number of documents to rerank by their best passages."""
_CANDIDATES = 50
"""Minimum number of passages for `CorporaSearcher.reranker`."""
_MAX_CANDIDATES = 100
"""Maximum number of passages to rerank. Further passages keep their order."""

Found = TypeVar("Found", ScoredChunk, FoundDocument)
Made = TypeVar("Made")
Chosen = Sequence[SearchedCorpus]
"""The corpora to search for a question."""
PassageScorer = Callable[[str, Sequence[str]], Sequence[float]]
"""Returns a relevance score of each passage for a query."""


def choose(
    corpora: Mapping[str, SearchedCorpus], names: Sequence[str] | None
) -> list[SearchedCorpus]:
    """Return the named corpora, or all corpora without names.

    Raise InputError if a name is unknown, or if both names and corpora are missing.
    """
    if not names:
        if not corpora:
            raise InputError("no dataset is named; name the dataset to search")
        return list(corpora.values())
    for name in names:
        if name not in corpora:
            raise InputError(f"no dataset {name[:80]!r}; there are: {', '.join(corpora)}")
    return [corpora[name] for name in dict.fromkeys(names)]


def calibration_of(chosen: Chosen) -> Calibration:
    """Return the calibration of the first released corpus, or the default calibration."""
    calibrations = (c.corpus.calibration() for c in chosen if isinstance(c, ReleasedCorpus))
    return next(calibrations, DEFAULT)


def with_releases(chosen: Chosen, work: Callable[[], Made]) -> tuple[Made, tuple[Released, ...]]:
    """Return the result of some work and the searched releases. A new release restarts the work."""
    own = [corpus for corpus in chosen if isinstance(corpus, ReleasedCorpus)]
    before, made = [corpus.released() for corpus in own], work()
    after = [corpus.released() for corpus in own]
    return made if after == before else work(), tuple(after)


def with_gaps(made: AssistedAnswer, chosen: Chosen, query: str, of_all: bool) -> AssistedAnswer:
    """Return an answer with a warning about a rollback, and with `of_all` about unread files.

    The warnings name files (see `not_searched`), so only callers who may see all documents get
    them.
    """
    told = [release.note for release in made.releases]
    for one in (one for one in chosen if isinstance(one, ReleasedCorpus)):
        if of_all and one.corpus.labels(one.caller) is None:
            told += not_searched(one.corpus.workspace, query, made.answered)
    said = (in_language_of(query, sentence) for sentence in told if sentence)
    return replace(made, warnings=(*made.warnings, *said))


@dataclass(eq=False, kw_only=True)
class CorporaSearcher:
    """The corpora that the assistant searches. Threads may share the object.

    `expansions` has the documents from outside, by the name of their corpus.
    """

    corpora: Mapping[str, SearchedCorpus]
    settings: AssistantSettings
    reader: Reader
    reranker: PassageScorer | None = None
    expansions: Mapping[str, ExpandedCorpus] = field(default_factory=dict)

    def seen_by(self, caller: Caller) -> Self:
        """Return a copy with only the corpora and documents that a caller may see.

        Documents from outside have no labels. A caller who may see all documents of the corpus may
        see them, too.
        """
        if caller == OPERATOR:
            return self
        seen: dict[str, ReleasedCorpus] = {
            name: corpus.seen_by(caller)
            for name, corpus in self.corpora.items()
            if isinstance(corpus, ReleasedCorpus)
            and (caller.corpora is None or name in caller.corpora)
        }
        outside = {
            name: expansion
            for name, expansion in self.expansions.items()
            if name in seen and seen[name].shows_all()
        }
        return replace(self, corpora=seen, expansions=outside)

    def discover(
        self,
        query: str,
        corpora: Sequence[str] | None = None,
        k: int = 10,
        rerank: bool = False,
        where: str | None = None,
    ) -> list[FoundDocument]:
        """Return at most k documents that match a question, best first.

        `where` is a filter in SQL (see `Corpus.search`). Documents of several corpora are merged by
        reciprocal rank, because their scores are not comparable.
        """
        chosen = self.chosen(query, corpora)
        request = SearchRequest(
            query=query, k=_DISCOVERED, rerank=rerank, where=where, discover=True, tokens=True
        )
        found = in_parallel(lambda corpus: corpus.search(request), chosen)
        if rerank:  # the corpus's reranker has reordered chunks, but not documents
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

    def search(
        self,
        query: str,
        corpora: Sequence[str] | None = None,
        document_id: str | None = None,
        k: int = 10,
        where: str | None = None,
    ) -> list[ScoredChunk]:
        """Return at most k passages of the named corpora or of one document, best first.

        If `corpora` is empty, search all corpora. `where` is a filter in SQL (see `Corpus.search`).
        The setting `expand` of each release widens its passages.
        """
        chosen, found = self._found(query, corpora, document_id, k, where)
        return [passage for _, passage in _widened(chosen, found.chunks)]

    def rated(
        self, query: str, corpus: str, k: int = 10, where: str | None = None
    ) -> list[tuple[ScoredChunk, float]]:
        """Return the passages of `search` in one corpus, each with its probability of answering.

        The `confidence` of an answer is the probability of the passage nearest to the question.
        """
        chosen, found = self._found(query, [corpus], None, k, where)
        chances = passage_chances(found, self.reader, calibration_of(chosen))
        return [(passage, chances[n]) for n, passage in _widened(chosen, found.chunks)]

    def places(self, passages: Sequence[ScoredChunk]) -> list[Place | None]:
        """Return each passage's place in its document, or None for an unreadable document."""
        found = zip(passages, map(self.document_reader(), passages), strict=True)
        return [place_of(d, p.start, p.end) if d else None for p, d in found]

    def find_document(
        self, document_id: str, corpora: Sequence[str] | None = None
    ) -> tuple[str, Document]:
        """Return the name of the first corpus with a document, and the document.

        Raise InputError if no corpus has the document.
        """
        corpus, document = self._holder(document_id, choose(self.corpora, corpora))
        return corpus.name, document

    def chosen(
        self, query: str, names: Sequence[str] | None, document_id: str | None = None
    ) -> list[SearchedCorpus]:
        """Return the corpora to search for a question.

        These are the named corpora, by default all, or only the corpus of the document. If no
        corpus has the document, return the corpora that show no whole documents. Raise InputError
        if the question is empty or too long, or if a corpus or document is unknown.
        """
        check_query(query)
        if len(query) > MAX_CHARACTERS:
            raise InputError(f"the query has {len(query)} characters, more than {MAX_CHARACTERS}")
        chosen = choose(self.corpora, names)
        if document_id is None:
            return chosen
        try:
            return [self._holder(document_id, chosen)[0]]
        except InputError:
            elsewhere = [c for c in chosen if not getattr(c, "shows_documents", True)]
            if not elsewhere:
                raise
            return elsewhere

    def merged_search(self, request: SearchRequest, chosen: Chosen) -> SearchResult:
        """Return the `k` best passages of some corpora, fused by reciprocal rank and reranked."""
        assert request.k is not None
        candidates = request.k if self.reranker is None else max(request.k, _CANDIDATES)
        wanted = replace(request, k=candidates, tokens=True)
        found = in_parallel(lambda corpus: corpus.search(wanted), chosen)
        fused = _merged(chosen, [each.chunks for each in found])[:candidates]
        passages = distinct([passage for passage, _ in fused])
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
            rerank_error=next((f.rerank_error for f in found if f.rerank_error), None),
            boost_error=next((f.boost_error for f in found if f.boost_error), None),
        )

    def document_reader(self) -> DocumentOf:
        """Return a function that returns the document of a passage, or None if it is unreadable.

        The function reads each document once.
        """

        @cache
        def read(corpus: str, document_id: str, is_own: bool) -> Document | None:
            with suppress(InputError):
                among = self.corpora if is_own else self.expansions
                return among[corpus].document(document_id)
            return None

        return lambda p: read(p.corpus, p.document_id, origin_of(p) is None)

    def _holder(self, document_id: str, chosen: Chosen) -> tuple[SearchedCorpus, Document]:
        expansions = [self.expansions[c.name] for c in chosen if c.name in self.expansions]
        for corpus in (*chosen, *expansions):
            with suppress(InputError):
                return corpus, corpus.document(document_id)
        names = ", ".join(corpus.name for corpus in chosen)
        raise InputError(f"no document {document_id[:200]!r} in: {names}")

    def _found(
        self,
        query: str,
        corpora: Sequence[str] | None,
        document_id: str | None,
        k: int,
        where: str | None,
    ) -> tuple[list[SearchedCorpus], SearchResult]:
        chosen = self.chosen(query, corpora, document_id)
        request = SearchRequest(query=query, k=k, document_id=document_id, where=where)
        wanted = replace(request, discover=True, stages=self.settings.stages)
        return chosen, self.merged_search(wanted, chosen)


def _widened(chosen: Chosen, passages: Sequence[ScoredChunk]) -> list[tuple[int, ScoredChunk]]:
    """Return passages, widened by the setting `expand` of their releases, with earlier indexes."""
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


def _merged_documents(chosen: Chosen, found: Sequence[SearchResult]) -> list[FoundDocument]:
    if len(found) == 1:  # `replace` takes 20 times as long
        (corpus,), (one,) = chosen, found
        return [FoundDocument(d.document_id, d.title, d.score, corpus.name) for d in one.documents]
    merged = _merged(chosen, [each.documents for each in found])
    return [replace(document, score=score) for document, score in merged]


def _merged(chosen: Chosen, found: Sequence[Sequence[Found]]) -> list[tuple[Found, float]]:
    """Fuse the results of all corpora by reciprocal rank. Return the results with new scores."""
    results: list[Found] = []
    rankings = []
    for corpus, own in zip(chosen, found, strict=True):
        rankings.append([(len(results) + n, one.score) for n, one in enumerate(own)])
        results += [replace(one, corpus=corpus.name) for one in own]
    return [(results[n], score) for n, score in reciprocal_rank_fusion(rankings)]
