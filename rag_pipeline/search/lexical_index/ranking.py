"""The protocol of the engines, and the choice of the best rows."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""One flag per chunk, in the order of `LexicalIndex.chunk_ids`."""

Rows = npt.NDArray[np.int64]

BM25Scores = npt.NDArray[np.floating[Any]]


class Hits(NamedTuple):
    """Rows that score above 0, in any order: the k best with ties, and rows of `also`."""

    rows: npt.NDArray[np.int64]
    scores: BM25Scores


class Engine(Protocol):
    """Searches the terms of one opened folder; safe to share between threads."""

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Hits:
        """Rank the rows with any of the terms; a repeated term counts repeatedly.

        `also` names allowed rows to score at any rank.
        """

    def holding(self, term: str) -> Rows:
        """Return the rows with a term."""


def best(scores: BM25Scores, k: int, allowed: Mask | None, also: Rows | None = None) -> Hits:
    """Return the best rows by one score per row."""
    hits = scores > 0
    if allowed is not None:
        hits &= allowed
    rows = np.flatnonzero(hits)
    found = scores[rows]
    if len(rows) > k:
        kept = found >= np.partition(found, -k)[-k]
        rows, found = rows[kept], found[kept]
    if also is not None:
        rows = np.union1d(rows, also[scores[also] > 0])
        found = scores[rows]
    return Hits(rows, found)
