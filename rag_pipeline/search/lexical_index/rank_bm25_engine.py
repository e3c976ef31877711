"""The engine rank_bm25: the reference of rankings, for small corpora."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from rank_bm25 import BM25Okapi

from rag_pipeline.config import Lexical
from rag_pipeline.search.lexical_index.ranking import Hits, Mask, Rows, best

_FILE = "terms.arrow"
_SCHEMA = pa.schema([pa.field("terms", pa.list_(pa.string()))])


class RankBm25Engine:
    """Keeps every chunk's terms in memory and scores all chunks for each query."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        self._index = BM25Okapi(_read(folder / _FILE), k1=settings.k1, b=settings.b)
        rows = self._index.corpus_size
        # Lucene's idf, since BM25Okapi has a floor for terms in more than half of the chunks.
        self._index.idf = {
            term: math.log(1 + (rows - n + 0.5) / (n + 0.5))
            for term, n in Counter(chain.from_iterable(self._index.doc_freqs)).items()
        }

    @staticmethod
    def write(tokenized: Iterable[list[list[str]]], settings: Lexical, folder: Path) -> int:
        """Write the batches' terms; return the number of distinct terms."""
        distinct: set[str] = set()
        with pa.ipc.new_file(str(folder / _FILE), _SCHEMA) as writer:
            for batch in tokenized:
                distinct.update(chain.from_iterable(batch))
                writer.write_batch(pa.record_batch([batch], schema=_SCHEMA))
        return len(distinct)

    def search(
        self, terms: list[str], k: int, allowed: Mask | None, also: Rows | None = None
    ) -> Hits:
        """Rank the rows with any of the terms."""
        known = [term for term in terms if term in self._index.idf]
        # With b = 1 a chunk without terms gives 0 / 0.
        with np.errstate(invalid="ignore"):
            scores = np.nan_to_num(self._index.get_scores(known))
        return best(scores / (self._index.k1 + 1), k, allowed, also)

    def holding(self, term: str) -> Rows:
        """Return the rows with a term."""
        return np.array([n for n, held in enumerate(self._index.doc_freqs) if term in held], int)


def _read(file: Path) -> Iterator[list[str]]:
    """Yield each chunk's terms, equal terms as one object."""
    with pa.memory_map(str(file)) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            for terms in reader.get_batch(number).column("terms").to_pylist():
                yield [sys.intern(term) for term in terms]
