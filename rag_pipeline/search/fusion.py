"""Fuse ranked lists of chunks into one list."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from rag_pipeline.search.ranking import scaled

Item = TypeVar("Item", str, int)
RankedItems = Sequence[tuple[Item, float]]
"""(chunk, score) pairs, best first; each chunk, an id or a number, at most once."""


def reciprocal_rank_fusion(
    rankings: Sequence[RankedItems[Item]], k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[Item, float]]:
    """Sum `weight / (k + rank)` over the lists, ranks counted from 1; return best first.

    The scores of the lists do not count. Ties are broken by chunk; without weights each list weighs
    1. Raises ValueError if there are not as many weights as lists.

    Source: Cormack, Clarke & Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009.
    """
    weights = [1.0] * len(rankings) if weights is None else weights
    parts: dict[Item, list[float]] = defaultdict(list)
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, (chunk, _) in enumerate(ranking, 1):
            parts[chunk].append(weight * (1 / (k + rank)))
    # fsum is exact, so the order of the lists never changes a score by a rounding error.
    fused = [(chunk, math.fsum(shares)) for chunk, shares in parts.items()]
    return sorted(fused, key=lambda item: (-item[1], item[0]))


def weighted_gains(ranking: RankedItems[Item], weight: float) -> list[tuple[Item, float]]:
    """Return each chunk with its score, scaled by minimum and maximum to 0..`weight`.

    Equal scores become `weight`.
    """
    shares = weight * scaled(np.array([score for _, score in ranking], np.float64))
    return [(chunk, share) for (chunk, _), share in zip(ranking, shares.tolist(), strict=True)]
