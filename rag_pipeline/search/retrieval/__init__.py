"""A query -> the ranked chunks of one index, by vectors, by terms or by both."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.config import (
    DenseRetriever,
    HybridRetriever,
    LexicalRetriever,
    MaxSimReranker,
    NoReranker,
    Reranker,
    SinglePass,
)
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.models.embedding import read_tokens
from rag_pipeline.models.providers import Vectors
from rag_pipeline.search import vector_index
from rag_pipeline.search.adaptive_selection import select
from rag_pipeline.search.fusion import reciprocal_rank_fusion, scaled, weighted_fusion
from rag_pipeline.search.query_analysis import Question, analyse, whole
from rag_pipeline.search.reranking import maxsim
from rag_pipeline.search.retrieval.opened import Floats, Index, Mask, Positions
from rag_pipeline.store import id_filter

__all__ = [
    "Candidates",
    "EncodedQuestion",
    "Index",
    "Positions",
    "Ranking",
    "load_chunks",
    "parse_metadata",
    "rank",
    "read_candidates",
    "read_question",
    "rerank",
    "retrieve",
]

_COLUMNS = ["chunk_id", "document_id", "start", "end", "text", "context", "title", "metadata"]
_LEADING_DOCUMENTS = 5
"""Of so many documents chunks are searched for besides those of the whole corpus."""
_LEADING_CHUNKS = 200
"""So many of their chunks are compared; of more, the best by terms and the nearest."""
_UNREFINED = 400
"""So many neighbours by the quantised vectors hold the nearest ones by the vectors themselves."""
_UNNAMED_SHARE = 0.25
"""How much of `document_weight` counts where no part of the query names a document."""

_NO_RERANKER = NoReranker(method="none")

Ranking = list[tuple[int, float]]
"""(position, score), best first, ties by position."""


class _Nearest(NamedTuple):
    positions: Positions
    similarities: Floats


def read_question(index: Index, query: str, settings: SinglePass) -> Question:
    """Take a query apart as the retriever is set to; embed what it asks, not the whole."""
    if isinstance(settings, HybridRetriever) and settings.split_query:
        return analyse(query, index.terms.documents)
    return whole(query)


class EncodedQuestion(NamedTuple):
    """What `question.ask` was embedded as."""

    vector: Vectors
    """Shape (dimension,)."""
    tokens: bytes = b""


def rank(
    index: Index,
    question: Question,
    vector: Vectors,
    settings: SinglePass,
    where: str | None = None,
    allowed: Mask | None = None,
) -> Ranking:
    """Return at most `top_k` chunks; `allowed` are those that `where` keeps, if they are known."""
    in_memory = index.vectors is not None or not isinstance(settings, DenseRetriever)
    if where is not None and allowed is None and in_memory:
        allowed = index.matching(where)
    if isinstance(settings, DenseRetriever):
        return _ranked(*_nearest(index, vector, settings.top_k, where, allowed))
    if isinstance(settings, LexicalRetriever):
        found = index.terms.search(question.ask, settings.top_k, allowed)
        return _ranked(*found)[: settings.top_k]
    if settings.fusion == "weighted":
        return _weighted(index, question, vector, settings, where, allowed)[: settings.top_k]
    wanted = max(settings.candidates, settings.top_k)
    rankings = [
        _ranked(*_nearest(index, vector, wanted, where, allowed)),
        _ranked(*index.terms.search(question.ask, wanted, allowed))[:wanted],
    ]
    weights = [settings.dense_weight, settings.lexical_weight]
    return reciprocal_rank_fusion(rankings, settings.rrf_k, weights)[: settings.top_k]


def retrieve(
    index: Index,
    question: Question,
    encoded: EncodedQuestion,
    settings: SinglePass,
    reranker: Reranker = _NO_RERANKER,
    where: str | None = None,
) -> list[ScoredChunk]:
    """Return the `top_n` (else `top_k`) best chunks, best first.

    With `adaptive`, fewer of them: as many as the query needs, above the relevance floor.
    `where` is a filter in LanceDB's SQL over the index's columns, applied before any search ranks
    anything.
    """
    candidates: Candidates | None
    if isinstance(reranker, MaxSimReranker):
        deep = max(settings.top_k, reranker.candidates)
        wider = settings.model_copy(update={"top_k": deep})
        ranking = rank(index, question, encoded.vector, wider, where)
        if getattr(settings, "fusion", None) != "weighted":
            ranking = weighted_fusion([ranking], [1.0])
        # their texts too: a second read takes as long as the first
        candidates = read_candidates(index, ranking[: reranker.candidates], _COLUMNS)
        ranking = rerank(index, ranking, encoded, reranker, candidates)[: settings.top_k]
    else:
        candidates = None
        ranking = rank(index, question, encoded.vector, settings, where)
    if settings.adaptive is not None:
        ranking = select(question.text, ranking, settings.adaptive)
    return load_chunks(index, ranking[: settings.top_n or settings.top_k], candidates)


class Candidates(NamedTuple):
    """Rows of the table that were read at once."""

    positions: Positions
    rows: pa.Table


def read_candidates(index: Index, ranking: Ranking, columns: Sequence[str] = ()) -> Candidates:
    """Read the ranked chunks' token vectors and other columns."""
    positions = np.array([position for position, _ in ranking], np.int64)
    if not len(positions):
        return Candidates(positions, pa.table({}))
    return Candidates(positions, index.take(positions, [*columns, "token_vectors"]))


def rerank(
    index: Index,
    ranking: Ranking,
    encoded: EncodedQuestion,
    settings: MaxSimReranker,
    candidates: Candidates | None = None,
) -> Ranking:
    """Add the first candidates' MaxSim to their scores; the others follow in their order."""
    tokens = read_tokens(encoded.tokens, len(encoded.vector))
    positions = np.array([position for position, _ in ranking], np.int64)
    scores = np.array([score for _, score in ranking]) * (1 - settings.weight)
    first, rows = candidates or read_candidates(index, ranking[: settings.candidates])
    if len(first):
        column = rows.column("token_vectors").combine_chunks()
        late = maxsim(tokens, column, index.token_weights)
        spread = late.max() - late.min()
        if spread > 0:
            scores[: len(first)] += settings.weight * (late - late.min()) / spread
    return _ranked(positions, scores)


def _weighted(
    index: Index,
    question: Question,
    vector: Vectors,
    settings: HybridRetriever,
    where: str | None,
    allowed: Mask | None,
) -> Ranking:
    """Score every candidate by both searches, and add its document's score.

    Candidates are the best of each search, and the chunks of the leading documents.
    """
    terms = index.terms
    wanted = max(settings.candidates, settings.top_k)
    near = _nearest(index, vector, wanted, where, allowed)
    documents = leading = np.empty(0, np.int64)
    bonus = np.empty(0)
    if settings.document_weight:
        share = 1.0 if question.names_document else _UNNAMED_SHARE
        scores = terms.documents.scores(question.name)
        bonus = settings.document_weight * share * scores.astype(np.float64)
        documents = _best(bonus, _LEADING_DOCUMENTS)
        leading = terms.chunks_of(documents, allowed)
    also = np.union1d(near.positions, leading)
    found, bm25 = terms.search(question.ask, wanted, allowed, also)
    by_terms = np.zeros(len(index))
    by_terms[found] = bm25
    chosen = _best_of(found, bm25, wanted)
    if len(leading) > _LEADING_CHUNKS:
        if index.vectors is not None:
            nearest = _nearest_of(index.vectors, vector, leading, wanted)
        else:
            inside = id_filter(
                "document_id", terms.documents.document_ids.take(documents).to_pylist()
            )
            both = f"({where}) AND {inside}" if where else inside
            nearest = _nearest_read(index, vector, wanted, both)
        near = _joined(near, nearest)
        leading = _best_of(leading, by_terms[leading], _LEADING_CHUNKS)
    positions = np.unique(np.concatenate([chosen, near.positions, leading]))
    similarities = _similarities(index, vector, positions, near)
    sums = settings.dense_weight * scaled(similarities)
    sums += settings.lexical_weight * scaled(by_terms[positions])
    if settings.document_weight:
        sums += bonus[terms.document_of[positions]]
    if settings.neighbour_weight:
        sums += settings.neighbour_weight * _neighbour_means(index, positions, sums)
    return _ranked(positions, sums)


def _neighbour_means(index: Index, positions: Positions, scores: Floats) -> Floats:
    """Return the mean score of each position's neighbours, 0 for one that is no candidate."""
    order = np.argsort(positions)
    ascending = positions[order]
    neighbours = index.neighbours[positions]
    at = np.minimum(np.searchsorted(ascending, neighbours), len(positions) - 1)
    known = ascending[at] == neighbours
    sums = np.where(known, scores[order][at], 0.0).sum(axis=1)
    means: Floats = sums / np.maximum((neighbours >= 0).sum(axis=1), 1)
    return means


def _nearest(
    index: Index, vector: Vectors, k: int, where: str | None, allowed: Mask | None
) -> _Nearest:
    if index.vectors is None:
        return _nearest_read(index, vector, k, where)
    if index.probes and where is None:
        found = vector_index.search(
            index.table, vector, max(k, _UNREFINED), None, (), index.probes, refine=False
        )
        positions = index.positions(found.column("_rowid").to_numpy())
    else:
        positions = np.arange(len(index)) if allowed is None else np.flatnonzero(allowed)
    return _nearest_of(index.vectors, vector, positions, k)


def _nearest_of(vectors: Vectors, vector: Vectors, positions: Positions, k: int) -> _Nearest:
    """Return the k nearest of some positions, by the vectors themselves."""
    unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
    some = vectors if len(positions) == len(vectors) else vectors[positions]
    # by einsum, for which OpenBLAS starts no threads that wait for each other
    cosines = np.einsum("ij,j->i", some, unit).astype(np.float64)
    if len(positions) > k:
        kept = np.flatnonzero(cosines >= np.partition(cosines, -k)[-k])
        positions, cosines = positions[kept], cosines[kept]
    order = np.lexsort((positions, -cosines))[:k]
    return _Nearest(positions[order], cosines[order])


def _nearest_read(index: Index, vector: Vectors, k: int, where: str | None) -> _Nearest:
    found = vector_index.search(index.table, vector, k, where, (), index.probes)
    positions = index.positions(found.column("_rowid").to_numpy())
    return _Nearest(positions, 1.0 - found.column("_distance").to_numpy().astype(np.float64))


def _similarities(index: Index, vector: Vectors, positions: Positions, known: _Nearest) -> Floats:
    """Return the cosine at ascending positions, reading the vectors where it is not known."""
    cosines = np.full(len(positions), np.nan)
    cosines[np.searchsorted(positions, known.positions)] = known.similarities
    missing = np.flatnonzero(np.isnan(cosines))
    if len(missing):
        if index.vectors is not None:
            vectors = index.vectors[positions[missing]]
        else:
            vectors = vector_index.vectors_of(index.take(positions[missing], ["vector"]))
        unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
        cosines[missing] = np.einsum("ij,j->i", vectors, unit)
    return cosines


def _joined(one: _Nearest, other: _Nearest) -> _Nearest:
    positions, first = np.unique(
        np.concatenate([one.positions, other.positions]), return_index=True
    )
    return _Nearest(positions, np.concatenate([one.similarities, other.similarities])[first])


def _best(scores: npt.NDArray[np.floating[Any]], k: int) -> Positions:
    """Return where the k highest scores above 0 stand."""
    return _best_of(np.flatnonzero(scores > 0), scores[scores > 0], k)


def _best_of(positions: Positions, scores: npt.NDArray[np.floating[Any]], k: int) -> Positions:
    """Return the positions of the k highest scores, ties by position."""
    return positions[np.lexsort((positions, -scores))[:k]]


def _ranked(positions: Positions, scores: Floats) -> Ranking:
    order = np.lexsort((positions, -scores))
    return list(zip(positions[order].tolist(), scores[order].tolist(), strict=True))


def load_chunks(
    index: Index, ranking: Ranking, known: Candidates | None = None
) -> list[ScoredChunk]:
    """Read the ranked chunks' rows, in the ranking's order, where they are not all known."""
    if not ranking:
        return []
    positions = np.array([position for position, _ in ranking], np.int64)
    if known is not None and np.isin(positions, known.positions).all():
        order = np.argsort(known.positions)
        at = order[np.searchsorted(known.positions, positions, sorter=order)]
        rows = known.rows.select(_COLUMNS).take(at).to_pylist()
    else:
        rows = index.take(positions, _COLUMNS).drop_columns("_rowid").to_pylist()
    return [_scored(row, score) for row, (_, score) in zip(rows, ranking, strict=True)]


def _scored(row: dict[str, Any], score: float) -> ScoredChunk:
    metadata = parse_metadata(row.pop("metadata"))
    row["context"] = row["context"] or ""
    return ScoredChunk(**row, score=score, metadata=metadata)


def parse_metadata(value: Any) -> dict[str, Any]:
    """Return a metadata column's value as a dictionary."""
    parsed = json.loads(value) if value else {}
    return parsed if isinstance(parsed, dict) else {}
