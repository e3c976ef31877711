"""Retrieve by vectors and by BM25, and fuse both by rank or by score.

A chunk's score can include scores of its document and of its neighbours.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_pipeline.search.filters import conjunction
from rag_pipeline.search.index import Floats, Index, Positions
from rag_pipeline.search.query_analysis import ParsedQuery
from rag_pipeline.search.ranking import (
    best,
    joined,
    nearest_of,
    nearest_read,
    ranked,
    reciprocal_rank_fusion,
    scaled,
    similarities_at,
)
from rag_pipeline.search.retrievers import Ranking, Search, TermRetriever
from rag_pipeline.store import id_filter

_LEADING_DOCUMENTS = 5
"""Number of best documents whose chunks become candidates."""
_LEADING_CHUNKS = 200
"""If the best documents have at most this number of chunks, all their chunks become candidates.

Otherwise, this number of their best chunks by BM25 and their `candidates` nearest chunks do.
"""
_NAMED_SHARE = 0.6
"""Share of `document_weight` that counts if the query names a document."""
_UNNAMED_SHARE = 0.25
"""Share of `document_weight` that counts if the query names no document."""
_WELL_MET = 0.25
"""BM25 counts fully if the best chunk has this share of the query's maximum BM25 score."""


class HybridRetriever(TermRetriever):
    """A retriever that fuses vector search and BM25.

    `rrf` fuses by reciprocal ranks. `weighted` adds scores that are scaled to 0..1. It weakens BM25
    if the best chunk contains few words of the query. It also adds `document_weight` times the
    document's score (0 to 0.6), and `neighbour_weight` times the mean score of the chunks before
    and after. A document's score tells how well the query names the document, or else how well the
    document's name, title and head cover the query. `split_query` searches without the words that
    name a document. Each search finds `candidates` chunks, or `k` chunks if `k` is larger.
    """

    code_version = 8
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
                    f"{name} {getattr(self, name)} needs scores, but rrf uses none: "
                    f"choose fusion weighted"
                )
        if self.dense_weight + self.lexical_weight <= 0:
            raise ValueError("dense_weight and lexical_weight are both 0: raise one of them")
        return self

    @property
    def splits_query(self) -> bool:
        """Return whether `split_query` is set."""
        return self.split_query

    @property
    def on_one_scale(self) -> bool:
        """Return whether `fusion` is `weighted`, which scales scores to 0..1."""
        return self.fusion == "weighted"

    def rank(self, search: Search, k: int) -> Ranking:
        """Return all candidates of both searches, best first. Ignore `k`."""
        if self.fusion == "weighted":
            positions, features = candidate_features(search, self)
            dense, terms, document = features.T
            sums = self.dense_weight * dense + self.lexical_weight * terms
            sums += self.document_weight * document
            if self.neighbour_weight:
                sums += self.neighbour_weight * neighbour_means(search.index, positions, sums)
            return ranked(positions, sums)
        wanted = max(self.candidates, self.k)
        rankings = [search.nearest(wanted), search.by_terms(wanted)]
        weights = [self.dense_weight, self.lexical_weight]
        return reciprocal_rank_fusion(rankings, self.rrf_k, weights)

    def inside_document(self) -> Self:
        """Return the settings without document scores, which are equal inside one document."""
        return self.model_copy(update={"document_weight": 0.0, "split_query": False})


def candidate_features(search: Search, settings: HybridRetriever) -> tuple[Positions, Floats]:
    """Return the best chunks of each search and of the leading documents, with their features.

    The features have the shape (chunks, 3): cosine, BM25 score and the document's score. Cosine and
    BM25 are scaled to 0..1 for this query. If `document_weight` is 0, the document's score is 0.
    """
    index, terms, vector = search.index, search.index.terms, search.vector
    wanted = max(settings.candidates, settings.k)
    near = search.nearest_scored(wanted)
    documents = leading = np.empty(0, np.int64)
    scores = np.empty(0)
    if settings.document_weight:
        scores = _document_scores(index, search.query)
        documents = _leading_documents(search, scores)
        leading = terms.chunks_of(documents, search.allowed)
    also = np.union1d(near.positions, leading)
    found, bm25 = terms.search(search.query.search_text, wanted, search.allowed, also)
    by_terms = np.zeros(len(index))
    by_terms[found] = bm25
    chosen = best(found, bm25, wanted)
    if len(leading) > _LEADING_CHUNKS:
        if index.vectors is not None:
            close = nearest_of(index.vectors, vector, leading, wanted)
        else:
            names = terms.documents.document_ids.take(documents).to_pylist()
            inside = conjunction(search.condition, id_filter("document_id", names))
            close = nearest_read(index, vector, wanted, inside)
        near = joined(near, close)
        leading = best(leading, by_terms[leading], _LEADING_CHUNKS)
    positions = np.unique(np.concatenate([chosen, near.positions, leading]))
    features = np.zeros((len(positions), 3))
    features[:, 0] = scaled(similarities_at(index, vector, positions, near))
    features[:, 1] = _share_met(search, bm25) * scaled(by_terms[positions])
    if settings.document_weight:
        features[:, 2] = scores[terms.document_of[positions]]
    return positions, features


def _leading_documents(search: Search, scores: Floats) -> Positions:
    if search.allowed is not None:
        kept = np.zeros(len(scores), np.bool_)
        kept[search.index.terms.document_of[search.allowed]] = True
        scores = np.where(kept, scores, 0.0)
    return best(np.flatnonzero(scores > 0), scores[scores > 0], _LEADING_DOCUMENTS)


def _share_met(search: Search, scores: Floats) -> float:
    """Return a factor, 0 to 1, that lowers BM25 if the best chunk has few words of the query."""
    # Scores scaled to 0..1 hide a poor match, for example of a query in another language.
    enough = _WELL_MET * search.index.terms.lexical.max_score(search.query.search_text)
    return min(1.0, float(scores.max(initial=0.0)) / enough) if enough else 1.0


def _document_scores(index: Index, query: ParsedQuery) -> Floats:
    """Return each document's score for a query, 0 to 0.6, shape (documents,)."""
    documents, named = index.terms.documents, query.named
    certainty = named.certainty if named else 0.0
    scores = np.zeros(len(documents))
    if certainty < 1:
        scores += (1 - certainty) * _UNNAMED_SHARE * documents.scores(query.search_text)
    if named and certainty:
        scores[named.rows] += certainty * _NAMED_SHARE * named.shares
    return scores


def neighbour_means(index: Index, positions: Positions, scores: Floats) -> Floats:
    """Return the mean score of each position's neighbours. A neighbour without a score counts 0."""
    order = np.argsort(positions)
    ascending = positions[order]
    neighbours = index.neighbours[positions]
    at = np.minimum(np.searchsorted(ascending, neighbours), len(positions) - 1)
    known = ascending[at] == neighbours
    sums = np.where(known, scores[order][at], 0.0).sum(axis=1)
    means: Floats = sums / np.maximum((neighbours >= 0).sum(axis=1), 1)
    return means
