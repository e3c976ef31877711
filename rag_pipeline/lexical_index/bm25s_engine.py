"""The engine bm25s: every term's score in every chunk worked out at build time, mapped on load."""

import itertools
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_pipeline.config import Lexical
from rag_pipeline.lexical_index.ranking import Found, Mask, Rows, best


class Bm25sEngine:
    """The default: milliseconds a query on 100,000 chunks."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        import bm25s

        self._index = bm25s.BM25.load(folder, mmap=True, show_progress=False)

    @staticmethod
    def write(tokenized: Iterable[list[list[str]]], settings: Lexical, folder: Path) -> int:
        """Write the index of the batches' terms; return the number of distinct terms."""
        chunks, vocabulary = _TermIds(), _Vocabulary()
        for batch in tokenized:
            chunks.add(batch, vocabulary)
        if vocabulary:
            import bm25s

            index = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene")
            index.vocab_dict = dict(vocabulary)
            index.scores = index.build_index_from_ids(
                list(vocabulary.values()), chunks, show_progress=False
            )
            index.save(folder, show_progress=False)
        return len(vocabulary)

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Found:
        """Rank the rows that hold any of the terms."""
        return best(self.scores(terms), k, allowed, also)

    def scores(self, terms: list[str]) -> npt.NDArray[np.float32]:
        """Return every row's score."""
        scores: npt.NDArray[np.float32] = self._index.get_scores_from_ids(
            self._index.get_tokens_ids(terms)
        )
        return scores

    def frequencies(self, terms: list[str]) -> npt.NDArray[np.int64]:
        """Return how many rows hold each term, 0 for an unknown one."""
        ends, known = self._index.scores["indptr"], self._index.vocab_dict
        numbers = (known.get(term) for term in terms)
        counts = [0 if n is None else int(ends[n + 1]) - int(ends[n]) for n in numbers]
        return np.array(counts, np.int64)


class _Vocabulary(dict[str, int]):
    """Numbers terms in the order in which they are first asked for."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self)
        return number


class _TermIds:
    """The term numbers of each chunk at 4 bytes a term; as lists they would take 8 and more."""

    def __init__(self) -> None:
        self._ids = array("i")
        self._ends = array("q", [0])

    def add(self, tokenized: list[list[str]], vocabulary: _Vocabulary) -> None:
        for terms in tokenized:
            self._ids.extend(map(vocabulary.__getitem__, terms))
            self._ends.append(len(self._ids))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[list[int]]:
        ids = np.frombuffer(self._ids, np.intc)
        for start, end in itertools.pairwise(self._ends):
            yield ids[start:end].tolist()
