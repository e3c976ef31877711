"""Rank chunks for one query by vectors and by terms, fuse rankings, and load ranked chunks."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.datamodels import FoundDocument, Mask, ScoredChunk, Vectors
from rag_pipeline.models.embedding import read_tokens
from rag_pipeline.search import vector_index
from rag_pipeline.search.filters import COLUMNS
from rag_pipeline.search.index import Floats, Index, Positions
from rag_pipeline.search.query_analysis import ParsedQuery
from rag_pipeline.search.reranking.late_interaction import maxsim
from rag_pipeline.store.schemas import parse_metadata

_UNREFINED = 400
"""A quantised search finds at least this many neighbours. Their exact vectors are compared."""

Ranking = list[tuple[int, float]]
"""Pairs (position, score), best first. Equal scores are ordered by position."""


class Scored(NamedTuple):
    """The positions and scores of chunks as arrays."""

    positions: Positions
    scores: Floats


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search of one index for one query, among the chunks that match a filter.

    `search.retrieval.Searcher` makes it for the retrievers.
    """

    index: Index
    query: ParsedQuery
    vector: Vectors
    """The embedding of `query.search_text` without its language, shape (dimension,)."""
    tokens: bytes = b""
    """The packed tokens of `query.search_text` (see `models.embedding.Embedded`)."""
    where: str | None = None
    """A filter in LanceDB's SQL."""
    known: Mask | None = None
    """A flag per chunk: whether it matches the filter. None if not yet computed."""

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "vector", vector_index.without_axes(self.vector, self.index.language_axes)
        )

    @property
    def allowed(self) -> Mask | None:
        """Return a flag per chunk: whether it matches the filter and the caller may see it.

        Return None if all chunks are allowed.
        """
        # Before Python 3.12, all searches would share the lock of a `cached_property`.
        if self.known is None:
            known = self.index.visible if self.where is None else self.index.matching(self.where)
            object.__setattr__(self, "known", known)
        return self.known

    @property
    def condition(self) -> str | None:
        """Return the condition for LanceDB that selects the allowed chunks."""
        if self.index.visible is None or self.where is None:
            return self.index.condition or self.where
        # The filter may fail on hidden chunks, so LanceDB gets the ids of the matching chunks.
        rows = self.index.row_ids[self.allowed].tolist()
        return f"_rowid IN ({', '.join(map(str, rows))})" if rows else "1 = 0"

    def nearest(self, k: int) -> Ranking:
        """Return the k chunks with the nearest vectors, scored by cosine similarity."""
        return ranked(*self.nearest_scored(k))

    def nearest_scored(self, k: int) -> Scored:
        """Return the chunks of `nearest` as arrays."""
        index = self.index
        if index.vectors is None:
            return nearest_read(index, self.vector, k, self.condition)
        if self.allowed is not None:
            positions = np.flatnonzero(self.allowed)
        elif index.probes:
            most = max(k, _UNREFINED)
            found = vector_index.search(
                index.table, self.vector, most, None, (), index.probes, refine=False
            )
            positions = index.positions(found.column("_rowid").to_numpy())
        else:
            positions = np.arange(len(index))
        return nearest_of(index.vectors, self.vector, positions, k)

    def by_terms(self, k: int) -> Ranking:
        """Return at most k chunks with the best BM25 scores. Every score is above 0.

        Raise StoreError if there is no lexical index.
        """
        return ranked(*self.index.terms.search(self.query.search_text, k, self.allowed))[:k]

    def late_interaction(self, rows: pa.Table) -> Floats:
        """Return the MaxSim score of each row's `token_vectors` (see `maxsim`)."""
        tokens = read_tokens(self.tokens, len(self.vector))
        column = rows.column("token_vectors").combine_chunks()
        return maxsim(tokens, column, self.index.token_weights)

    def read(self, ranking: Ranking, column: str) -> list[Any]:
        """Return the values of a column, such as `text`, for the ranked chunks in order."""
        if not ranking:
            return []
        values: list[Any] = self.index.take(positions_of(ranking), [column])[column].to_pylist()
        return values


def nearest_of(vectors: Vectors, vector: Vectors, positions: Positions, k: int) -> Scored:
    """Return the k chunks at `positions` with the nearest vectors, scored by exact cosine."""
    unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
    # A copy of more than half of the vectors takes longer than a comparison of all vectors.
    most = 2 * len(positions) > len(vectors)
    # OpenBLAS would start threads that wait for each other. Einsum starts none.
    found = np.einsum("ij,j->i", vectors if most else vectors[positions], unit)
    cosines = (found[positions] if most else found).astype(np.float64)
    if len(positions) > k:
        kept = np.flatnonzero(cosines >= np.partition(cosines, -k)[-k])
        positions, cosines = positions[kept], cosines[kept]
    order = np.lexsort((positions, -cosines))[:k]
    return Scored(positions[order], cosines[order])


def nearest_read(index: Index, vector: Vectors, k: int, where: str | None) -> Scored:
    """Return the k chunks with the nearest vectors from the table on disk."""
    found = vector_index.search(index.table, vector, k, where, (), index.probes)
    positions = index.positions(found.column("_rowid").to_numpy())
    return Scored(positions, 1.0 - found.column("_distance").to_numpy().astype(np.float64))


def similarities_at(index: Index, vector: Vectors, positions: Positions, known: Scored) -> Floats:
    """Return the cosine of `vector` and the vector at each position. Reuse the `known` cosines.

    `positions` are in ascending order, and include the known positions.
    """
    cosines = np.full(len(positions), np.nan)
    cosines[np.searchsorted(positions, known.positions)] = known.scores
    missing = np.flatnonzero(np.isnan(cosines))
    if len(missing):
        if index.vectors is not None:
            vectors = index.vectors[positions[missing]]
        else:
            vectors = vector_index.vectors_of(index.take(positions[missing], ["vector"]))
        unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
        cosines[missing] = np.einsum("ij,j->i", vectors, unit)
    return cosines


def joined(one: Scored, other: Scored) -> Scored:
    """Return the chunks that are in `one` or `other`, in the order of their positions."""
    positions, first = np.unique(
        np.concatenate([one.positions, other.positions]), return_index=True
    )
    return Scored(positions, np.concatenate([one.scores, other.scores])[first])


def best(positions: Positions, scores: npt.NDArray[np.floating[Any]], k: int) -> Positions:
    """Return the positions of the k chunks with the highest scores, best first.

    Equal scores are ordered by position.
    """
    return positions[np.lexsort((positions, -scores))[:k]]


def scaled(scores: Floats) -> Floats:
    """Scale scores to 0..1 between the lowest and the highest. If all are equal, each becomes 1."""
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    return np.ones(len(scores)) if low >= high else (scores - low) / (high - low)


def ranked(positions: Positions, scores: Floats) -> Ranking:
    """Return the chunks with these positions and scores as a ranking, best first."""
    order = np.lexsort((positions, -scores))
    return list(zip(positions[order].tolist(), scores[order].tolist(), strict=True))


def positions_of(ranking: Ranking) -> Positions:
    """Return the positions of the ranked chunks, in the ranking's order."""
    return np.array([position for position, _ in ranking], np.int64)


# --- fusion ---

Item = TypeVar("Item", str, int)
RankedItems = Sequence[tuple[Item, float]]
"""Pairs (chunk, score) of distinct chunks, best first. A chunk is its id or its position."""


def reciprocal_rank_fusion(
    rankings: Sequence[RankedItems[Item]], k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[Item, float]]:
    """Fuse rankings by the sum of `weight / (k + rank)`, and return the chunks best first.

    Ranks start at 1. The input scores are ignored. Equal sums are ordered by chunk. If `weights`
    is None, each weight is 1. Raise ValueError if the numbers of weights and rankings differ.

    Source: Cormack, Clarke & Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009.
    """
    weights = [1.0] * len(rankings) if weights is None else weights
    parts: dict[Item, list[float]] = defaultdict(list)
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, (chunk, _) in enumerate(ranking, 1):
            parts[chunk].append(weight * (1 / (k + rank)))
    # fsum is exact, so the order of the rankings never changes a score by a rounding error.
    fused = [(chunk, math.fsum(shares)) for chunk, shares in parts.items()]
    return sorted(fused, key=lambda item: (-item[1], item[0]))


def weighted_gains(ranking: RankedItems[Item], weight: float) -> list[tuple[Item, float]]:
    """Scale the scores of a ranking to 0..`weight`. If all scores are equal, each is `weight`."""
    shares = weight * scaled(np.array([score for _, score in ranking], np.float64))
    return [(chunk, share) for (chunk, _), share in zip(ranking, shares.tolist(), strict=True)]


# --- rows ---


def read_rows(index: Index, ranking: Ranking, columns: Sequence[str]) -> pa.Table | None:
    """Return the columns and the `position` of the ranked chunks, or None for an empty ranking."""
    if not ranking:
        return None
    positions = positions_of(ranking)
    rows = index.take(positions, list(columns)).select(columns)
    return rows.append_column("position", pa.array(positions))


def documents_at(index: Index, ranking: Ranking) -> list[FoundDocument]:
    """Return the documents of the ranked chunks, in the order of their best chunks."""
    _, first = np.unique(index.document_of[positions_of(ranking)], return_index=True)
    best = [ranking[rank] for rank in sorted(first.tolist())]
    rows = read_rows(index, best, ("document_id", "title"))
    found = [] if rows is None else rows.to_pylist()
    return [
        FoundDocument(row["document_id"], row["title"], score)
        for row, (_, score) in zip(found, best, strict=True)
    ]


def load_chunks(index: Index, ranking: Ranking, known: pa.Table | None = None) -> list[ScoredChunk]:
    """Return the ranked chunks in order. Read only the rows that are not in `known`."""
    if not ranking:
        return []
    positions = positions_of(ranking)
    if known is None:
        rows = index.take(positions, list(COLUMNS)).select(COLUMNS)
    else:
        read, rows = known["position"].to_numpy(), known.select(COLUMNS)
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


def with_tokens(
    index: Index, chunks: Sequence[ScoredChunk], known: pa.Table | None = None
) -> list[ScoredChunk]:
    """Return the chunks with their token signs. Read only the signs that are not in `known`."""
    signs: dict[str, bytes] = {}
    if known is not None and "token_vectors" in known.schema.names:
        columns = (known.column(name).to_pylist() for name in ("chunk_id", "token_vectors"))
        signs = dict(zip(*columns, strict=True))
    missing = [chunk.chunk_id for chunk in chunks if chunk.chunk_id not in signs]
    if missing:
        signs.update(zip(missing, index.token_signs(missing), strict=True))
    return [replace(chunk, token_signs=signs[chunk.chunk_id]) for chunk in chunks]
