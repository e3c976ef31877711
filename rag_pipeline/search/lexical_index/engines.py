"""Write and search the files of the three BM25 engines.

- `bm25s`, the default, computes all scores at build time and memory-maps them. A query on 100,000
  chunks takes some milliseconds. The library saves, loads and scores. Its index is built here,
  because the library needs all tokens in memory and cannot carry over unchanged documents.
- `rank_bm25` keeps every chunk's terms in memory and scores all chunks for each query. It is the
  reference for rankings, and it suits small corpora.
- `lance` is a LanceDB full-text index. It reads from disk for each query, so a corpus may be larger
  than memory. Chunks without terms do not count in N and avgdl.
"""

import json
import math
import re
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rank_bm25 import BM25Okapi

from rag_pipeline.config import Lexical
from rag_pipeline.imports import import_lancedb
from rag_pipeline.search.lexical_index.postings import (
    Matrix,
    PostingsBuilder,
    bm25_scores,
    save_counts,
)

Mask = npt.NDArray[np.bool_]
"""One flag per chunk, in the order of `LexicalIndex.chunk_ids`."""
Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating[Any]]

LANCE_K1, LANCE_B = 1.2, 0.75
"""LanceDB's values of k1 and b, which no setting changes."""

_SLICE = 1 << 16
_BETWEEN = re.compile(r'\d,\s*"')
"""Separator of two terms. A match inside a term cuts invalid JSON, which the reader detects."""
_TERMS_FILE = "terms.arrow"
_TERMS_SCHEMA = pa.schema([pa.field("terms", pa.list_(pa.string()))])
_TABLE = "terms"
_TABLE_SCHEMA = pa.schema([pa.field("row", pa.int64()), pa.field(_TABLE, pa.string())])
_MAX_LISTED = 1000
_MAX_HELD = 10_000


class Hits(NamedTuple):
    """Holds rows with scores above 0, unordered."""

    rows: Rows
    scores: Scores


class Engine(Protocol):
    """Searches the terms of one opened folder. Threads may share it."""

    def __init__(self, folder: Path, settings: Lexical) -> None: ...

    @staticmethod
    def write(tokenized: Iterable[list[list[str]]], settings: Lexical, folder: Path) -> int:
        """Write the index of the batches' terms and return the number of distinct terms."""

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Hits:
        """Return the k best rows with any of the terms, and the ties of the k-th row.

        A repeated term counts repeatedly. Rows of `also` are added if they score above 0.
        """

    def holding(self, term: str) -> Rows:
        """Return the rows with a term."""


class _ScoringEngine(Engine, Protocol):
    @abstractmethod
    def scores(self, terms: list[str]) -> Scores:
        """Return every row's score."""

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Hits:
        """Return the k best rows with any of the terms, their ties, and rows of `also`."""
        return _best(self.scores(terms), k, allowed, also)


def _best(scores: Scores, k: int, allowed: Mask | None, also: Rows | None = None) -> Hits:
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
    """Return the number of each term. Read in slices, so that other threads can run between."""
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
    """Searches precomputed scores with the library bm25s."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        import bm25s

        self._index = bm25s.BM25.load(folder, mmap=True, load_vocab=False, show_progress=False)
        self._index.vocab_dict = read_vocabulary(folder / "vocab.index.json")

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
            import bm25s

            index = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene")
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

    def scores(self, terms: list[str]) -> npt.NDArray[np.float32]:
        """Return every row's score."""
        numbers = self._index.get_tokens_ids(terms)
        scores: npt.NDArray[np.float32] = self._index.get_scores_from_ids(numbers)
        return scores

    def postings(self, term: str) -> Hits:
        """Return the rows with a term, and their scores for it."""
        matrix, number = self._index.scores, self._index.vocab_dict.get(term)
        part = slice(0) if number is None else slice(*matrix["indptr"][number : number + 2])
        return Hits(np.asarray(matrix["indices"][part], np.int64), np.asarray(matrix["data"][part]))

    def holding(self, term: str) -> Rows:
        """Return the rows with a term."""
        return self.postings(term).rows

    def frequencies(self, terms: list[str]) -> Rows:
        """Return the number of rows with each term."""
        ends, known = self._index.scores["indptr"], self._index.vocab_dict
        numbers = (known.get(term) for term in terms)
        counts = [0 if n is None else int(ends[n + 1]) - int(ends[n]) for n in numbers]
        return np.array(counts, np.int64)


# --- rank_bm25 ---


class RankBm25Engine(_ScoringEngine):
    """Scores all chunks for each query with the library rank_bm25."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        with pa.memory_map(str(folder / _TERMS_FILE)) as source:
            reader = pa.ipc.open_file(source)
            batches = map(reader.get_batch, range(reader.num_record_batches))
            lists = (terms for batch in batches for terms in batch.column("terms").to_pylist())
            # Interning shares equal terms, to save memory.
            interned = ([sys.intern(term) for term in terms] for terms in lists)
            self._index = BM25Okapi(interned, k1=settings.k1, b=settings.b)
        rows = self._index.corpus_size
        # Lucene's idf: that of BM25Okapi has a floor for terms in more than half of the chunks.
        self._index.idf = {
            term: math.log(1 + (rows - n + 0.5) / (n + 0.5))
            for term, n in Counter(chain.from_iterable(self._index.doc_freqs)).items()
        }

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
        # With b = 1 a chunk without terms gives 0 / 0.
        with np.errstate(invalid="ignore"):
            scores = np.nan_to_num(self._index.get_scores(known))
        found: Scores = scores / (self._index.k1 + 1)
        return found

    def holding(self, term: str) -> Rows:
        """Return the rows with a term."""
        return np.array([n for n, held in enumerate(self._index.doc_freqs) if term in held], int)


# --- lance ---


class LanceEngine(Engine):
    """Searches a LanceDB full-text index on disk."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        self._table = import_lancedb().connect(folder).open_table(_TABLE)

    @staticmethod
    def write(tokenized: Iterable[list[list[str]]], settings: Lexical, folder: Path) -> int:
        """Write the table and its index, and return the number of distinct terms."""
        lancedb = import_lancedb()
        from lancedb.index import FTS

        distinct: set[str] = set()
        failures: list[Exception] = []

        def batches() -> Iterator[pa.RecordBatch]:
            row = 0
            try:
                for batch in tokenized:
                    distinct.update(chain.from_iterable(batch))
                    rows = pa.array(range(row, row + len(batch)), pa.int64())
                    joined = pa.array([" ".join(terms) for terms in batch], pa.string())
                    yield pa.record_batch([rows, joined], schema=_TABLE_SCHEMA)
                    row += len(batch)
            except Exception as error:
                failures.append(error)
                raise

        reader = pa.RecordBatchReader.from_batches(_TABLE_SCHEMA, batches())
        try:
            table = lancedb.connect(folder).create_table(_TABLE, reader)
        except RuntimeError:
            if failures:  # Lance hides the original error of the batches
                raise failures[0] from None
            raise
        if distinct:
            table.create_index(
                _TABLE,
                config=FTS(
                    base_tokenizer="whitespace",
                    with_position=False,
                    max_token_length=None,
                    lower_case=False,
                    stem=False,
                    remove_stop_words=False,
                    ascii_folding=False,
                ),
            )
        return len(distinct)

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Hits:
        """Return the k best rows with any of the terms, their ties, and rows of `also`.

        Lance filters up to 1,000 allowed rows. This method filters more rows itself, because
        their list would slow Lance down.
        """
        if also is not None:
            parts = [also[n : n + _MAX_LISTED] for n in range(0, len(also), _MAX_LISTED)]
            answers = [self.search(terms, k, allowed)]
            answers += [self._query(terms, len(part), _among(part)) for part in parts]
            rows, first = np.unique(np.concatenate([a.rows for a in answers]), return_index=True)
            return Hits(rows, np.concatenate([a.scores for a in answers])[first])
        where = None
        if allowed is not None and np.count_nonzero(allowed) <= _MAX_LISTED:
            rows = np.flatnonzero(allowed)
            if not len(rows):
                return Hits(np.empty(0, np.int64), np.empty(0))
            where, allowed = _among(rows), None
        limit = 2 * k + 10
        while True:
            found = self._query(terms, limit, where)
            best = _best(found.scores, k, None if allowed is None else allowed[found.rows])
            # Rows that Lance has not returned do not score above the last returned row.
            if len(found.rows) < limit or (
                len(best.rows) >= k and best.scores.min() > found.scores.min()
            ):
                return Hits(found.rows[best.rows], best.scores)
            limit *= 4

    def holding(self, term: str) -> Rows:
        """Return at most 10,000 rows with a term. A more frequent term names no document."""
        return np.asarray(self._query([term], _MAX_HELD, None).rows, np.int64)

    def _query(self, terms: list[str], limit: int, where: str | None) -> Hits:
        from lancedb.query import MatchQuery

        query = self._table.search(MatchQuery(" ".join(terms), _TABLE), query_type="fts")
        query = query.select(["row", "_score"]).limit(limit)
        if where is not None:
            query = query.where(where, prefilter=True)
        found = query.to_arrow()
        scores = found.column("_score").to_numpy()
        return Hits(found.column("row").to_numpy(), scores / np.float32(LANCE_K1 + 1))


def _among(rows: Rows) -> str:
    return f"row IN ({', '.join(map(str, rows.tolist()))})"
