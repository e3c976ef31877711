"""A query's vector -> the nearest chunks of an index, and rankings of scored chunks."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.models.providers import Vectors
from rag_pipeline.search import vector_index
from rag_pipeline.search.index import Floats, Index, Mask, Positions

_UNREFINED = 400
"""Neighbours by the quantised vectors that are compared by the vectors themselves."""

Ranking = list[tuple[int, float]]
"""(position, score), best first, ties by position."""


class Scored(NamedTuple):
    """Some chunks of an index, each with its score."""

    positions: Positions
    scores: Floats


def nearest(
    index: Index, vector: Vectors, k: int, where: str | None, allowed: Mask | None
) -> Scored:
    """Return the k nearest chunks by cosine; `allowed` are those that `where` keeps."""
    if index.vectors is None:
        return nearest_read(index, vector, k, where)
    if index.probes and where is None:
        found = vector_index.search(
            index.table, vector, max(k, _UNREFINED), None, (), index.probes, refine=False
        )
        positions = index.positions(found.column("_rowid").to_numpy())
    else:
        positions = np.arange(len(index)) if allowed is None else np.flatnonzero(allowed)
    return nearest_of(index.vectors, vector, positions, k)


def nearest_of(vectors: Vectors, vector: Vectors, positions: Positions, k: int) -> Scored:
    """Return the k nearest of some positions, by the vectors themselves."""
    unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
    # copying most of them would take longer than comparing all
    most = 2 * len(positions) > len(vectors)
    # by einsum, for which OpenBLAS starts no threads that wait for each other
    found = np.einsum("ij,j->i", vectors if most else vectors[positions], unit)
    cosines = (found[positions] if most else found).astype(np.float64)
    if len(positions) > k:
        kept = np.flatnonzero(cosines >= np.partition(cosines, -k)[-k])
        positions, cosines = positions[kept], cosines[kept]
    order = np.lexsort((positions, -cosines))[:k]
    return Scored(positions[order], cosines[order])


def nearest_read(index: Index, vector: Vectors, k: int, where: str | None) -> Scored:
    """Return the k nearest chunks as the table finds them."""
    found = vector_index.search(index.table, vector, k, where, (), index.probes)
    positions = index.positions(found.column("_rowid").to_numpy())
    return Scored(positions, 1.0 - found.column("_distance").to_numpy().astype(np.float64))


def similarities_at(index: Index, vector: Vectors, positions: Positions, known: Scored) -> Floats:
    """Return the cosine at ascending positions, reading the vectors where it is not known."""
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
    """Return the chunks of both, each once, in the order of their positions."""
    positions, first = np.unique(
        np.concatenate([one.positions, other.positions]), return_index=True
    )
    return Scored(positions, np.concatenate([one.scores, other.scores])[first])


def best(scores: npt.NDArray[np.floating[Any]], k: int) -> Positions:
    """Return where the k highest scores above 0 stand."""
    return best_of(np.flatnonzero(scores > 0), scores[scores > 0], k)


def best_of(positions: Positions, scores: npt.NDArray[np.floating[Any]], k: int) -> Positions:
    """Return the positions of the k highest scores, ties by position."""
    return positions[np.lexsort((positions, -scores))[:k]]


def ranked(positions: Positions, scores: Floats) -> Ranking:
    """Return chunks best first."""
    order = np.lexsort((positions, -scores))
    return list(zip(positions[order].tolist(), scores[order].tolist(), strict=True))


def positions_of(ranking: Ranking) -> Positions:
    """Return where the ranked chunks stand, in the ranking's order."""
    return np.array([position for position, _ in ranking], np.int64)
