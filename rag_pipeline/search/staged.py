"""Rank chunks once, then search the leading documents again with boosted queries.

A boosted query is the query with words from the best chunks of a leading document.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field

from rag_pipeline.config import CorpusFile, LexicalEngine, RetrieverSettings
from rag_pipeline.datamodels import Boost, FoundDocument, ScoredChunk
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search.deadlines import in_parallel
from rag_pipeline.search.filters import conjunction
from rag_pipeline.search.query_analysis import whole
from rag_pipeline.search.ranking import Ranking, Search, ranked, weighted_gains
from rag_pipeline.search.retrievers import SinglePass, single_pass
from rag_pipeline.search.tokenization import default_tokenizer
from rag_pipeline.store import id_filter

CANDIDATES = 200
"""Number of chunks of the first search whose documents are listed as found."""
_FEEDBACK_CHUNKS = 3
"""Number of a document's best chunks from which boosted queries take words."""
_FEEDBACK_TERMS = 4
"""Number of words that a boosted query adds. Each variant adds other words."""
_MAX_VARIANTS = 5
_WORD = re.compile(r"[^\W\d_][\w'’-]{2,}")

Embed = Callable[[Sequence[str]], Embedded]
"""A function that returns the vectors and tokens of queries."""


class ContextAwareRetriever(RetrieverSettings):
    """A retriever that searches the leading documents of `over` again with boosted queries.

    The second search uses up to `variants` boosted queries in each of `boosted_files` documents.
    It adds `boost_weight` times a chunk's mean score (0 to 1) for these queries. If one of the
    three settings is 0, there is no second search. `k` applies to both searches. If `adaptive` is
    not set, the `adaptive` of `over` applies.
    """

    model_config = ConfigDict(defer_build=True)  # the union in `over` needs this module imported

    code_version = 2
    method: Literal["context_aware"]
    over: SinglePass
    boosted_files: int = Field(default=3, ge=0, le=50)
    variants: int = Field(default=1, ge=0, le=_MAX_VARIANTS)
    boost_weight: float = Field(default=0.1, ge=0.0)

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the dependencies of these settings and of `over`."""
        return [*super().made_from(config), *self.over.made_from(config)]

    @property
    def boosts(self) -> bool:
        """Return whether the second search can change the ranking of the first."""
        return bool(self.boosted_files and self.variants and self.boost_weight)

    @property
    def lexical_engine(self) -> LexicalEngine | None:
        """Return the BM25 engine of `over`, or None if it searches only vectors."""
        return self.over.lexical_engine

    @property
    def splits_query(self) -> bool:
        """Return whether `over` splits the query."""
        return self.over.splits_query

    @property
    def adds_queries(self) -> bool:
        """Return whether the settings allow boosted queries."""
        return self.variants > 0


def with_stages(settings: RetrieverSettings, stages: tuple[int, int]) -> ContextAwareRetriever:
    """Return a `context_aware` retriever with the given `boosted_files` and `variants`.

    If the settings are not `context_aware`, the retriever searches `over` them.
    """
    files, variants = stages
    if isinstance(settings, ContextAwareRetriever):
        return settings.model_copy(update={"boosted_files": files, "variants": variants})
    return ContextAwareRetriever(
        method="context_aware",
        over=single_pass(settings),
        k=settings.k,
        boosted_files=files,
        variants=variants,
    )


def documents_of(chunks: Sequence[ScoredChunk]) -> list[FoundDocument]:
    """Return the documents of ranked chunks, in the order of their best chunks."""
    best: dict[str, FoundDocument] = {}
    for chunk in chunks:
        found = FoundDocument(chunk.document_id, chunk.title, chunk.score)
        best.setdefault(chunk.document_id, found)
    return list(best.values())


def boosted_queries(
    query: str, chunks: Sequence[ScoredChunk], files: int, variants: int, boost: Boost | None = None
) -> dict[str, list[str]]:
    """Return up to `variants` boosted queries for each of the first `files` documents of `chunks`.

    `boost` makes the queries of a document. The default is `LocalExpansion`.
    """
    leading = [d.document_id for d in documents_of(chunks)[:files]]
    best = {
        document_id: [c.text for c in chunks if c.document_id == document_id][:_FEEDBACK_CHUNKS]
        for document_id in leading
    }
    expand = boost or LocalExpansion(query, [c.text for c in chunks])
    run = in_parallel if boost else map
    made = run(lambda item: expand(*item), list(best.items()))
    return {d: list(queries[:variants]) for d, queries in zip(best, made, strict=True)}


def boosted_ranking(
    search: Search,
    ranking: Ranking,
    chunks: Sequence[ScoredChunk],
    boosted: Mapping[str, Sequence[str]],
    settings: ContextAwareRetriever,
    embed: Embed,
) -> Ranking:
    """Add the scores of the boosted searches to a ranking, and return the new ranking.

    `boosted` has queries by document id. A chunk gains `boost_weight` times its mean score (0 to 1)
    over the queries of its document. `chunks` are the chunks of the ranking. A chunk outside the
    ranking starts with the lowest score of its document in the ranking.
    """
    queries = list(dict.fromkeys(query for made in boosted.values() for query in made))
    vectors = dict(zip(queries, embed(queries).vectors, strict=True))
    scores = dict(ranking)
    lowest = {c.document_id: score for c, (_, score) in zip(chunks, ranking, strict=True)}
    inside = settings.over.inside_document().model_copy(update={"k": CANDIDATES})
    index = search.index

    def search_document(wanted: tuple[str, str]) -> Ranking:
        document_id, query = wanted
        allowed = index.of_document(document_id)
        if search.allowed is not None:
            allowed &= search.allowed
        only = conjunction(search.where, id_filter("document_id", [document_id]))
        boosted_search = replace(
            search, query=whole(query), vector=vectors[query], tokens=b"", where=only, known=allowed
        )
        found = inside.checked_ranking(boosted_search)
        return weighted_gains(found, settings.boost_weight / len(boosted[document_id]))

    searches = [(document_id, query) for document_id, made in boosted.items() for query in made]
    # A search of vectors in memory takes less time than the start of a thread.
    run = in_parallel if index.vectors is None else map
    for (document_id, _), found in zip(searches, run(search_document, searches), strict=True):
        for position, score in found:
            scores[position] = scores.get(position, lowest[document_id]) + score
    return ranked(np.array(list(scores), np.int64), np.array(list(scores.values())))


class LocalExpansion:
    """A function that adds typical words of a document's best chunks to a query, without a model.

    A word's weight grows with its frequency in these chunks, and with its inverse frequency among
    all found chunks. Source: pseudo-relevance feedback (Rocchio 1971).
    """

    def __init__(self, query: str, found: Sequence[str]) -> None:
        self._query = query
        self._known = frozenset(default_tokenizer().tokenize(query))
        terms = [_terms_of(text) for text in found]
        self._found = len(terms)
        self._holding = Counter(term for held in terms for term in held)

    def __call__(self, document_id: str, texts: Sequence[str]) -> list[str]:
        """Return at most five boosted queries with four new words each, the best words first."""
        spelt: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for term, word in (pair for text in texts for pair in _spelt_terms_of(text)):
            if term not in self._known:
                spelt.setdefault(term, word)
                counts[term] += 1
        weights = {
            term: math.log1p(count) * math.log(1 + self._found / self._holding[term])
            for term, count in counts.items()
            if self._holding[term]
        }
        chosen = sorted(weights, key=lambda term: (-weights[term], term))
        starts = range(0, len(chosen), _FEEDBACK_TERMS)[:_MAX_VARIANTS]
        variants = (chosen[start : start + _FEEDBACK_TERMS] for start in starts)
        return [" ".join([self._query, *(spelt[t] for t in terms)]) for terms in variants]


@lru_cache(maxsize=4096)  # Queries often find the same chunks.
def _terms_of(text: str) -> frozenset[str]:
    return frozenset(default_tokenizer().tokenize(text))


@lru_cache(maxsize=4096)
def _spelt_terms_of(text: str) -> tuple[tuple[str, str], ...]:
    terms = ((default_tokenizer().tokenize(word), word) for word in _WORD.findall(text))
    return tuple((of_word[0], word) for of_word, word in terms if of_word)
