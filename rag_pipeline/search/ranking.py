"""A query's vector and terms -> the ranked chunks of one index, by vectors, by terms or by both."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.config import (
    DenseRetriever,
    HybridRetriever,
    LexicalRetriever,
    SinglePass,
)
from rag_pipeline.datamodels import ScoredChunk, parse_metadata
from rag_pipeline.models.embedding import read_tokens
from rag_pipeline.models.providers import Vectors
from rag_pipeline.search import vector_index
from rag_pipeline.search.fusion import reciprocal_rank_fusion, scaled
from rag_pipeline.search.index import Floats, Index, Mask, Positions
from rag_pipeline.search.query_analysis import Question
from rag_pipeline.search.reranking import maxsim
from rag_pipeline.search.reranking.late_interaction import MaxSimReranker
from rag_pipeline.store import id_filter

COLUMNS = ("chunk_id", "document_id", "start", "end", "text", "context", "title", "metadata")
"""Columns of the vector table that a `ScoredChunk` is made of."""
_LEADING_DOCUMENTS = 5
"""At most this many documents are searched besides the whole corpus."""
_LEADING_CHUNKS = 200
"""Maximum number of their chunks that are compared; of more, the best by terms and the nearest."""
_UNREFINED = 400
"""Neighbours by the quantised vectors that are compared by the vectors themselves."""
_NAMED_SHARE = 0.6
_UNNAMED_SHARE = 0.25
"""Shares of `document_weight` that count for the document that is named, and where none is."""

Ranking = list[tuple[int, float]]
"""(position, score), best first, ties by position."""


class _Nearest(NamedTuple):
    positions: Positions
    similarities: Floats


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
    depth: int | None = None,
) -> Ranking:
    """Return the first `depth` chunks, by default `top_k`.

    `allowed` are the chunks that `where` keeps, if they are known. The candidates of a hybrid
    search, and so their scores, depend on `top_k` and not on `depth`: a deeper ranking starts with
    the shorter one.
    """
    depth = depth or settings.top_k
    in_memory = index.vectors is not None or not isinstance(settings, DenseRetriever)
    if where is not None and allowed is None and in_memory:
        allowed = index.matching(where)
    if isinstance(settings, DenseRetriever):
        return _ranked(*_nearest(index, vector, depth, where, allowed))
    if isinstance(settings, LexicalRetriever):
        return _ranked(*index.terms.search(question.ask, depth, allowed))[:depth]
    if settings.fusion == "weighted":
        return _weighted(index, question, vector, settings, where, allowed)[:depth]
    wanted = max(settings.candidates, settings.top_k)
    rankings = [
        _ranked(*_nearest(index, vector, wanted, where, allowed)),
        _ranked(*index.terms.search(question.ask, wanted, allowed))[:wanted],
    ]
    weights = [settings.dense_weight, settings.lexical_weight]
    return reciprocal_rank_fusion(rankings, settings.rrf_k, weights)[:depth]


def on_one_scale(ranking: Ranking, settings: SinglePass, depth: int) -> Ranking:
    """Return the ranking with scores that can be mixed with those of other models (0..1).

    Scores of `weighted` fusion are on that scale already. Others are scaled so that the first
    `depth` chunks run from 1 to 0; what follows them lies below.
    """
    if isinstance(settings, HybridRetriever) and settings.fusion == "weighted":
        return ranking
    if not ranking:
        return []
    high, low = ranking[0][1], ranking[:depth][-1][1]
    if high == low:
        return [(position, 1.0 if score == high else 0.0) for position, score in ranking]
    return [(position, (score - low) / (high - low)) for position, score in ranking]


class Candidates(NamedTuple):
    """Rows of the table that were read at once."""

    positions: Positions
    rows: pa.Table


def read_candidates(index: Index, ranking: Ranking, columns: Sequence[str]) -> Candidates:
    """Read columns of the ranked chunks."""
    positions = np.array([position for position, _ in ranking], np.int64)
    rows = index.take(positions, list(columns)) if len(positions) else pa.table({})
    return Candidates(positions, rows)


def rerank(
    index: Index,
    ranking: Ranking,
    encoded: EncodedQuestion,
    settings: MaxSimReranker,
    read: Candidates,
) -> Ranking:
    """Add MaxSim to the scores of the first candidates, whose token vectors were `read`.

    The others follow in their order.
    """
    tokens = read_tokens(encoded.tokens, len(encoded.vector))
    positions = np.array([position for position, _ in ranking], np.int64)
    scores = np.array([score for _, score in ranking]) * (1 - settings.weight)
    if len(read.positions):
        column = read.rows.column("token_vectors").combine_chunks()
        late = maxsim(tokens, column, index.token_weights)
        spread = late.max() - late.min()
        if spread > 0:
            scores[: len(late)] += settings.weight * (late - late.min()) / spread
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
        bonus = settings.document_weight * _document_scores(index, question)
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
    """Return the ranked chunks, in the ranking's order; read the rows that are not `known`."""
    if not ranking:
        return []
    positions = np.array([position for position, _ in ranking], np.int64)
    if known is None or not len(known.positions):
        rows = index.take(positions, list(COLUMNS)).select(COLUMNS)
    else:
        read, rows = known.positions, known.rows.select(COLUMNS)
        missing = np.setdiff1d(positions, read)
        if len(missing):
            read = np.concatenate([read, missing])
            more = index.take(missing, list(COLUMNS)).select(COLUMNS)
            rows = pa.concat_tables([rows, more], promote_options="permissive")
        order = np.argsort(read)
        rows = rows.take(order[np.searchsorted(read, positions, sorter=order)])
    return [_scored(row, score) for row, (_, score) in zip(rows.to_pylist(), ranking, strict=True)]


def _scored(row: dict[str, Any], score: float) -> ScoredChunk:
    metadata = parse_metadata(row.pop("metadata"))
    row["context"] = row["context"] or ""
    return ScoredChunk(**row, score=score, metadata=metadata)
