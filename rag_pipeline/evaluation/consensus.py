"""Estimate without gold the probability that the first passage of a query answers it.

People ask the same question about many documents, such as "how long is the notice?". The right
passages are then similar, and wrong passages differ. A passage is judged by its similarity to the
first passages of similar queries in other documents. This judge needs no model.
`prediction_powered` corrects its errors.
"""

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rag_pipeline.datamodels import ScoredChunk

DEPTH = 5
_ALIKE = 0.5
"""Minimum Jaccard similarity of the words of similar queries."""
_MOST_ALIKE = 50
_MOST_QUERIES = 2_000
_NEARNESS = 20.0
"""Weight of the cosine. A cosine that is 1/20 higher makes a passage e times as likely."""

Tokenize = Callable[[str], Iterable[str]]


def first_answers(
    ranked: Mapping[str, Sequence[ScoredChunk]], asks: Mapping[str, str], tokenize: Tokenize
) -> dict[str, float]:
    """Return by query id the probability (0 to 1) that the first passage answers the query.

    `ranked` has passages by query id, best first. `asks` has each query's text without the
    document's name. Each of the first 5 passages gets a sum of two numbers:

    - its TF-IDF cosine with the first passages of similar queries, times a weight.
    - its retrieval score, divided by the mean lead of first over second passages.

    A softmax over these sums gives the probability. Queries with fewer than two passages or without
    a similar query in another document are left out. A fixed sample of at most 2,000 queries is
    judged.
    """
    known = sorted(
        (q for q, found in ranked.items() if len(found) > 1 and q in asks),
        key=lambda q: (zlib.crc32(q.encode()), q),
    )
    ids = known[:_MOST_QUERIES]
    found = [ranked[q][:DEPTH] for q in ids]
    vectors, size = _vectors({c.chunk_id: c.text for own in found for c in own}, tokenize)
    leads = [own[0].score - own[1].score for own in found]
    unit = math.fsum(leads) / len(leads) if ids else 0.0
    judged = {}
    for number, others in enumerate(_alike([asks[q] for q in ids], found, tokenize)):
        if not len(others):
            continue
        centre = np.zeros(size)
        for other in others:
            at, weights = vectors[found[other][0].chunk_id]
            centre[at] += weights
        own = [vectors[c.chunk_id] for c in found[number]]
        near = np.array([weights @ centre[at] for at, weights in own])
        belief = _NEARNESS * near / (np.linalg.norm(centre) or 1.0)
        if unit > 0:
            belief += np.array([c.score for c in found[number]]) / unit
        shares = np.exp(belief - belief.max())
        judged[ids[number]] = float(shares[0] / shares.sum())
    return judged


def _alike(
    asked: Sequence[str], found: Sequence[Sequence[ScoredChunk]], tokenize: Tokenize
) -> Iterable[Any]:
    """Yield for each query the most similar queries whose first passage is in another document."""
    words = [frozenset(tokenize(text)) for text in asked]
    column = {word: at for at, word in enumerate(sorted(frozenset().union(*words)))}
    held = np.zeros((len(words), len(column)), np.float32)
    for row, own in enumerate(words):
        held[row, [column[word] for word in own]] = 1.0
    size = held.sum(axis=1)
    where = np.array([own[0].document_id for own in found])
    for row in range(len(words)):
        shared = held @ held[row]
        alike = shared / np.maximum(size + size[row] - shared, 1.0)
        alike[where == where[row]] = 0.0
        nearest = np.argsort(-alike, kind="stable")[:_MOST_ALIKE]
        yield nearest[alike[nearest] >= _ALIKE]


def _vectors(texts: Mapping[str, str], tokenize: Tokenize) -> tuple[dict[str, Any], int]:
    """Return each text's columns and TF-IDF weights of length 1, and the number of columns."""
    counted = {key: Counter(tokenize(text)) for key, text in texts.items()}
    holding = Counter(word for own in counted.values() for word in own)
    column = {word: at for at, word in enumerate(holding)}
    vectors = {}
    for key, own in counted.items():
        weights = np.array(
            [(1 + math.log(n)) * math.log(len(texts) / holding[w]) for w, n in own.items()]
        )
        at = np.array([column[w] for w in own], np.intp)
        vectors[key] = at, weights / (np.linalg.norm(weights) or 1.0)
    return vectors, len(column)
