"""Rank-based metrics of one query, on binary labels of its ranked chunks.

`labels` tells for each retrieved chunk, best first and each once, whether it is relevant;
`relevant` is the number of relevant chunks in the whole index. Cutoffs k are at least 1. Where
nothing is relevant, every metric is 0, as in trec_eval: what can't be found is not found. Queries
without gold are for the caller to leave out.
"""

import math
from collections.abc import Sequence


def precision(labels: Sequence[bool], k: int) -> float:
    """Return P@k: relevant chunks among the first k, divided by k even where fewer are retrieved.

    van Rijsbergen, Information Retrieval, 1979; trec_eval `P`.
    """
    return sum(labels[:k]) / k


def recall(labels: Sequence[bool], relevant: int, k: int) -> float:
    """Return R@k: the share of the relevant chunks that stand among the first k.

    van Rijsbergen, Information Retrieval, 1979; trec_eval `recall`. Where the chunks are given
    and the gold spans are the golden chunks themselves, it is the Pass@k of Anthropic's
    Introducing Contextual Retrieval, 2024.
    """
    return sum(labels[:k]) / relevant if relevant else 0.0


def ndcg(labels: Sequence[bool], relevant: int, k: int) -> float:
    """Return nDCG@k: the sum of 1 / log2(rank + 1) over relevant chunks in the first k, divided
    by the same sum for a ranking that starts with all relevant chunks.

    Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, 2002, with the
    discount of trec_eval `ndcg_cut`, which starts at the second rank.
    """
    if not relevant:
        return 0.0
    gain = sum(1 / math.log2(rank + 1) for rank, label in enumerate(labels[:k], 1) if label)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(relevant, k) + 1))
    return gain / ideal


def reciprocal_rank(labels: Sequence[bool], k: int) -> float:
    """Return RR@k: 1 / rank of the first relevant chunk, 0.0 if none is in the first k.

    Kantor and Voorhees, The TREC-5 confusion track, 2000; MRR@k is its mean.
    """
    return next((1 / rank for rank, label in enumerate(labels[:k], 1) if label), 0.0)


def average_precision(labels: Sequence[bool], relevant: int) -> float:
    """Return AP: the mean over all relevant chunks of the precision at their rank.

    A relevant chunk that is not retrieved counts as precision 0, so AP depends on how many chunks
    were retrieved. Harman, Evaluation issues in information retrieval, 1992; trec_eval `map`.
    """
    if not relevant:
        return 0.0
    found, total = 0, 0.0
    for rank, label in enumerate(labels, 1):
        if label:
            found += 1
            total += found / rank
    return total / relevant
