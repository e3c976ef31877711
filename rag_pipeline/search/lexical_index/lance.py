"""Write and search a LanceDB full-text index, the BM25 engine `lance`."""

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Mask
from rag_pipeline.imports import import_lancedb
from rag_pipeline.search.lexical_index.engines import Engine, Hits, Rows, best_hits

LANCE_K1, LANCE_B = 1.2, 0.75
"""The fixed values of k1 and b in LanceDB."""
_TABLE = "terms"
_TABLE_SCHEMA = pa.schema([pa.field("row", pa.int64()), pa.field(_TABLE, pa.string())])
_MAX_LISTED = 1000
_MAX_HELD = 10_000


class LanceEngine(Engine):
    """An engine that searches a LanceDB full-text index on disk."""

    def __init__(self, folder: Path, settings: Lexical) -> None:
        self._table = import_lancedb().connect(folder).open_table(_TABLE)
        self._visible: Mask | None = None

    def only(self, visible: Mask) -> Self:
        """Return an engine that finds only the visible rows. BM25 scores still count all rows."""
        seen = copy(self)
        seen._visible = visible
        return seen

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
            if failures:  # Lance hides the original error
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
        """Return the k best rows with any term, the ties of the k-th row, and rows of `also`.

        Lance applies the filter if at most 1,000 rows are allowed. Otherwise, this method filters
        Lance's results, because Lance takes too long with a longer list of rows.
        """
        if also is not None:
            parts = [also[n : n + _MAX_LISTED] for n in range(0, len(also), _MAX_LISTED)]
            answers = [self.search(terms, k, allowed)]
            answers += [self._query(terms, len(part), _among(part)) for part in parts]
            rows, first = np.unique(np.concatenate([a.rows for a in answers]), return_index=True)
            return Hits(rows, np.concatenate([a.scores for a in answers])[first])
        where = None
        if self._visible is not None:
            allowed = self._visible if allowed is None else allowed & self._visible
        if allowed is not None and np.count_nonzero(allowed) <= _MAX_LISTED:
            rows = np.flatnonzero(allowed)
            if not len(rows):
                return Hits(np.empty(0, np.int64), np.empty(0))
            where, allowed = _among(rows), None
        limit = 2 * k + 10
        while True:
            found = self._query(terms, limit, where)
            best = best_hits(found.scores, k, None if allowed is None else allowed[found.rows])
            # No other row scores above the last returned row.
            if len(found.rows) < limit or (
                len(best.rows) >= k and best.scores.min() > found.scores.min()
            ):
                return Hits(found.rows[best.rows], best.scores)
            limit *= 4

    def holding(self, term: str) -> Rows:
        """Return at most 10,000 rows that have a term. A term in more rows names no document."""
        rows: Rows = np.asarray(self._query([term], _MAX_HELD, None).rows, np.int64)
        return rows if self._visible is None else rows[self._visible[rows]]

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
