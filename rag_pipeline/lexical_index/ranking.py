"""What the engines have in common: how they are searched, and the choice of the best rows."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""One flag per chunk, in the order of `LexicalIndex.chunk_ids`."""

Scores = npt.NDArray[np.floating[Any]]


class Found(NamedTuple):
    """Rows that score above 0: the k best and every tie with the last of them, in any order."""

    rows: npt.NDArray[np.int64]
    scores: Scores


class Engine(Protocol):
    """Searches the terms of one opened folder; safe to share between threads."""

    def search(self, terms: list[str], k: int, allowed: Mask | None) -> Found:
        """Rank the rows that hold any of the terms; a repeated term counts repeatedly."""
        ...


def best(scores: Scores, k: int, allowed: Mask | None) -> Found:
    """Choose from one score per row."""
    hits = scores > 0
    if allowed is not None:
        hits &= allowed
    rows = np.flatnonzero(hits)
    found = scores[rows]
    if len(rows) > k:
        kept = found >= np.partition(found, -k)[-k]
        rows, found = rows[kept], found[kept]
    return Found(rows, found)
