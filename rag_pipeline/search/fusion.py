"""Fuse ranked lists of chunks into one list."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from rag_pipeline.search.ranking import scaled

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
