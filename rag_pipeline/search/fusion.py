"""Fuse ranked lists of chunks into one list."""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item", str, int)
RankedItems = Sequence[tuple[Item, float]]
"""(chunk, score) pairs, best first; each chunk, an id or a number, at most once."""


def reciprocal_rank_fusion(
    rankings: Sequence[RankedItems[Item]], k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[Item, float]]:
    """Sum `weight / (k + rank)` over the lists, ranks counted from 1; return best first.

    The scores of the lists do not count. Ties are broken by chunk; without weights each list weighs
    1. Raises ValueError for a repeated chunk or unusable weights.

    Source: Cormack, Clarke & Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009.
    """
    if k < 0:
        raise ValueError(f"k must be at least 0, got {k}")
    weights = [1.0] * len(rankings) if weights is None else weights
    return _fuse(
        [[(chunk, 1 / (k + rank)) for rank, (chunk, _) in enumerate(r, 1)] for r in rankings],
        weights,
    )


def weighted_fusion(
    rankings: Sequence[RankedItems[Item]], weights: Sequence[float]
) -> list[tuple[Item, float]]:
    """Sum `weight * score` over the lists, each list's scores scaled to 0..1; return best first.

    A list is scaled by its own minimum and maximum for this query; equal scores scale to 1. A chunk
    that is absent from a list gets 0 from it, and so does the list's last chunk. That is fair if
    the lists are deep enough (`candidates`) to end in poor matches.

    Scores lie within 0..sum(weights); ties are broken by chunk. Raises ValueError for a
    repeated chunk, a score that is not finite, or unusable weights.
    """
    return _fuse([_scaled(ranking) for ranking in rankings], weights)


def scaled(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scale scores by their own minimum and maximum to 0..1; equal scores become 1."""
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    if low >= high:
        return np.ones(len(scores))
    between: npt.NDArray[np.float64] = (scores - low) / (high - low)
    return between


def _scaled(ranking: RankedItems[Item]) -> RankedItems[Item]:
    scores = [score for _, score in ranking]
    for chunk_id, score in ranking:
        if not math.isfinite(score):
            raise ValueError(f"the score of {chunk_id!r} is {score}, not a finite number")
    between = scaled(np.array(scores, np.float64)).tolist()
    return [(chunk_id, share) for (chunk_id, _), share in zip(ranking, between, strict=True)]


def _fuse(
    rankings: Sequence[RankedItems[Item]], weights: Sequence[float]
) -> list[tuple[Item, float]]:
    if len(weights) != len(rankings):
        raise ValueError(f"{len(rankings)} rankings need as many weights, got {len(weights)}")
    if any(not math.isfinite(weight) or weight < 0 for weight in weights):
        raise ValueError(f"weights must be finite and at least 0, got {list(weights)}")
    shares: dict[Item, list[float]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        seen = set()
        for chunk_id, score in ranking:
            if chunk_id in seen:
                raise ValueError(f"{chunk_id!r} occurs twice in one ranking")
            seen.add(chunk_id)
            shares.setdefault(chunk_id, []).append(weight * score)
    # fsum is exact, so the order of the lists never changes a score by a rounding error.
    fused = [(chunk_id, math.fsum(parts)) for chunk_id, parts in shares.items()]
    return sorted(fused, key=lambda item: (-item[1], item[0]))
