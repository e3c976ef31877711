"""The engine bm25s: all scores of terms in chunks are computed at build time and mapped on load.

`bm25s` saves, loads and scores. The index itself is built here: `bm25s` needs all tokens in memory
and cannot carry over unchanged documents.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_pipeline.config import Lexical
from rag_pipeline.search.lexical_index.postings import (
    Matrix,
    PostingsBuilder,
    bm25_scores,
    save_counts,
)
from rag_pipeline.search.lexical_index.ranking import Hits, Mask, Rows, best

_SLICE = 1 << 16
_BETWEEN = re.compile(r'\d,\s*"')
"""Separator of two terms; inside of a term it leaves no valid JSON."""


def read_vocabulary(file: Path) -> dict[str, int]:
    """Read the terms' numbers in slices, so that searches of other threads are not delayed."""
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


class Bm25sEngine:
    """The default engine: some milliseconds a query on 100,000 chunks."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        import bm25s

        self._index = bm25s.BM25.load(folder, mmap=True, load_vocab=False, show_progress=False)
        self._index.vocab_dict = read_vocabulary(folder / "vocab.index.json")

    @staticmethod
    def write(tokenized: Iterable[list[list[str]]], settings: Lexical, folder: Path) -> int:
        """Write the index of the batches' terms; return the number of distinct terms."""
        postings = PostingsBuilder()
        for batch in tokenized:
            postings.add(batch)
        return Bm25sEngine.write_matrix(postings.matrix(), settings, folder)

    @staticmethod
    def write_matrix(matrix: Matrix, settings: Lexical, folder: Path) -> int:
        """Write the index of a matrix; return the number of distinct terms."""
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

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Hits:
        """Rank the rows that hold any of the terms."""
        return best(self.scores(terms), k, allowed, also)

    def scores(self, terms: list[str]) -> npt.NDArray[np.float32]:
        """Return every row's score."""
        scores: npt.NDArray[np.float32] = self._index.get_scores_from_ids(
            self._index.get_tokens_ids(terms)
        )
        return scores

    def postings(self, term: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return the rows with a term, and their scores for it."""
        matrix, number = self._index.scores, self._index.vocab_dict.get(term)
        if number is None:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        part = slice(*matrix["indptr"][number : number + 2])
        return np.asarray(matrix["indices"][part], np.int64), np.asarray(matrix["data"][part])

    def holding(self, term: str) -> Rows:
        """Return the rows with a term."""
        return self.postings(term)[0]

    def frequencies(self, terms: list[str]) -> npt.NDArray[np.int64]:
        """Return the number of rows with each term."""
        ends, known = self._index.scores["indptr"], self._index.vocab_dict
        numbers = (known.get(term) for term in terms)
        counts = [0 if n is None else int(ends[n + 1]) - int(ends[n]) for n in numbers]
        return np.array(counts, np.int64)
