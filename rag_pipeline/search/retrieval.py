"""Queries -> ranked chunks: the one search behind evaluation, command line, assistant and servers.

A single pass ranks; where the settings say so, boosted queries search its leading documents once
more; a reranker reorders; what the query needs is kept. Every stage works on the ranking and the
scores of the one before.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat
from typing import Any

import numpy as np

from rag_pipeline.config import PassageReranker, Reranker, Retriever
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.errors import InputError, ProviderError, TextsFailedError
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search.adaptive_selection import select
from rag_pipeline.search.filters import filter_of
from rag_pipeline.search.index import Index as Index
from rag_pipeline.search.index import Mask
from rag_pipeline.search.index import Positions as Positions
from rag_pipeline.search.nearest import Ranking as Ranking
from rag_pipeline.search.query_analysis import Question, analyse, whole
from rag_pipeline.search.ranking import (
    COLUMNS,
    Candidates,
    load_chunks,
    on_one_scale,
    read_candidates,
    rerank,
)
from rag_pipeline.search.ranking import EncodedQuestion as EncodedQuestion
from rag_pipeline.search.ranking import rank as rank
from rag_pipeline.search.reranking import Relevance, RerankInput, Weights
from rag_pipeline.search.reranking.late_interaction import MaxSimReranker
from rag_pipeline.search.reranking.none import NoReranker
from rag_pipeline.search.retrievers import SinglePassRetriever
from rag_pipeline.search.staged import (
    DEPTH,
    Boost,
    ContextAwareRetriever,
    Discovered,
    Embed,
    boosted_queries,
    boosted_ranking,
    documents_of,
    single_pass,
)
from rag_pipeline.search.variety import is_varied, varied
from rag_pipeline.search.vector_index import indexed_text

Score = Callable[[Sequence[RerankInput]], Sequence[Relevance]]
"""From queries with passages to their scores; see `reranking.score_passages`."""

_NO_RERANKER = NoReranker(method="none")
_QUERIES_AT_ONCE = 64
"""Number of queries whose candidates are held in memory and reranked with calls in flight."""
_TIMED = 5
"""Number of queries, the first, that are asked one by one besides, so that their time is known."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What was found for a query: ranked chunks, and how they came about.

    `ask` is the part of the query that was searched for: all of it unless a part names a document.
    `documents` (only if they were to be discovered) are those of the single pass, best first,
    `boosted` the boosted queries by document. `failure` says why the chunks are in the retriever's
    order although a reranker is set, `unboosted` why boosted queries were not searched.
    `latency_ms` is None where many queries were reranked together.
    """

    chunks: list[ScoredChunk]
    ask: str
    documents: list[Discovered] = field(default_factory=list)
    boosted: dict[str, list[str]] = field(default_factory=dict)
    failure: str | None = None
    unboosted: str | None = None
    latency_ms: float | None = None
    token_weights: Weights | None = field(default=None, compare=False, repr=False)
    """Those of the index, where the chunks hold their tokens (see `with_tokens`)."""
    read: Candidates | None = field(default=None, compare=False, repr=False)
    """The rows of the table that the search has read."""


def check_query(query: str) -> None:
    """Raise InputError for a query that is empty or no text: a terminal may send any bytes."""
    if not query.strip():
        raise InputError("the query is empty")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the query is not UTF-8 text, at character {error.start + 1}") from None


def retrieve_all(
    index: Index,
    queries: Iterable[str],
    settings: Retriever,
    reranker: Reranker,
    embed: Embed,
    score: Score | None = None,
    where: str | None = None,
    boost: Boost | None = None,
    discover: bool = False,
    known: Mask | None = None,
) -> Iterator[Retrieved]:
    """Yield what is found for each query, in order: the `top_n` (else `top_k`) best chunks.

    With `adaptive`, fewer of them: as many as the query needs, above the relevance floor. `score`
    asks a reranker that reads passages. `where` is a filter in LanceDB's SQL over the index's
    columns, applied before any search ranks anything, `known` the chunks that it keeps where these
    need not be looked up. `boost` makes the boosted queries of a context-aware retriever. Raises
    ProviderError naming the query that the reranker failed on, unless it is set to keep the order
    then.
    """
    where = filter_of(where)
    waiting = iter(queries)
    sizes = chain(repeat(1, _TIMED), repeat(_QUERIES_AT_ONCE))
    passages = isinstance(reranker, PassageReranker)
    while group := list(islice(waiting, next(sizes) if passages else 1)):
        started = time.perf_counter()
        found = []
        for query in group:
            question = read_question(index, query, settings)
            made = embed([question.ask])
            asked_as = EncodedQuestion(made.vectors[0], made.tokens[0])
            more = embed, boost, discover, known
            found.append(_ranked(index, question, asked_as, settings, reranker, where, *more))
        if isinstance(reranker, PassageReranker):
            assert score is not None
            asked = [
                (query, one.chunks(reranker.candidates, settings.top_k))
                for query, one in zip(group, found, strict=True)
            ]
            reranked = list(_rerank_passages(asked, reranker, score))
            taken = 1000 * (time.perf_counter() - started)
            for query, one, (chunks, failure) in zip(group, found, reranked, strict=True):
                chunks = chunks[: settings.top_k]
                scores = [(n, chunks[n].score) for n in _stay(chunks, settings)]
                chosen = [
                    replace(chunks[place], score=score)
                    for place, score in _kept(query, scores, settings)
                ]
                latency = taken if len(group) == 1 else None
                yield one.retrieved(chosen, failure=failure, latency_ms=latency)
            continue
        (query,), (one,) = group, found
        kept = _kept(query, one.varied(settings), settings)
        chunks = load_chunks(index, kept, one.read)
        yield one.retrieved(chunks, latency_ms=1000 * (time.perf_counter() - started))


def retrieve(
    index: Index,
    question: Question,
    encoded: EncodedQuestion,
    settings: SinglePassRetriever,
    reranker: Reranker = _NO_RERANKER,
    where: str | None = None,
) -> list[ScoredChunk]:
    """Return the chunks of one question that is taken apart and embedded; see `retrieve_all`."""
    one = _ranked(index, question, encoded, settings, reranker, where)
    kept = _kept(question.text, one.varied(settings), settings)
    return load_chunks(index, kept, one.read)


def read_question(index: Index, query: str, settings: Retriever) -> Question:
    """Take a query apart as the retriever is set to; what is embedded is its `ask`."""
    if settings.splits_query:
        return analyse(query, index.terms.documents)
    return whole(query)


def with_tokens(index: Index, found: Retrieved) -> Retrieved:
    """Return the same with the chunks' token signs, as the index keeps them."""
    if not index.keeps_tokens or not found.chunks:
        return found
    known: dict[str, bytes] = {}
    if found.read is not None and "token_vectors" in found.read.rows.schema.names:
        columns = (found.read.rows.column(n).to_pylist() for n in ("chunk_id", "token_vectors"))
        known = dict(zip(*columns, strict=True))
    missing = [chunk.chunk_id for chunk in found.chunks if chunk.chunk_id not in known]
    known.update(zip(missing, index.token_signs(missing) if missing else (), strict=True))
    chunks = [replace(chunk, token_signs=known[chunk.chunk_id]) for chunk in found.chunks]
    return replace(found, chunks=chunks, token_weights=index.token_weights, read=None)


def remembering(embed: Embed) -> Embed:
    """Return the same function with a memory, so that no text is asked for twice."""
    known: dict[str, tuple[Any, bytes]] = {}

    def remembered(texts: Sequence[str]) -> Embedded:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            made = embed(new)
            known.update(zip(new, zip(made.vectors, made.tokens, strict=True), strict=True))
        return Embedded(np.array([known[t][0] for t in texts]), [known[t][1] for t in texts])

    return remembered


@dataclass(frozen=True, slots=True)
class _Pass:
    """A ranking, deep enough for what follows, with the rows that were read on the way."""

    index: Index
    ask: str
    ranking: Ranking
    read: Candidates | None
    documents: list[Discovered] = field(default_factory=list)
    boosted: dict[str, list[str]] = field(default_factory=dict)
    unboosted: str | None = None

    def chunks(self, *depths: int) -> list[ScoredChunk]:
        return load_chunks(self.index, self.ranking[: max(depths)], self.read)

    def varied(self, settings: Retriever) -> Ranking:
        """Return the first `top_k`, without those that repeat others or pass a quota."""
        ranking = self.ranking[: settings.top_k]
        if not is_varied(settings):
            return ranking
        return [ranking[n] for n in _stay(self.chunks(settings.top_k), settings)]

    def retrieved(self, chunks: list[ScoredChunk], **more: Any) -> Retrieved:
        more |= {"unboosted": self.unboosted, "read": self.read}
        return Retrieved(chunks, self.ask, self.documents, self.boosted, **more)


def _ranked(
    index: Index,
    question: Question,
    encoded: EncodedQuestion,
    settings: Retriever,
    reranker: Reranker,
    where: str | None,
    embed: Embed | None = None,
    boost: Boost | None = None,
    discover: bool = False,
    known: Mask | None = None,
) -> _Pass:
    """Rank by all that reads no passages."""
    over = single_pass(settings)
    boosts = isinstance(settings, ContextAwareRetriever) and settings.boosts
    deep = max(settings.top_k, getattr(reranker, "candidates", 0))
    depth = max(deep, DEPTH) if boosts or discover else deep
    pool = over.model_copy(update={"top_k": deep})
    ranking = rank(index, question, encoded.vector, pool, where, known, depth)
    documents: list[Discovered] = []
    boosted: dict[str, list[str]] = {}
    read: Candidates | None = None
    found: list[ScoredChunk] = []
    if boosts or discover:
        read = read_candidates(index, ranking[:depth], COLUMNS)
        found = load_chunks(index, ranking[:depth], read)
        documents = documents_of(found)
    if isinstance(settings, ContextAwareRetriever) and boosts:
        stages = settings.boosted_files, settings.variants
        boosted = boosted_queries(question.text, found, *stages, boost)
    boosts, unboosted = any(boosted.values()), None
    if boosts or isinstance(reranker, MaxSimReranker):
        ranking = on_one_scale(ranking, over, deep)
    if isinstance(settings, ContextAwareRetriever) and boosts:
        assert embed is not None
        try:
            ranking = boosted_ranking(index, ranking, found, boosted, settings, embed, where, known)
        except TextsFailedError as error:
            unboosted, boosted = str(error), {}
    if isinstance(reranker, MaxSimReranker):
        # with their texts, where these are not known: a second read takes as long as the first
        columns = ("token_vectors",) if read is not None else (*COLUMNS, "token_vectors")
        tokens = read_candidates(index, ranking[: reranker.candidates], columns)
        ranking = rerank(index, ranking, encoded, reranker, tokens)
        read = read or tokens
    return _Pass(index, question.ask, ranking, read, documents, boosted, unboosted)


def _stay(chunks: Sequence[ScoredChunk], settings: Retriever) -> Sequence[int]:
    return varied(chunks, settings) if is_varied(settings) else range(len(chunks))


def _kept(query: str, ranking: Ranking, settings: Retriever) -> Ranking:
    """Return the part of a ranking that the query needs; of stages, those of what they are over."""
    over = single_pass(settings)
    adaptive = settings.adaptive or over.adaptive
    if adaptive is not None:
        ranking = select(query, ranking, adaptive)
    return ranking[: settings.top_n or over.top_n]


def _rerank_passages(
    found: Sequence[tuple[str, list[ScoredChunk]]], reranker: PassageReranker, score: Score
) -> Iterator[tuple[list[ScoredChunk], str | None]]:
    """Yield each query's chunks as the model orders them, and why they stayed as they were."""
    asked = [
        RerankInput(
            query, tuple(indexed_text(c.context, c.text) for c in chunks[: reranker.candidates])
        )
        for query, chunks in found
    ]
    for (query, chunks), relevance in zip(found, score(asked), strict=True):
        if not isinstance(relevance, ProviderError):
            yield _reordered(chunks, relevance), None
        elif reranker.on_error == "keep_order":
            yield chunks, str(relevance)
        else:
            raise ProviderError(f"query {query[:80]!r}: {relevance}")


def _reordered(chunks: Sequence[ScoredChunk], relevance: Sequence[float]) -> list[ScoredChunk]:
    """Order the first chunks by their relevance; the others follow with the lowest of it.

    Ties stay in the retriever's order.
    """
    order = sorted(range(len(relevance)), key=lambda n: -relevance[n])
    first = [replace(chunks[n], score=relevance[n]) for n in order]
    lowest = min(relevance, default=0.0)
    return [*first, *(replace(chunk, score=lowest) for chunk in chunks[len(relevance) :])]
