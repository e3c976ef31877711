"""Open a vector table and the lexical index of the same chunks for searching."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.datamodels import Mask, ScoredChunk, Vectors
from rag_pipeline.errors import InputError, StoreError
from rag_pipeline.search import vector_index
from rag_pipeline.search.documents import PinnedDocuments, places_in
from rag_pipeline.search.lexical_index import DocumentIndex, LexicalIndex
from rag_pipeline.search.mapped import MappedFolder
from rag_pipeline.search.reranking.late_interaction import Weights, token_weights
from rag_pipeline.store.lance import data_files, id_filter, table_name
from rag_pipeline.store.tables import identity_of

RESIDENT_BYTES = 400 << 20
"""Maximum size in bytes of the vectors in memory, and of a server's rows in memory.

Above this size, each query reads from disk, which takes longer.
"""
_MAPPED_BYTES = 1 << 30
"""The same for rows in a file that processes map. The system may drop its pages."""

_TAKEN = 4096
"""Number of rows that are copied at once.

If an index has more new rows than this, all its vectors are read again.
"""

Positions = npt.NDArray[np.int64]
"""Positions of chunks in an opened index, counted from 0 in the order of the chunk ids."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Index:
    """One version of a vector table with the lexical index of the same chunks.

    Threads may share an index.
    """

    table: Any
    row_ids: vector_index.RowIds
    """Lance's row id at each position."""
    neighbours: Positions
    """Positions of the chunks before and after each chunk in its document, shape (chunks, 2).

    The position is -1 if there is no such chunk.
    """
    _chunk_ids: pa.Array
    """The ids of all chunks, sorted."""
    _document_ids: pa.Array
    document_of: Positions
    """The number of the document at each position: an index into `_document_ids`."""
    _by_row_id: Positions
    probes: int
    """Number of partitions that a search reads. 0 if the table has no vector index."""
    vectors: Vectors | None
    """The vector at each position, shape (chunks, dimension), or None above `RESIDENT_BYTES`."""
    _terms: "_Terms | None"
    _token_weights: Weights | None
    language_axes: Vectors | None = None
    """The axes along which the visible chunks' languages differ (see `vector_index`)."""
    rows: pa.Table | None = None
    """The row at each position. None outside servers and above `RESIDENT_BYTES`."""
    documents: PinnedDocuments | None = None
    """The documents by id. None if the build has no documents table."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """The id of the indexed document, by the id of each copy that the caller may see."""
    copies_matching: Callable[[str], Collection[str]] = lambda _: ()
    """A function that returns the ids of the copies that match a filter in SQL."""
    visible: Mask | None = None
    """A flag per chunk: whether the caller may see it. None if the caller may see all chunks."""
    condition: str | None = None
    """`visible` as a condition in LanceDB's SQL. Also None if the vectors are in memory."""

    @classmethod
    def open(
        cls, table: Any, lexical: LexicalIndex | None, before: "Index | None" = None
    ) -> "Index":
        """Open an index. Reuse the vectors of the open index `before` whose files are the same.

        Raise StoreError if a file is damaged, or if the table and the lexical index hold different
        chunks.
        """
        columns = ["chunk_id", "document_id", "start"]
        weights = terms = None
        with vector_index.reading(table):
            rows = table.to_table(columns, with_row_id=True).sort_by("chunk_id")
            row_ids = rows.column("_rowid").to_numpy()
            by_row_id = np.argsort(row_ids)
            if "token_ids" in table.schema.names:
                batches = table.to_batches(["token_ids"])
                weights = token_weights(batch.column("token_ids") for batch in batches)
            probes = vector_index.index_probes(table)
            vectors = _resident(table, row_ids, by_row_id, before)
        if lexical is not None:
            terms = _Terms.pair(table_name(table), rows, lexical)
        documents = rows.column("document_id").combine_chunks().dictionary_encode()
        document_of = documents.indices.to_numpy()
        neighbours = _neighbours(document_of, rows.column("start").to_numpy())
        chunk_ids = rows.column("chunk_id").combine_chunks()
        opened = cls(
            *(table, row_ids, neighbours, chunk_ids, documents.dictionary, document_of, by_row_id),
            *(probes, vectors, terms, weights),
        )
        return replace(opened, language_axes=opened._axes(np.arange(len(row_ids))))

    def _axes(self, positions: Positions) -> Vectors | None:
        """Return the chunks' language axes, or None if a search does not need them."""
        is_english = self._token_weights is not None
        if is_english or not (self._terms and self._terms.lexical.detects_language):
            return None
        rows = self.take(vector_index.sampled(positions), ["text", "vector"])
        return vector_index.language_axes(
            vector_index.vectors_of(rows), rows.column("text").to_pylist()
        )

    @property
    def name(self) -> str:
        """Return the name of the table with its identity and version."""
        return f"{table_name(self.table)}-{identity_of(self.table.schema)}-{self.table.version}"

    def for_server(self, mapped: MappedFolder | None = None) -> "Index":
        """Return the index with its rows in memory, unless they exceed `RESIDENT_BYTES`.

        If `mapped` is given, its files hold rows and documents up to 1 GiB each, and vectors.
        Processes share the files.
        """
        most = RESIDENT_BYTES if mapped is None else _MAPPED_BYTES
        read = partial(vector_index.rows_of, self.table, self.row_ids, most)
        if mapped is None:
            return replace(self, rows=read())
        vectors = None if self.vectors is None else mapped.vectors(self.name, self.vectors)
        documents = self.documents and self.documents.for_server(_MAPPED_BYTES, mapped)
        rows = mapped.rows(self.name, read)
        return replace(self, rows=rows, vectors=vectors, documents=documents)

    @property
    def mapped_names(self) -> set[str]:
        """Return the names of the files of `for_server` in a mapped folder."""
        return {self.name, *([self.documents.name] if self.documents else [])}

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def terms(self) -> "_Terms":
        """Return the lexical index. Raise StoreError if there is none."""
        if self._terms is None:
            raise StoreError(f"{table_name(self.table)}: no lexical index; run `rag run` again")
        return self._terms

    @property
    def outdated(self) -> dict[int, str]:
        """Return `DocumentIndex.outdated`, or {} if there is no lexical index."""
        return self._terms.documents.outdated if self._terms is not None else {}

    @property
    def keeps_tokens(self) -> bool:
        """Return whether the table holds token vectors."""
        return self._token_weights is not None

    @property
    def token_weights(self) -> Weights:
        """Return the weight of each token id. Raise StoreError if there are no token vectors."""
        if self._token_weights is None:
            raise StoreError(f"{table_name(self.table)}: no token vectors; run `rag run` again")
        return self._token_weights

    def positions(self, row_ids: vector_index.RowIds) -> Positions:
        """Return the positions of the rows with the given row ids."""
        at = np.searchsorted(self.row_ids, row_ids, sorter=self._by_row_id)
        positions: Positions = self._by_row_id[at]
        return positions

    def matching(self, where: str) -> Mask:
        """Return the mask of the chunks that match a filter in SQL.

        Raise InputError if the filter is invalid, or fails on a chunk that the caller may see.
        """
        allowed = np.zeros(len(self), np.bool_)
        try:
            found = vector_index.matching(self.table, where)
        except InputError:
            if self.visible is None:
                raise
            # A hidden value may be the cause, so only the visible rows decide.
            found = vector_index.matching_among(self.table, self.row_ids[self.visible], where)
        allowed[self.positions(found)] = True
        matching = self.copies_matching(where) if self.copies else ()
        for document_id in {self.copies[copy] for copy in matching if copy in self.copies}:
            allowed |= self.of_document(document_id)
        return allowed if self.visible is None else allowed & self.visible

    def only(self, document_ids: Collection[str]) -> "Index":
        """Return an index that shows only the given documents. Positions do not change.

        The terms and tokens of other documents do not count in any score, except the BM25 scores
        of the engine `lance`.
        """
        import pyarrow.compute as pc

        wanted = pa.array(sorted(document_ids), pa.string())
        shown = pc.is_in(self._document_ids, value_set=wanted)
        visible = shown.to_numpy(zero_copy_only=False)[self.document_of]
        condition = weights = None
        if self.vectors is None:
            lists = self._document_ids.filter(shown), self._document_ids.filter(pc.invert(shown))
            seen, hidden = (id_filter("document_id", ids.to_pylist()) for ids in lists)
            shorter = seen if len(seen) <= len(hidden) else f"NOT {hidden}"
            condition = shorter if len(lists[0]) else "1 = 0"
        if self._token_weights is not None:
            with vector_index.reading(self.table):
                rows = self.table.to_batches(["token_ids"], with_row_id=True)
                weights = token_weights(
                    b.column("token_ids").filter(
                        pa.array(visible[self.positions(b.column("_rowid").to_numpy())])
                    )
                    for b in rows
                )
        shown_ids = frozenset(document_ids)
        return replace(
            self,
            visible=visible,
            condition=condition,
            copies={copy: d for copy, d in self.copies.items() if copy in shown_ids},
            _terms=self._terms and replace(self._terms, lexical=self._terms.lexical.only(wanted)),
            _token_weights=weights,
            language_axes=self._axes(np.flatnonzero(visible)),
        )

    def with_copies(self, chunks: Sequence[ScoredChunk]) -> list[ScoredChunk]:
        """Return the chunks with `copies` set to the ids of the copies of their documents."""
        if not self.copies:
            return list(chunks)
        found: dict[str, list[str]] = {chunk.document_id: [] for chunk in chunks}
        for copy, document_id in self.copies.items():
            if document_id in found:
                found[document_id].append(copy)
        return [replace(chunk, copies=tuple(found[chunk.document_id])) for chunk in chunks]

    def of_document(self, document_id: str) -> Mask:
        """Return the mask of the chunks of one document."""
        import pyarrow.compute as pc

        found: Mask = self.document_of == pc.index(self._document_ids, document_id).as_py()
        return found

    def outside(self, document_ids: Sequence[str]) -> Mask:
        """Return the mask of the chunks of all documents except the given documents."""
        outside = np.ones(len(self), np.bool_)
        for document_id in document_ids:
            outside[self.of_document(document_id)] = False
        return outside

    def at(self, chunk_ids: Sequence[str]) -> Positions:
        """Return each chunk's position. An unknown id gets the position of the next larger id."""
        return np.array(places_in(self._chunk_ids, chunk_ids), np.int64)

    def token_signs(self, chunk_ids: Sequence[str]) -> list[bytes]:
        """Return the packed signs of the chunks' token vectors. All chunks must be in the index."""
        rows = self.take(self.at(chunk_ids), ["token_vectors"])
        found: list[bytes] = rows.column("token_vectors").to_pylist()
        return found

    def take(self, positions: Positions, columns: list[str]) -> pa.Table:
        """Return these columns of the chunks at the given positions, in the given order."""
        if self.rows is not None and {*columns} <= {*self.rows.schema.names}:
            return self.rows.select(columns).take(positions)
        return vector_index.take(self.table, self.row_ids[positions], columns)


@dataclass(frozen=True, slots=True)
class _Terms:
    """A lexical index, with its rows and documents by the positions of the chunks."""

    lexical: LexicalIndex
    rows: Positions
    """The lexical index's row at each position."""
    positions: Positions
    """The position of each row of the lexical index, or -1 for a row without a vector."""
    document_of: Positions
    """The number of the document at each position."""

    @classmethod
    def pair(cls, name: str, chunks: pa.Table, lexical: LexicalIndex) -> "_Terms":
        """Find each chunk of a vector table in its lexical index.

        The lexical index may also have documents on which the embedding model failed. Raises
        StoreError for any other difference.
        """
        import pyarrow.compute as pc

        chunk_ids = chunks.column("chunk_id")
        rows = pc.index_in(chunk_ids, value_set=lexical.chunk_ids)
        known = chunks.column("document_id").combine_chunks()
        inside = pc.is_in(lexical.document_ids, value_set=known)
        others = len(lexical) - pc.sum(inside, min_count=0).as_py()
        if rows.null_count or len(lexical) != len(chunk_ids) + others:
            raise StoreError(
                f"{name} ({len(chunk_ids)} chunks) and its lexical index ({len(lexical)} chunks) "
                f"are from different builds; run `rag run` again"
            )
        at = rows.to_numpy().astype(np.int64)
        positions = np.full(len(lexical), -1, np.int64)
        positions[at] = np.arange(len(at))
        ids = lexical.documents.document_ids
        numbers = pc.index_in(lexical.document_ids, value_set=ids)
        document_of = numbers.to_numpy().astype(np.int64)[at]
        return cls(lexical, at, positions, document_of)

    @property
    def documents(self) -> DocumentIndex:
        """Return the index of documents."""
        return self.lexical.documents

    def search(
        self, query: str, k: int, allowed: Mask | None, also: Positions | None = None
    ) -> tuple[Positions, Floats]:
        """Return the k best chunks by BM25, the ties of the k-th chunk, and the chunks of `also`.

        Chunks with a score of 0 are left out.
        """
        mask = None if allowed is None else allowed[self.positions]
        if len(self.rows) < len(self.positions):
            has_vector = self.positions >= 0
            mask = has_vector if mask is None else mask & has_vector
        found = self.lexical.search_rows(query, k, mask, None if also is None else self.rows[also])
        return self.positions[found.rows], found.scores.astype(np.float64)

    def chunks_of(self, documents: Positions, allowed: Mask | None) -> Positions:
        """Return the positions of the allowed chunks of some documents."""
        wanted = np.zeros(len(self.documents), np.bool_)
        wanted[documents] = True
        chunks = wanted[self.document_of]
        return np.flatnonzero(chunks if allowed is None else chunks & allowed)


def _neighbours(documents: Positions, starts: Positions) -> Positions:
    order = np.lexsort((starts, documents))
    neighbours = np.full((len(order), 2), -1, np.int64)
    together = documents[order[1:]] == documents[order[:-1]]
    before, after = order[:-1][together], order[1:][together]
    neighbours[after, 0] = before
    neighbours[before, 1] = after
    return neighbours


def _resident(
    table: Any, row_ids: vector_index.RowIds, by_row_id: Positions, before: Index | None
) -> Vectors | None:
    dimension = int(table.schema.field("vector").type.list_size)
    if len(row_ids) * dimension * 4 > RESIDENT_BYTES:
        return None
    vectors = np.empty((len(row_ids), dimension), np.float32)
    missing = np.ones(len(row_ids), np.bool_)
    if before is not None and before.vectors is not None:
        common, here, there = np.intersect1d(
            row_ids, before.row_ids, assume_unique=True, return_indices=True
        )
        # A row id consists of the numbers of a fragment and a row. A fragment's files never change.
        files = data_files(before.table)
        same = [n for n, own in data_files(table).items() if files.get(n) == own]
        kept = np.isin(common >> np.uint64(32), np.array(same, np.uint64))
        here, there = here[kept], there[kept]
        missing[here] = False
        if np.count_nonzero(missing) <= _TAKEN:
            for first in range(0, len(here), _TAKEN):
                some = slice(first, first + _TAKEN)
                vectors[here[some]] = before.vectors[there[some]]
            if missing.any():
                rows = vector_index.take(table, row_ids[missing], ["vector"])
                vectors[missing] = vector_index.vectors_of(rows)
            return vectors
    for batch in table.to_batches(["vector"], with_row_id=True):
        rows = pa.Table.from_batches([batch])
        at = np.searchsorted(row_ids, rows.column("_rowid").to_numpy(), sorter=by_row_id)
        vectors[by_row_id[at]] = vector_index.vectors_of(rows)
    return vectors
