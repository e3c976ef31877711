"""Vectors and terms, fused by rank or by score, with documents' and neighbours' scores added."""

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from rag_pipeline.config import CorpusFile
from rag_pipeline.search.filters import filter_of
from rag_pipeline.search.fusion import reciprocal_rank_fusion, scaled
from rag_pipeline.search.index import Floats, Index, Positions
from rag_pipeline.search.nearest import (
    best,
    best_of,
    joined,
    nearest_of,
    nearest_read,
    ranked,
    similarities_at,
)
from rag_pipeline.search.query_analysis import Question
from rag_pipeline.search.retrievers import Ranking, Search, TermRetriever
from rag_pipeline.store import id_filter

_LEADING_DOCUMENTS = 5
"""At most this many documents are searched besides the whole corpus."""
_LEADING_CHUNKS = 200
"""Maximum number of their chunks that are compared; of more, the best by terms and the nearest."""
_NAMED_SHARE = 0.6
_UNNAMED_SHARE = 0.25
"""Shares of `document_weight` that count for the document that is named, and where none is."""


_WELL_MET = 0.25
"""The share of a question's words, by their rarity, that a chunk meets where BM25 counts fully."""


class HybridRetriever(TermRetriever):
    """Both, fused: `rrf` (reciprocal rank) or `weighted` (scores scaled to 0..1 per query).

    In `weighted`, BM25 counts the less, the fewer of the question's words the best chunk meets.

    `document_weight` adds that much of its document's score (0 to about 1: how well the query
    names it, else how far file name, title and head cover the query) to a chunk's fused score.
    `split_query` finds the words that name a document, wherever they stand in the query, by file
    names and heads, and searches chunks with the others.
    `neighbour_weight` adds that much of the mean score of the chunks before and after a chunk.
    """

    code_version = 3
    method: Literal["hybrid"]
    fusion: Literal["rrf", "weighted"] = "weighted"
    dense_weight: float = Field(default=0.6, ge=0.0)
    lexical_weight: float = Field(default=0.4, ge=0.0)
    rrf_k: int = Field(default=60, ge=1)
    candidates: int = Field(default=100, ge=1, le=10_000)
    document_weight: float = Field(default=0.0, ge=0.0)
    split_query: bool = False
    neighbour_weight: float = Field(default=0.0, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _weights_count(self) -> "HybridRetriever":
        for name in ("document_weight", "neighbour_weight"):
            if self.fusion == "rrf" and getattr(self, name):
                raise ValueError(
                    f"{name} {getattr(self, name)} is added to scores, rrf ranks without them: "
                    f"choose fusion weighted"
                )
        if self.dense_weight + self.lexical_weight <= 0:
            raise ValueError("dense_weight and lexical_weight are both 0: nothing to rank by")
        return self

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return what tells these rankings from earlier ones.

        BM25 always counted fully, and what leads up to a question was asked with it.
        """
        counts = ["words met"] if self.fusion == "weighted" else []
        asked = ["introductions left out"] if self.split_query else []
        return [*super().made_from(config), *counts, *asked]

    @property
    def splits_query(self) -> bool:
        """Return whether `split_query` is set."""
        return self.split_query

    @property
    def on_one_scale(self) -> bool:
        """Return whether scores are fused, which scales them."""
        return self.fusion == "weighted"

    def rank(self, search: Search, depth: int) -> Ranking:
        """Rank by both searches.

        The candidates, and so their scores, depend on `top_k` and not on `depth`.
        """
        if self.fusion == "weighted":
            return _weighted(search, self)
        wanted = max(self.candidates, self.top_k)
        rankings = [search.nearest(wanted), search.by_terms(wanted)]
        weights = [self.dense_weight, self.lexical_weight]
        return reciprocal_rank_fusion(rankings, self.rrf_k, weights)

    def inside_document(self) -> Self:
        """Leave out what tells documents apart."""
        return self.model_copy(update={"document_weight": 0.0, "split_query": False})


class ScoredCandidates(NamedTuple):
    """The chunks that are compared, in the order of their positions, with what scores them."""

    positions: Positions
    dense: Floats
    """Cosines, scaled to 0..1 for this question."""
    terms: Floats
    """BM25, scaled to 0..1 for this question, or less where its words are hardly met."""
    document: Floats
    """The scores of their documents; 0 where `document_weight` is 0."""


def candidates_of(search: Search, settings: HybridRetriever) -> ScoredCandidates:
    """Return the best chunks of each search, and the chunks of the leading documents."""
    index, question, vector = search.index, search.question, search.vector
    where, allowed, terms = search.where, search.allowed, index.terms
    wanted = max(settings.candidates, settings.top_k)
    near = search.nearest_scored(wanted)
    documents = leading = np.empty(0, np.int64)
    scores = np.empty(0)
    if settings.document_weight:
        scores = _document_scores(index, question)
        there = scores
        if allowed is not None:  # documents that the filter leaves nothing of lead nothing
            kept = np.zeros(len(scores), np.bool_)
            kept[terms.document_of[allowed]] = True
            there = np.where(kept, scores, 0.0)
        documents = best(there, _LEADING_DOCUMENTS)
        leading = terms.chunks_of(documents, allowed)
    also = np.union1d(near.positions, leading)
    found, bm25 = terms.search(question.ask, wanted, allowed, also)
    by_terms = np.zeros(len(index))
    by_terms[found] = bm25
    chosen = best_of(found, bm25, wanted)
    if len(leading) > _LEADING_CHUNKS:
        if index.vectors is not None:
            close = nearest_of(index.vectors, vector, leading, wanted)
        else:
            inside = id_filter(
                "document_id", terms.documents.document_ids.take(documents).to_pylist()
            )
            close = nearest_read(index, vector, wanted, filter_of(where, inside))
        near = joined(near, close)
        leading = best_of(leading, by_terms[leading], _LEADING_CHUNKS)
    positions = np.unique(np.concatenate([chosen, near.positions, leading]))
    similarities = similarities_at(index, vector, positions, near)
    of_documents = np.zeros(len(positions))
    if settings.document_weight:
        of_documents = scores[terms.document_of[positions]]
    by_terms = _met(index, question.ask, bm25) * scaled(by_terms[positions])
    return ScoredCandidates(positions, scaled(similarities), by_terms, of_documents)


def _met(index: Index, ask: str, scores: Floats) -> float:
    """Return how far the best chunk meets a question's words; 1 from `_WELL_MET` of them on.

    Where it holds a word of many, or the question is in another language, BM25 tells little apart,
    and scaling its scores to 0..1 would hide that.
    """
    ideal = _WELL_MET * index.terms.lexical.max_score(ask)
    return min(1.0, float(scores.max(initial=0.0)) / ideal) if ideal else 1.0


def _weighted(search: Search, settings: HybridRetriever) -> Ranking:
    """Score every candidate by both searches, and add its document's and its neighbours'."""
    found = candidates_of(search, settings)
    sums = settings.dense_weight * found.dense + settings.lexical_weight * found.terms
    sums += settings.document_weight * found.document
    if settings.neighbour_weight:
        means = neighbour_means(search.index, found.positions, sums)
        sums += settings.neighbour_weight * means
    return ranked(found.positions, sums)


def _document_scores(index: Index, question: Question) -> Floats:
    """Return each document's score: how well it is named, as far as one is for certain.

    As far as none is, a share of how far its name and head cover the question.
    """
    documents, named = index.terms.documents, question.documents
    certainty = named.certainty if named else 0.0
    scores = np.zeros(len(documents))
    if certainty < 1:
        scores += (1 - certainty) * _UNNAMED_SHARE * documents.scores(question.ask)
    if named and certainty:
        scores[named.rows] += certainty * _NAMED_SHARE * named.shares
    return scores


def neighbour_means(index: Index, positions: Positions, scores: Floats) -> Floats:
    """Return the mean score of each position's neighbours, 0 for one that is no candidate."""
    order = np.argsort(positions)
    ascending = positions[order]
    neighbours = index.neighbours[positions]
    at = np.minimum(np.searchsorted(ascending, neighbours), len(positions) - 1)
    known = ascending[at] == neighbours
    sums = np.where(known, scores[order][at], 0.0).sum(axis=1)
    means: Floats = sums / np.maximum((neighbours >= 0).sum(axis=1), 1)
    return means
