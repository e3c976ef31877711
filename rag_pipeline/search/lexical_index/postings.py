"""Count the terms of each row, batch by batch, and carry over counts from an earlier index.

`scipy.sparse` takes three times as long to carry over rows, because it converts the format twice.
"""

import json
import math
from array import array
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.config import Lexical

_COUNTS, _LENGTHS = "counts.npy", "lengths.npy"
_BLOCK = 1 << 22

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


class Matrix(NamedTuple):
    """The postings of all terms. The rows of term t are `rows[ends[t]:ends[t + 1]]`."""

    vocabulary: dict[str, int]
    ends: Longs
    rows: Ints
    counts: Ints
    """The number of times that the term occurs in each of `rows`."""
    lengths: Ints
    """The number of terms of each row."""


class _Postings(NamedTuple):
    terms: Ints
    rows: Ints
    counts: Ints


class _Ordered(NamedTuple):
    ends: Longs
    rows: Ints
    counts: Ints


class _Vocabulary(dict[str, int]):
    """The number of each term, in the order of first use."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self)
        return number


class PostingsBuilder:
    """A builder of postings from rows that are added in any order.

    Each distinct term of a row needs 12 bytes of memory.
    """

    def __init__(self) -> None:
        self._vocabulary = _Vocabulary()
        self._batches: list[_Postings] = []
        self._lengths: list[tuple[Longs, Ints]] = []
        self._rows = 0
        self._carried: _Ordered | None = None

    def carry_over(self, matrix: Matrix, new_rows: Longs) -> None:
        """Add the rows of an earlier matrix. Call this method before `add`.

        `new_rows` has the new number of each row, or -1 to leave the row out.
        """
        self._vocabulary.update(matrix.vocabulary)
        numbers = new_rows.astype(np.int32)
        rows, counts = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        gone = [np.empty(0, np.int64)]
        for first in range(0, len(matrix.rows), _BLOCK):
            block = slice(first, first + _BLOCK)
            moved, kept_counts = numbers[matrix.rows[block]], np.asarray(matrix.counts[block])
            kept = moved >= 0
            if not kept.all():
                gone.append(first + np.flatnonzero(~kept))
                moved, kept_counts = moved[kept], kept_counts[kept]
            rows.append(moved)
            counts.append(kept_counts)
        before = np.searchsorted(np.concatenate(gone), matrix.ends)
        self._carried = _Ordered(matrix.ends - before, np.concatenate(rows), np.concatenate(counts))
        kept = new_rows >= 0
        # An index without terms has no lengths.
        lengths = np.asarray(matrix.lengths) if matrix.vocabulary else np.zeros(len(kept), np.int32)
        self._note(new_rows[kept], lengths[kept])

    def add(self, tokenized: list[list[str]], rows: Longs | None = None) -> None:
        """Add the terms of some rows. `rows` are their numbers, by default the next numbers."""
        if rows is None:
            rows = np.arange(self._rows, self._rows + len(tokenized))
        lengths = np.array([len(terms) for terms in tokenized], np.int32)
        flat = array("i", map(self._vocabulary.__getitem__, chain.from_iterable(tokenized)))
        terms = np.frombuffer(flat, np.intc).astype(np.int64)
        keys, counts = np.unique(terms << 32 | np.repeat(rows, lengths), return_counts=True)
        self._batches.append(
            _Postings(
                (keys >> 32).astype(np.int32),
                (keys & 0xFFFFFFFF).astype(np.int32),
                counts.astype(np.int32),
            )
        )
        self._note(rows, lengths)

    def _note(self, rows: Longs, lengths: Ints) -> None:
        self._lengths.append((rows, lengths))
        self._rows = max(self._rows, int(rows.max(initial=-1)) + 1)

    def matrix(self) -> Matrix:
        """Return all postings by term, without terms that have no rows, and empty the builder."""
        ends, rows, counts = self._gathered()
        if self._carried is not None:
            ends, rows, counts = _joined(self._carried, _Ordered(ends, rows, counts))
            self._carried = None
        lengths = np.zeros(self._rows, np.int32)
        for where, known in self._lengths:
            lengths[where] = known
        living = np.flatnonzero(np.diff(ends))
        words = list(self._vocabulary)
        vocabulary = {words[term]: number for number, term in enumerate(living.tolist())}
        return Matrix(vocabulary, np.append(ends[living], ends[-1]), rows, counts, lengths)

    def _gathered(self) -> _Ordered:
        per_term = np.zeros(len(self._vocabulary), np.int64)
        for terms, _, _ in self._batches:
            found = np.bincount(terms)
            per_term[: len(found)] += found
        ends = np.concatenate([[0], np.cumsum(per_term)])
        rows, counts = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.int32)
        heads = ends[:-1].copy()
        self._batches.reverse()
        while self._batches:
            batch = self._batches.pop()
            starts = np.flatnonzero(np.diff(batch.terms, prepend=-1))
            found = np.diff(np.append(starts, len(batch.terms)))
            distinct = batch.terms[starts]
            at = np.arange(len(batch.terms)) + np.repeat(heads[distinct] - starts, found)
            rows[at], counts[at] = batch.rows, batch.counts
            heads[distinct] += found
        return _Ordered(ends, rows, counts)


def _joined(one: _Ordered, other: _Ordered) -> _Ordered:
    """Merge two sets of postings by term. `other` must have all terms of `one`."""
    ends = np.pad(one.ends, (0, len(other.ends) - len(one.ends)), mode="edge")
    rows: list[Ints] = []
    counts: list[Ints] = []
    done = 0
    for term in np.flatnonzero(np.diff(other.ends)).tolist():
        old, new = slice(done, ends[term + 1]), slice(*other.ends[term : term + 2])
        rows += one.rows[old], other.rows[new]
        counts += one.counts[old], other.counts[new]
        done = old.stop
    rows.append(one.rows[done:])
    counts.append(one.counts[done:])
    return _Ordered(ends + other.ends, np.concatenate(rows), np.concatenate(counts))


def idf(rows: int, holding: int) -> float:
    """Return the inverse frequency of a term that `holding` rows of all `rows` contain."""
    return math.log(1 + (rows - holding + 0.5) / (holding + 0.5))


def bm25_scores(matrix: Matrix, settings: Lexical) -> npt.NDArray[np.float32]:
    """Return each posting's score by the formula in the docstring of this package."""
    total = len(matrix.lengths)
    per_term = np.diff(matrix.ends)
    idf = np.log(1 + (total - per_term + 0.5) / (per_term + 0.5))
    lengths = matrix.lengths / max(float(matrix.lengths.mean()), 1e-12)
    saturation = settings.k1 * (1 - settings.b + settings.b * lengths)
    scores = np.empty(len(matrix.rows), np.float32)
    for first in range(0, len(scores), _BLOCK):
        block = slice(first, min(first + _BLOCK, len(scores)))
        counts = matrix.counts[block]
        of_terms = np.repeat(idf, np.diff(matrix.ends.clip(block.start, block.stop)))
        scores[block] = of_terms * counts / (counts + saturation[matrix.rows[block]])
    return scores


def save_counts(matrix: Matrix, folder: Path) -> None:
    """Write counts and lengths for `load_matrix`. The library bm25s does not save them."""
    np.save(folder / _COUNTS, matrix.counts)
    np.save(folder / _LENGTHS, matrix.lengths)


def load_matrix(folder: Path) -> Matrix:
    """Return the memory-mapped matrix of an index, or an empty matrix if the index has no terms."""
    if not (folder / _COUNTS).exists():
        return Matrix({}, np.zeros(1, np.int64), *(np.empty(0, np.int32) for _ in range(3)))
    return Matrix(
        json.loads((folder / "vocab.index.json").read_text(encoding="utf-8")),
        np.load(folder / "indptr.csc.index.npy", allow_pickle=False),
        _mapped(folder / "indices.csc.index.npy"),
        *load_counts(folder),
    )


def load_counts(folder: Path) -> tuple[Ints, Ints]:
    """Return the memory-mapped counts and lengths of an index (see `Matrix`)."""
    return _mapped(folder / _COUNTS), _mapped(folder / _LENGTHS)


def _mapped(file: Path) -> Ints:
    array: Ints = np.load(file, mmap_mode="r", allow_pickle=False)
    return array
