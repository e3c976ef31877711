"""Late interaction: how well each token of a question is met by the tokens of a text.

ColBERT's MaxSim (Khattab & Zaharia, SIGIR 2020), with the signs of the text's token vectors alone.
"""

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from rag_pipeline.models.providers import Tokens
from rag_pipeline.search.reranking import Weights
from rag_pipeline.search.reranking.late_interaction import small_products

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.float32]
"""1 where a token's vector is above 0, else 0; shape (tokens, dimension)."""


def cosines(signs: Signs, question: Tokens) -> npt.NDArray[np.float32]:
    """Return the cosine of each token of a text to each of a question's, shape (text, question).

    q . sign = 2 (q . bit) - sum(q), where a bit is 0 or 1; all signs have the same length.
    """
    dimension = question.vectors.shape[1]
    found = 2 * small_products(signs, question.vectors.T)
    found -= question.vectors.sum(axis=1)
    return found / math.sqrt(dimension)


def nearest(found: npt.NDArray[np.float32]) -> Floats:
    """Return the highest cosine of each token of the question, 0 where the text has no tokens."""
    if not len(found):
        return np.zeros(found.shape[1])
    best: Floats = found.max(axis=0).astype(np.float64)
    return best


def rarity(ids: npt.NDArray[np.uint32], weights: Weights | None) -> Floats:
    """Return how much each token weighs in the index; 1 where no weights are known."""
    if weights is None:
        return np.ones(len(ids))
    found: Floats = weights[np.minimum(ids, len(weights) - 1)].astype(np.float64)
    return found


def importance(
    ids: npt.NDArray[np.uint32], read: Iterable[npt.NDArray[np.uint32]], weights: Weights | None
) -> Floats:
    """Return each token's share of a question, by its rarity: in the index, else in what is read.

    `read` are the tokens of each passage, which are looked at only without `weights`.
    """
    if weights is None:
        tokens = [set(one.tolist()) for one in read]
        holding = Counter(token for one in tokens for token in one)
        counts = np.array([holding[token] for token in ids.tolist()])
        shares = np.log(1 + (len(tokens) - counts + 0.5) / (counts + 0.5))
    else:
        shares = rarity(ids, weights)
    total = shares.sum()
    return shares / total if total else np.full(len(ids), 1 / len(ids))
