"""Queries -> ranked chunks: a retriever's candidates, reordered by a model that reads them."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from rag_pipeline.config import NoReranker, PassageReranker, Reranker, Retriever
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.errors import ProviderError
from rag_pipeline.search.adaptive_selection import select
from rag_pipeline.search.context_aware import Embed, find
from rag_pipeline.search.reranking import Asked, Relevance
from rag_pipeline.search.retrieval import Index
from rag_pipeline.search.vector_index import indexed_text

Score = Callable[[Sequence[Asked]], Sequence[Relevance]]
"""From queries with passages to their scores; see `reranking.score_passages`."""
_NO_RERANKER = NoReranker(method="none")
_QUERIES_AT_ONCE = 64
"""So many queries' candidates are held in memory, and reranked with calls in flight together."""


class Found(NamedTuple):
    """A query's chunks, best first.

    `failure` says why they are in the retriever's order although a reranker is set. `latency_ms`
    is None where a model scored many queries together.
    """

    chunks: list[ScoredChunk]
    failure: str | None = None
    latency_ms: float | None = None


def retrieve_all(
    index: Index,
    queries: Iterable[str],
    settings: Retriever,
    reranker: Reranker,
    embed: Embed,
    score: Score | None,
    where: str | None = None,
) -> Iterator[Found]:
    """Yield what is found for each query, in order; see `context_aware.find`.

    Raises ProviderError naming the query that the reranker failed on, unless it is set to keep
    the order then.
    """
    if not isinstance(reranker, PassageReranker):
        for query in queries:
            started = time.perf_counter()
            chunks = find(index, query, settings, reranker, embed, where)
            yield Found(chunks, latency_ms=1000 * (time.perf_counter() - started))
        return
    assert score is not None
    changes: dict[str, object] = {"top_k": max(settings.top_k, reranker.candidates), "top_n": None}
    adaptive = getattr(settings, "adaptive", None)
    if adaptive is not None:
        changes["adaptive"] = None
    deep = settings.model_copy(update=changes)
    waiting = iter(queries)
    while group := list(islice(waiting, _QUERIES_AT_ONCE)):
        retrieved = [find(index, query, deep, _NO_RERANKER, embed, where) for query in group]
        reranked = rerank_passages(list(zip(group, retrieved, strict=True)), reranker, score)
        for query, (chunks, failure) in zip(group, reranked, strict=True):
            chunks = chunks[: settings.top_k]
            if adaptive is not None:
                ranking = [(place, chunk.score) for place, chunk in enumerate(chunks)]
                chunks = [chunks[place] for place, _ in select(query, ranking, adaptive)]
            yield Found(chunks[: settings.top_n], failure)


def rerank_passages(
    found: Sequence[tuple[str, list[ScoredChunk]]], reranker: PassageReranker, score: Score
) -> Iterator[tuple[list[ScoredChunk], str | None]]:
    """Yield each query's chunks as the model orders them, and why they stayed as they were.

    Raises ProviderError naming the query that the reranker failed on, unless it is set to keep
    the order then.
    """
    asked = [
        Asked(query, tuple(indexed_text(c.context, c.text) for c in chunks[: reranker.candidates]))
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
