"""Write and search the files of the BM25 engines.

- `bm25s`, the default, computes all scores at build time and maps them into memory. A query on
  100,000 chunks takes some milliseconds. This package builds the index itself, because the library
  needs all tokens in memory and cannot carry over unchanged documents.
- `rank_bm25` keeps every chunk's terms in memory and scores all chunks for each query. It is the
  reference for rankings, and suits small corpora.
- `lance` (see the module `lance`) is a LanceDB full-text index. It reads from disk for each query,
  so a corpus may be larger than memory. Chunks without terms do not count in N and avgdl.
"""

import json
import re
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rank_bm25 import BM25Okapi

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Mask
from rag_pipeline.imports import import_bm25s
from rag_pipeline.search.lexical_index.postings import (
    Matrix,
    PostingsBuilder,
    bm25_scores,
    idf,
    load_counts,
    save_counts,
)

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating[Any]]

_SLICE = 1 << 16
_BETWEEN = re.compile(r'\d,\s*"')
"""Matches between two terms. If a match is inside a term, the reader detects invalid JSON."""
_TERMS_FILE = "terms.arrow"
_TERMS_SCHEMA = pa.schema([pa.field("terms", pa.list_(pa.string()))])


class Hits(NamedTuple):
    """Rows with scores above 0, unordered."""

    rows: Rows
    scores: Scores


class Engine(Protocol):
    """A BM25 engine that searches the terms of one opened folder. Threads may share it.

    A mask has a flag per row. The rows are in the order of `LexicalIndex.chunk_ids`.
    """

    def __init__(self, folder: Path, settings: Lexical) -> None: ...

    @staticmethod
    def write(tokenized: Iterable[list[list[str]]], settings: Lexical, folder: Path) -> int:
        """Write the index of the batches' terms and return the number of distinct terms."""

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Hits:
        """Return the k best rows with any term, the ties of the k-th row, and rows of `also`.

        A repeated term counts each time. Every returned row scores above 0.
        """

    def holding(self, term: str) -> Rows:
        """Return the rows that have a term."""

    def only(self, visible: Mask) -> "Engine":
        """Return an engine that finds and counts only the visible rows."""


class _ScoringEngine(Engine, Protocol):
    @abstractmethod
    def scores(self, terms: list[str]) -> Scores:
        """Return every row's score."""

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Hits:
        """Return the k best rows with any term, the ties of the k-th row, and rows of `also`."""
        return best_hits(self.scores(terms), k, allowed, also)


def best_hits(scores: Scores, k: int, allowed: Mask | None, also: Rows | None = None) -> Hits:
    """Return the k best allowed rows, the ties of the k-th row, and the rows of `also`."""
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


# --- bm25s ---


def read_vocabulary(file: Path) -> dict[str, int]:
    """Return each term's number. Parse the file in slices, between which other threads can run."""
    text = file.read_text(encoding="utf-8").strip()
    found: dict[str, int] = {}
    start = 1
    try:
        while start < len(text) - 1:
            between = _BETWEEN.search(text, start + _SLICE)
            end = between.start() + 1 if between else len(text) - 1
            found |= json.loads(f"{{{text[start:end]}}}")
            start = end + 1
    except ValueError:
        found = json.loads(text)
    return found


class Bm25sEngine(_ScoringEngine):
    """An engine that searches precomputed scores with the library bm25s."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        bm25s = import_bm25s()

        self._index = bm25s.BM25.load(folder, mmap=True, load_vocab=False, show_progress=False)
        self._index.vocab_dict = read_vocabulary(folder / "vocab.index.json")
        for name in ("data", "indices", "indptr"):  # slices of a `memmap` are slower
            self._index.scores[name] = np.asarray(self._index.scores[name])
        self._folder, self._settings = folder, settings

    def only(self, visible: Mask) -> "Bm25sEngine":
        """Return an engine that scores the visible rows as if it had indexed no other rows."""
        return _VisibleBm25s(self, visible)

    @staticmethod
    def write(tokenized: Iterable[list[list[str]]], settings: Lexical, folder: Path) -> int:
        """Write the index of the batches' terms and return the number of distinct terms."""
        postings = PostingsBuilder()
        for batch in tokenized:
            postings.add(batch)
        return Bm25sEngine.write_matrix(postings.matrix(), settings, folder)

    @staticmethod
    def write_matrix(matrix: Matrix, settings: Lexical, folder: Path) -> int:
        """Write the index of a matrix and return the number of distinct terms."""
        if matrix.vocabulary:
            index = import_bm25s().BM25(k1=settings.k1, b=settings.b, method="lucene")
            index.vocab_dict = matrix.vocabulary
            index.nonoccurrence_array = None
            index.scores = {
                "data": bm25_scores(matrix, settings),
                "indices": matrix.rows,
                "indptr": matrix.ends,
                "num_docs": len(matrix.lengths),
            }
            index.save(folder, show_progress=False)
            save_counts(matrix, folder)
        return len(matrix.vocabulary)

    def check(self) -> None:
        """Raise ValueError or TypeError if the files are not the files of an index."""
        matrix, numbers = self._index.scores, np.array([*self._index.vocab_dict.values()])
        data, rows, ends = (np.asarray(matrix[name]) for name in ("data", "indices", "indptr"))
        whole = all(each.dtype.kind in "iu" and each.ndim == 1 for each in (rows, ends, numbers))
        if (
            not whole
            or not rows.shape == data.shape == (ends[-1],)
            or (ends[0], numbers.min(), rows.min()) < (0, 0, 0)
            or (np.diff(ends) < 0).any()
            or numbers.max() >= len(ends) - 1
            or rows.max() >= matrix["num_docs"]
            or not np.isfinite(data).all()
        ):
            raise ValueError(f"{self._folder.name}: the arrays of the BM25 index are damaged")
        self.scores(list(self._index.vocab_dict)[:1])

    def scores(self, terms: list[str]) -> npt.NDArray[np.float32]:
        """Return every row's score."""
        numbers = self._index.get_tokens_ids(terms)
        scores: npt.NDArray[np.float32] = self._index.get_scores_from_ids(numbers)
        return scores

    def postings(self, term: str) -> Hits:
        """Return the rows that have a term, and their scores for the term."""
        matrix, part = self._index.scores, self._part(term)
        return Hits(np.asarray(matrix["indices"][part], np.int64), np.asarray(matrix["data"][part]))

    def _part(self, term: str) -> slice:
        number = self._index.vocab_dict.get(term)
        ends = self._index.scores["indptr"]
        return slice(0) if number is None else slice(*ends[number : number + 2])

    def holding(self, term: str) -> Rows:
        """Return the rows that have a term."""
        return self.postings(term).rows

    def frequencies(self, terms: list[str]) -> Rows:
        """Return for each term the number of rows that have the term."""
        ends, known = self._index.scores["indptr"], self._index.vocab_dict
        numbers = (known.get(term) for term in terms)
        counts = [0 if n is None else int(ends[n + 1]) - int(ends[n]) for n in numbers]
        return np.array(counts, np.int64)


class _VisibleBm25s(Bm25sEngine):
    """An engine that scores the visible rows at search time, with the statistics of these rows."""

    def __init__(self, whole: Bm25sEngine, visible: Mask) -> None:
        self.__dict__.update(whole.__dict__)
        self._visible = visible
        self._counts, self._lengths = load_counts(self._folder)
        self._rows = int(np.count_nonzero(visible))
        self._mean = max(float(self._lengths[visible].mean()) if self._rows else 0.0, 1e-12)

    def scores(self, terms: list[str]) -> npt.NDArray[np.float32]:
        """Return every row's score. Hidden rows have 0."""
        scores = np.zeros(len(self._visible), np.float32)
        for rows, found in map(self.postings, terms):
            scores[rows] += found
        return scores

    def postings(self, term: str) -> Hits:
        """Return the visible rows that have a term, and their scores for the term."""
        part = self._part(term)
        rows = np.asarray(self._index.scores["indices"][part], np.int64)
        seen = self._visible[rows]
        rows, counts = rows[seen], self._counts[part][seen]
        lengths, b = self._lengths[rows] / self._mean, self._settings.b
        saturation = self._settings.k1 * (1 - b + b * lengths)
        scores = idf(self._rows, len(rows)) * counts / (counts + saturation)
        return Hits(rows, scores.astype(np.float32))

    def frequencies(self, terms: list[str]) -> Rows:
        """Return for each term the number of visible rows that have the term."""
        return np.array([len(self.postings(term).rows) for term in terms], np.int64)


# --- rank_bm25 ---


class RankBm25Engine(_ScoringEngine):
    """An engine that scores all chunks for each query with the library rank_bm25."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        with pa.memory_map(str(folder / _TERMS_FILE)) as source:
            reader = pa.ipc.open_file(source)
            batches = map(reader.get_batch, range(reader.num_record_batches))
            lists = (terms for batch in batches for terms in batch.column("terms").to_pylist())
            # Equal terms share memory.
            interned = ([sys.intern(term) for term in terms] for terms in lists)
            self._index = BM25Okapi(interned, k1=settings.k1, b=settings.b)
        self._see(np.ones(self._index.corpus_size, np.bool_))

    def _see(self, visible: Mask) -> None:
        """Compute the statistics of the visible rows."""
        self._visible = visible
        rows, held = int(np.count_nonzero(visible)), np.flatnonzero(visible).tolist()
        freqs = self._index.doc_freqs
        # BM25Okapi's own idf has a floor for terms in more than half of the chunks.
        self._index.idf = {
            term: idf(rows, n)
            for term, n in Counter(chain.from_iterable(freqs[row] for row in held)).items()
        }
        self._index.avgdl = sum(self._index.doc_len[row] for row in held) / max(rows, 1)

    def only(self, visible: Mask) -> Self:
        """Return an engine that scores the visible rows as if it had indexed no other rows."""
        seen = copy(self)
        seen._index = copy(self._index)
        seen._see(visible)
        return seen

    @staticmethod
    def write(tokenized: Iterable[list[list[str]]], settings: Lexical, folder: Path) -> int:
        """Write the batches' terms and return the number of distinct terms."""
        distinct: set[str] = set()
        with pa.ipc.new_file(str(folder / _TERMS_FILE), _TERMS_SCHEMA) as writer:
            for batch in tokenized:
                distinct.update(chain.from_iterable(batch))
                writer.write_batch(pa.record_batch([batch], schema=_TERMS_SCHEMA))
        return len(distinct)

    def scores(self, terms: list[str]) -> Scores:
        """Return every row's score."""
        known = [term for term in terms if term in self._index.idf]
        # With b = 1, the score of a chunk without terms is 0 / 0.
        with np.errstate(invalid="ignore"):
            scores = np.nan_to_num(self._index.get_scores(known))
        found: Scores = scores / (self._index.k1 + 1) * self._visible
        return found

    def holding(self, term: str) -> Rows:
        """Return the rows that have a term."""
        found = [n for n, held in enumerate(self._index.doc_freqs) if term in held]
        rows: Rows = np.array(found, np.int64)
        return rows[self._visible[rows]]
