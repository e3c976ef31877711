"""A query -> the ranked chunks of one index, by vectors, by terms or by both."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline import vector_index
from rag_pipeline.config import (
    DenseRetriever,
    HybridRetriever,
    LexicalRetriever,
    MaxSimReranker,
    NoReranker,
    Reranker,
    Retriever,
)
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.embedding import read_tokens
from rag_pipeline.errors import StoreError
from rag_pipeline.fusion import reciprocal_rank_fusion, weighted_fusion
from rag_pipeline.lexical_index import DocumentIndex, LexicalIndex
from rag_pipeline.providers import Vectors
from rag_pipeline.query_analysis import Question, analyse, whole
from rag_pipeline.reranking import Weights, maxsim, token_weights
from rag_pipeline.store import id_filter

_COLUMNS = ["chunk_id", "document_id", "start", "end", "text", "context", "title", "metadata"]
_LEADING_DOCUMENTS = 5
"""Of so many documents chunks are searched for besides those of the whole corpus."""
_LEADING_CHUNKS = 200
"""So many of their chunks are compared; of more, the best by terms and the nearest."""
_UNNAMED_SHARE = 0.25
"""How much of `document_weight` counts where no part of the query names a document."""

_NO_RERANKER = NoReranker(method="none")

Ranking = list[tuple[int, float]]
"""(position, score), best first, ties by position."""
Positions = npt.NDArray[np.int64]
"""Numbers of chunks in an opened index: their places in the order of the chunk ids."""
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class _Nearest(NamedTuple):
    positions: Positions
    similarities: Floats


@dataclass(frozen=True, slots=True)
class Index:
    """A vector table at one version and the lexical index of the same chunks, opened together.

    Safe to share between threads.
    """

    table: Any
    row_ids: vector_index.RowIds
    """LanceDB's row id at each position."""
    _by_row_id: Positions
    _terms: "_Terms | None"
    _token_weights: Weights | None

    @classmethod
    def open(cls, table: Any, lexical: LexicalIndex | None) -> "Index":
        """Pair the two; raise StoreError when they do not hold the same chunks."""
        rows = table.search().select(["chunk_id"]).with_row_id(True).to_arrow().sort_by("chunk_id")
        row_ids = rows.column("_rowid").to_numpy()
        terms = None
        if lexical is not None:
            terms = _Terms.pair(table.name, rows.column("chunk_id"), lexical)
        weights = None
        if "token_ids" in table.schema.names:
            batches = table.search().select(["token_ids"]).to_batches()
            weights = token_weights(batch.column("token_ids") for batch in batches)
        return cls(table, row_ids, np.argsort(row_ids), terms, weights)

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def terms(self) -> "_Terms":
        """Return the lexical part; raise StoreError where there is none."""
        if self._terms is None:
            raise StoreError("this index has no lexical part; run `rag run` again")
        return self._terms

    @property
    def token_weights(self) -> Weights:
        """Return how much each token counts; raise StoreError where no tokens are kept."""
        if self._token_weights is None:
            raise StoreError(f"{self.table.name} has no token vectors; run `rag run` again")
        return self._token_weights

    def positions(self, row_ids: vector_index.RowIds) -> Positions:
        """Return where rows stand."""
        at = np.searchsorted(self.row_ids, row_ids, sorter=self._by_row_id)
        positions: Positions = self._by_row_id[at]
        return positions

    def take(self, positions: Positions, columns: list[str]) -> pa.Table:
        """Read columns of some chunks, in the order of the positions."""
        return vector_index.take(self.table, self.row_ids[positions], columns)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The lexical index, its rows and documents told by the positions of the chunks."""

    lexical: LexicalIndex
    rows: Positions
    """The lexical index's row at each position."""
    positions: Positions
    """The position of each row."""
    document_of: Positions
    """The number of the document at each position; empty without an index of documents."""
    by_document: Positions
    """All positions, document by document."""
    document_starts: Positions
    """Where each document's stretch of `by_document` starts, and the last one's end."""

    @classmethod
    def pair(cls, name: str, chunk_ids: pa.ChunkedArray, lexical: LexicalIndex) -> "_Terms":
        rows = pc.index_in(chunk_ids, value_set=lexical.chunk_ids)
        if len(lexical) != len(chunk_ids) or rows.null_count:
            raise StoreError(
                f"{name} has {len(chunk_ids)} chunks, its lexical index {len(lexical)}: "
                f"they are of different builds; run `rag run` again"
            )
        at = rows.to_numpy().astype(np.int64)
        positions = np.empty_like(at)
        positions[at] = np.arange(len(at))
        document_of = np.empty(0, np.int64)
        documents = 0
        if lexical.documents is not None:
            ids = lexical.documents.document_ids
            documents = len(ids)
            numbers = pc.index_in(lexical.document_ids, value_set=ids)
            document_of = numbers.to_numpy().astype(np.int64)[at]
        by_document = np.argsort(document_of, kind="stable")
        starts = np.searchsorted(document_of[by_document], np.arange(documents + 1))
        return cls(lexical, at, positions, document_of, by_document, starts)

    @property
    def documents(self) -> DocumentIndex:
        """Return the index of documents; raise StoreError where there is none."""
        if self.lexical.documents is None:
            raise StoreError("this index has no index of documents; run `rag run` again")
        return self.lexical.documents

    def search(
        self, query: str, k: int, allowed: Mask | None, also: Positions | None = None
    ) -> tuple[Positions, Floats]:
        """Return chunks with BM25 scores above 0: the k best with ties, and those of `also`."""
        mask = None if allowed is None else allowed[self.positions]
        rows = None if also is None else self.rows[also]
        found = self.lexical.search_rows(query, k, mask, rows)
        return self.positions[found.rows], found.scores.astype(np.float64)

    def chunks_of(self, documents: Positions, allowed: Mask | None) -> Positions:
        """Return the positions of documents' chunks."""
        starts, ends = self.document_starts[documents], self.document_starts[documents + 1]
        parts = [self.by_document[s:e] for s, e in zip(starts, ends, strict=True)]
        chunks = np.concatenate([np.empty(0, np.int64), *parts])
        return chunks if allowed is None else chunks[allowed[chunks]]


def read_question(index: Index, query: str, settings: Retriever) -> Question:
    """Take a query apart as the retriever is set to; embed what it asks, not the whole."""
    if isinstance(settings, HybridRetriever) and settings.split_query:
        return analyse(query, index.terms.documents)
    return whole(query)


class EncodedQuestion(NamedTuple):
    """What `question.ask` was embedded as."""

    vector: Vectors
    """Shape (dimension,)."""
    tokens: bytes = b""


def rank(
    index: Index, question: Question, vector: Vectors, settings: Retriever, where: str | None = None
) -> Ranking:
    """Return at most `top_k` chunks."""
    if isinstance(settings, DenseRetriever):
        return _ranked(*_nearest(index, vector, settings.top_k, where))
    allowed = _allowed(index, where)
    if isinstance(settings, LexicalRetriever):
        found = index.terms.search(question.ask, settings.top_k, allowed)
        return _ranked(*found)[: settings.top_k]
    if settings.fusion == "weighted":
        return _weighted(index, question, vector, settings, where, allowed)[: settings.top_k]
    wanted = max(settings.candidates, settings.top_k)
    rankings = [
        _ranked(*_nearest(index, vector, wanted, where)),
        _ranked(*index.terms.search(question.ask, wanted, allowed))[:wanted],
    ]
    weights = [settings.dense_weight, settings.lexical_weight]
    return reciprocal_rank_fusion(rankings, settings.rrf_k, weights)[: settings.top_k]


def retrieve(
    index: Index,
    question: Question,
    encoded: EncodedQuestion,
    settings: Retriever,
    reranker: Reranker = _NO_RERANKER,
    where: str | None = None,
) -> list[ScoredChunk]:
    """Return the `top_n` (else `top_k`) best chunks, best first.

    `where` is a filter in LanceDB's SQL over the index's columns, applied before any search ranks
    anything.
    """
    if isinstance(reranker, MaxSimReranker):
        deep = max(settings.top_k, reranker.candidates)
        wider = settings.model_copy(update={"top_k": deep})
        ranking = rank(index, question, encoded.vector, wider, where)
        if getattr(settings, "fusion", None) != "weighted":
            ranking = weighted_fusion([ranking], [1.0])
        ranking = rerank(index, ranking, encoded, reranker)[: settings.top_k]
    else:
        ranking = rank(index, question, encoded.vector, settings, where)
    return load_chunks(index, ranking[: settings.top_n or settings.top_k])


def rerank(
    index: Index, ranking: Ranking, encoded: EncodedQuestion, settings: MaxSimReranker
) -> Ranking:
    """Add the first candidates' MaxSim to their scores; the others follow in their order."""
    tokens = read_tokens(encoded.tokens, len(encoded.vector))
    positions = np.array([position for position, _ in ranking], np.int64)
    scores = np.array([score for _, score in ranking]) * (1 - settings.weight)
    first = positions[: settings.candidates]
    if len(first):
        column = index.take(first, ["token_vectors"]).column("token_vectors").combine_chunks()
        late = maxsim(tokens, column, index.token_weights)
        spread = late.max() - late.min()
        if spread > 0:
            scores[: len(first)] += settings.weight * (late - late.min()) / spread
    return _ranked(positions, scores)


def _weighted(
    index: Index,
    question: Question,
    vector: Vectors,
    settings: HybridRetriever,
    where: str | None,
    allowed: Mask | None,
) -> Ranking:
    """Score every candidate by both searches, and add its document's score.

    Candidates are the best of each search, and the chunks of the leading documents.
    """
    terms = index.terms
    wanted = max(settings.candidates, settings.top_k)
    near = _nearest(index, vector, wanted, where)
    documents = leading = np.empty(0, np.int64)
    bonus = np.empty(0)
    if settings.document_weight:
        share = 1.0 if question.names_document else _UNNAMED_SHARE
        scores = terms.documents.scores(question.name)
        bonus = settings.document_weight * share * scores.astype(np.float64)
        documents = _best(bonus, _LEADING_DOCUMENTS)
        leading = terms.chunks_of(documents, allowed)
    also = np.union1d(near.positions, leading)
    found, bm25 = terms.search(question.ask, wanted, allowed, also)
    by_terms = np.zeros(len(index))
    by_terms[found] = bm25
    chosen = _best_of(found, bm25, wanted)
    if len(leading) > _LEADING_CHUNKS:
        inside = id_filter("document_id", terms.documents.document_ids.take(documents).to_pylist())
        both = f"({where}) AND {inside}" if where else inside
        near = _joined(near, _nearest(index, vector, wanted, both))
        leading = _best_of(leading, by_terms[leading], _LEADING_CHUNKS)
    positions = np.unique(np.concatenate([chosen, near.positions, leading]))
    similarities = _similarities(index, vector, positions, near)
    fused = weighted_fusion(
        [_ranked(positions, similarities), _ranked(positions, by_terms[positions])],
        [settings.dense_weight, settings.lexical_weight],
    )
    if not settings.document_weight:
        return fused
    places = np.array([position for position, _ in fused], np.int64)
    sums = np.array([score for _, score in fused])
    return _ranked(places, sums + bonus[terms.document_of[places]])


def _nearest(index: Index, vector: Vectors, k: int, where: str | None) -> _Nearest:
    found = vector_index.search(index.table, vector, k, where)
    positions = index.positions(found.column("_rowid").to_numpy())
    return _Nearest(positions, 1.0 - found.column("_distance").to_numpy().astype(np.float64))


def _similarities(index: Index, vector: Vectors, positions: Positions, known: _Nearest) -> Floats:
    """Return the cosine at ascending positions, reading the vectors where it is not known."""
    cosines = np.full(len(positions), np.nan)
    cosines[np.searchsorted(positions, known.positions)] = known.similarities
    missing = np.flatnonzero(np.isnan(cosines))
    if len(missing):
        vectors = vector_index.vectors_of(index.take(positions[missing], ["vector"]))
        unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
        cosines[missing] = vectors @ unit
    return cosines


def _joined(one: _Nearest, other: _Nearest) -> _Nearest:
    positions, first = np.unique(
        np.concatenate([one.positions, other.positions]), return_index=True
    )
    return _Nearest(positions, np.concatenate([one.similarities, other.similarities])[first])


def _allowed(index: Index, where: str | None) -> Mask | None:
    if where is None:
        return None
    allowed = np.zeros(len(index), np.bool_)
    allowed[index.positions(vector_index.matching(index.table, where))] = True
    return allowed


def _best(scores: npt.NDArray[np.floating[Any]], k: int) -> Positions:
    """Return where the k highest scores above 0 stand."""
    return _best_of(np.flatnonzero(scores > 0), scores[scores > 0], k)


def _best_of(positions: Positions, scores: npt.NDArray[np.floating[Any]], k: int) -> Positions:
    """Return the positions of the k highest scores, ties by position."""
    return positions[np.lexsort((positions, -scores))[:k]]


def _ranked(positions: Positions, scores: Floats) -> Ranking:
    order = np.lexsort((positions, -scores))
    return list(zip(positions[order].tolist(), scores[order].tolist(), strict=True))


def load_chunks(index: Index, ranking: Ranking) -> list[ScoredChunk]:
    """Read the ranked chunks' rows, in the ranking's order."""
    if not ranking:
        return []
    positions = np.array([position for position, _ in ranking], np.int64)
    rows = index.take(positions, _COLUMNS).drop_columns("_rowid").to_pylist()
    return [_scored(row, score) for row, (_, score) in zip(rows, ranking, strict=True)]


def _scored(row: dict[str, Any], score: float) -> ScoredChunk:
    metadata = parse_metadata(row.pop("metadata"))
    row["context"] = row["context"] or ""
    return ScoredChunk(**row, score=score, metadata=metadata)


def parse_metadata(value: Any) -> dict[str, Any]:
    """Return a metadata column's value as a dictionary."""
    parsed = json.loads(value) if value else {}
    return parsed if isinstance(parsed, dict) else {}
