"""Rank the chunks of an index for queries.

A single-pass retriever ranks first. The `context_aware` retriever then searches the leading
documents again with boosted queries. A reranker reorders the candidates. Settings may drop
near-duplicates and irrelevant chunks at the end.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from rag_pipeline.config import PassageReranker, Reranker, Retriever
from rag_pipeline.config.rerankers import Relevance, RerankInput
from rag_pipeline.datamodels import ScoredChunk, SearchRequest, SearchResult
from rag_pipeline.errors import InputError, ProviderError, TextsFailedError
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search import deadlines
from rag_pipeline.search.filters import COLUMNS, conjunction, parse_filter
from rag_pipeline.search.index import Index
from rag_pipeline.search.query_analysis import ParsedQuery, analyse, whole
from rag_pipeline.search.ranking import (
    Ranking,
    Search,
    documents_at,
    load_chunks,
    positions_of,
    ranked,
    read_rows,
    with_tokens,
)
from rag_pipeline.search.reranking.late_interaction import MaxSimReranker
from rag_pipeline.search.reranking.none import NoReranker
from rag_pipeline.search.retrievers import SinglePassRetriever, single_pass
from rag_pipeline.search.selection import select, varied
from rag_pipeline.search.staged import (
    CANDIDATES,
    ContextAwareRetriever,
    Embed,
    boosted_queries,
    boosted_ranking,
    with_stages,
)
from rag_pipeline.search.standing import asks_for
from rag_pipeline.search.vector_index import indexed_text
from rag_pipeline.store import id_filter

Score = Callable[[Sequence[RerankInput]], Sequence[Relevance]]
"""A function that scores the passages of each query (see `reranking.passages`)."""

_Ranked = tuple[Ranking, pa.Table | None, pa.Table | None, SearchResult]
"""The ranking of the candidates, their rows and token vectors if already read, and the result.

The result has no chunks yet.
"""
_NO_RERANKER = NoReranker(method="none")
_QUERIES_AT_ONCE = 64
"""Number of queries that are reranked together, with concurrent calls."""
_OUTDATED_LOSS = 0.3
"""An outdated chunk loses this share of the difference between the first and the last top rank."""
_TOP_RANKS = 20
_TIMED = 5
"""Number of first queries that are reranked one by one, to measure their latencies."""


def check_query(query: str) -> None:
    """Raise InputError if a query has no letter or digit, or is not valid Unicode.

    A terminal can send any bytes.
    """
    if not any(map(str.isalnum, query)):
        lacks = "has no letter or digit" if query.strip() else "is empty"
        raise InputError(f"the query {lacks}; enter a question")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        where = f"at character {error.start + 1}"
        raise InputError(f"the query is not UTF-8 text, {where}; remove the character") from None


def parse_query(index: Index, query: str, settings: Retriever) -> ParsedQuery:
    """Split a query into a document's name and a text to search for, if the settings split it."""
    return analyse(query, index.terms.documents) if settings.splits_query else whole(query)


def cached(embed: Embed) -> Embed:
    """Return a function that embeds each text once, and remembers its vector and tokens."""
    known: dict[str, tuple[Any, bytes]] = {}

    def remembered(texts: Sequence[str]) -> Embedded:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            made = embed(new)
            known.update(zip(new, zip(made.vectors, made.tokens, strict=True), strict=True))
        return Embedded(np.array([known[t][0] for t in texts]), [known[t][1] for t in texts])

    return remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher:
    """An index with the retriever, reranker and models that search it."""

    index: Index
    retriever: Retriever
    reranker: Reranker
    embed: Embed
    score: Score | None = None
    """The function that scores passages for a `PassageReranker`. Other rerankers need none."""

    @property
    def _is_varied(self) -> bool:
        settings = self.retriever
        return settings.near_duplicates != "keep" or settings.most_per_document is not None

    def search(self, request: SearchRequest) -> SearchResult:
        """Return the best chunks for one request. The request may override some settings."""
        retriever = self.retriever
        if request.stages is not None:
            retriever = with_stages(retriever, request.stages)
        if request.deepen and request.k is not None and request.k > retriever.k:
            retriever = retriever.model_copy(update={"k": request.k})
        reranker = self.reranker if request.rerank else _NO_RERANKER
        return next(replace(self, retriever=retriever, reranker=reranker).search_all([request]))

    def search_all(self, requests: Iterable[SearchRequest]) -> Iterator[SearchResult]:
        """Yield the result of each request in order, with at most the `k` best chunks.

        If the retriever is `adaptive`, the number of chunks depends on the query (see `select`).
        Raise ProviderError with the query if the reranker fails, unless its `on_error` is
        `keep_order`.
        """
        reranker = self.reranker if isinstance(self.reranker, PassageReranker) else None
        sizes = chain(repeat(1, _TIMED), repeat(_QUERIES_AT_ONCE)) if reranker else repeat(1)
        waiting = iter(requests)
        while group := list(islice(waiting, next(sizes))):
            started = time.perf_counter()
            found = [self._rank(request) for request in group]
            read = self._read(group, found, reranker) if reranker else [(None, None)] * len(group)
            for request, (ranking, rows, tokens, result), (all_chunks, error) in zip(
                group, found, read, strict=True
            ):
                chunks = self._chosen(request, ranking, rows, all_chunks)
                weights = None
                if request.tokens and self.index.keeps_tokens:
                    chunks = with_tokens(self.index, chunks, tokens)
                    weights = self.index.token_weights
                yield replace(
                    result,
                    chunks=self.index.with_copies(chunks),
                    token_weights=weights,
                    rerank_error=error,
                    latency_ms=1000 * (time.perf_counter() - started) if len(group) == 1 else None,
                )

    def _read(
        self, group: Sequence[SearchRequest], found: Sequence[_Ranked], reranker: PassageReranker
    ) -> list[tuple[list[ScoredChunk], str | None]]:
        """Return each query's reranked chunks, or the chunks in order and the reranker's error."""
        assert self.score is not None
        loaded = [load_chunks(self.index, ranking, rows) for ranking, rows, *_ in found]
        asked = []
        for request, chunks in zip(group, loaded, strict=True):
            first = chunks[: reranker.candidates]
            texts = tuple(indexed_text(c.context, c.text) for c in first)
            asked.append(RerankInput(request.query, texts, tuple(c.document_id for c in first)))
        read: list[tuple[list[ScoredChunk], str | None]] = []
        for one, chunks, relevance in zip(asked, loaded, self.score(asked), strict=True):
            if not isinstance(relevance, ProviderError):
                read.append((_reordered(chunks, relevance), None))
            elif reranker.on_error == "keep_order":
                read.append((chunks, str(relevance)))
            else:
                raise ProviderError(f"query {one.query[:80]!r}: {relevance}")
        return read

    def _chosen(
        self,
        request: SearchRequest,
        ranking: Ranking,
        rows: pa.Table | None,
        chunks: list[ScoredChunk] | None,
    ) -> list[ScoredChunk]:
        """Return the chunks of the result. `chunks` are those of `ranking`, if already loaded."""
        if chunks is None and not self._is_varied:
            return load_chunks(self.index, self._selected(request, ranking), rows)
        if chunks is None:
            chunks = load_chunks(self.index, ranking, rows)
        places = varied(chunks, self.retriever) if self._is_varied else range(len(chunks))
        scored = [(place, chunks[place].score) for place in places]
        return [chunks[place] for place, _ in self._selected(request, scored)]

    def _selected(self, request: SearchRequest, ranking: Ranking) -> Ranking:
        k = self.retriever.k
        ranking = ranking[:k]
        adaptive = self.retriever.adaptive or single_pass(self.retriever).adaptive
        if adaptive is not None:
            ranking = select(request.query, ranking, adaptive)
        return ranking[: request.k or k]

    def _rank(self, request: SearchRequest) -> _Ranked:
        """Rank by every stage except a `PassageReranker`."""
        deadlines.check()
        search = self._search_of(request)
        first = single_pass(self.retriever)
        wanted = max(self.retriever.k, getattr(self.reranker, "candidates", 0))
        boosts = isinstance(self.retriever, ContextAwareRetriever) and self.retriever.boosts
        needs_more = boosts or request.discover or self._is_varied
        candidates = max(wanted, CANDIDATES) if needs_more else wanted
        pool = first.model_copy(update={"k": wanted})
        ranking = pool.checked_ranking(search, candidates)
        found = SearchResult(query=request.query, search_text=search.query.search_text)
        rows: pa.Table | None = None
        tokens: pa.Table | None = None
        chunks: list[ScoredChunk] = []
        if boosts or request.discover:
            found = replace(found, documents=documents_at(self.index, ranking))
        if isinstance(self.retriever, ContextAwareRetriever) and boosts:
            rows = read_rows(self.index, ranking, COLUMNS)
            chunks = load_chunks(self.index, ranking, rows)
            stages = self.retriever.boosted_files, self.retriever.variants
            boosted = boosted_queries(request.query, chunks, *stages, request.boost)
            found = replace(found, boosted=boosted)
        boosts = any(found.boosted.values())
        if boosts or isinstance(self.reranker, MaxSimReranker):
            ranking = _on_one_scale(ranking, first, wanted)
        if isinstance(self.retriever, ContextAwareRetriever) and boosts:
            deadlines.check()
            try:
                ranking = boosted_ranking(
                    search, ranking, chunks, found.boosted, self.retriever, self.embed
                )
            except TextsFailedError as error:
                found = replace(found, boosted={}, boost_error=str(error))
        if isinstance(self.reranker, MaxSimReranker):
            # Texts and tokens are read together, because a second read would double the time.
            columns = ("chunk_id", "token_vectors") if rows else (*COLUMNS, "token_vectors")
            tokens = read_rows(self.index, ranking[: self.reranker.candidates], columns)
            ranking = _rerank_by_tokens(search, ranking, self.reranker, tokens)
            rows = rows or tokens
        ranking = _in_force_first(self.index, request.query, ranking)
        return ranking if self._is_varied else ranking[:wanted], rows, tokens, found

    def _search_of(self, request: SearchRequest) -> Search:
        where = None if request.where is None else parse_filter(request.where)
        if request.document_id is not None:
            wanted = self.index.copies.get(request.document_id, request.document_id)
            where = conjunction(where, id_filter("document_id", [wanted]))
        query = parse_query(self.index, request.query, self.retriever)
        made = self.embed([query.search_text])
        return Search(
            index=self.index,
            query=query,
            vector=made.vectors[0],
            tokens=made.tokens[0],
            where=where,
            known=request.allowed,
        )


def _on_one_scale(ranking: Ranking, settings: SinglePassRetriever, count: int) -> Ranking:
    """Scale scores to 1 at the first rank and 0 at rank `count`, unless they are on one scale."""
    if settings.on_one_scale or not ranking:
        return ranking
    high, low = ranking[0][1], ranking[:count][-1][1]
    if high == low:
        return [(position, 1.0 if score == high else 0.0) for position, score in ranking]
    return [(position, (score - low) / (high - low)) for position, score in ranking]


def _in_force_first(index: Index, query: str, ranking: Ranking) -> Ranking:
    """Lower the scores of drafts, old versions and copies, unless the query asks for them."""
    outdated = index.outdated
    if not outdated or not ranking:
        return ranking
    positions = positions_of(ranking)
    rows = index.terms.document_of[positions].tolist()
    losing = {row for row in {*rows} & outdated.keys() if not asks_for(query, outdated[row])}
    if not losing:
        return ranking
    loss = _OUTDATED_LOSS * (ranking[0][1] - ranking[:_TOP_RANKS][-1][1])
    held = np.array([row in losing for row in rows])
    return ranked(positions, np.array([score for _, score in ranking]) - loss * held)


def _rerank_by_tokens(
    search: Search, ranking: Ranking, settings: MaxSimReranker, read: pa.Table | None
) -> Ranking:
    scores = np.array([score for _, score in ranking]) * (1 - settings.weight)
    if read is not None:
        late = search.late_interaction(read)
        spread = late.max() - late.min()
        if spread > 0:
            scores[: len(late)] += settings.weight * (late - late.min()) / spread
    return ranked(positions_of(ranking), scores)


def _reordered(chunks: Sequence[ScoredChunk], relevance: Sequence[float]) -> list[ScoredChunk]:
    """Order the first chunks by `relevance`. The other chunks follow with the lowest score."""
    order = sorted(range(len(relevance)), key=lambda n: -relevance[n])
    first = [replace(chunks[n], score=relevance[n]) for n in order]
    lowest = min(relevance, default=0.0)
    return [*first, *(replace(chunk, score=lowest) for chunk in chunks[len(relevance) :])]
