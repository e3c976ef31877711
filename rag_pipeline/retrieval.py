"""A query -> the ranked chunks of one index, by vectors, by terms or by both."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline import vector_index
from rag_pipeline.config import DenseRetriever, HybridRetriever, LexicalRetriever, Retriever
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.errors import StoreError
from rag_pipeline.fusion import reciprocal_rank_fusion, weighted_fusion
from rag_pipeline.lexical_index import LexicalIndex
from rag_pipeline.providers import Vectors

_COLUMNS = ["chunk_id", "document_id", "start", "end", "text", "context", "title", "metadata"]
Ranking = list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Index:
    """A vector table at one version and the lexical index of the same chunks, opened together."""

    table: Any
    lexical: LexicalIndex | None
    rows: dict[str, int]
    """LanceDB's row id of each chunk id."""

    @classmethod
    def open(cls, table: Any, lexical: LexicalIndex | None) -> "Index":
        """Pair the two; raise StoreError when they do not hold the same number of chunks."""
        ids = table.search().select(["chunk_id"]).with_row_id(True).to_arrow()
        if lexical is not None and len(lexical) != ids.num_rows:
            raise StoreError(
                f"{table.name} has {ids.num_rows} chunks, its lexical index {len(lexical)}: "
                f"they are of different builds; run `rag run` again"
            )
        keys = ids.column("chunk_id").to_pylist()
        return cls(table, lexical, dict(zip(keys, ids.column("_rowid").to_pylist(), strict=True)))


def rank(
    index: Index, query: str, vector: Vectors, settings: Retriever, where: str | None = None
) -> Ranking:
    """Return at most `top_k` (chunk id, score), best first."""
    if isinstance(settings, DenseRetriever):
        return _dense(index, vector, settings.top_k, where)
    allowed = None if where is None else vector_index.matching(index.table, where)
    if isinstance(settings, LexicalRetriever):
        return _lexical(index, query, settings.top_k, allowed)
    wanted = max(settings.candidates, settings.top_k)
    rankings = [_dense(index, vector, wanted, where), _lexical(index, query, wanted, allowed)]
    weights = [settings.dense_weight, settings.lexical_weight]
    return _fuse(settings, rankings, weights)[: settings.top_k]


def retrieve(
    index: Index, query: str, vector: Vectors, settings: Retriever, where: str | None = None
) -> list[ScoredChunk]:
    """Return the `top_n` (else `top_k`) best chunks, best first.

    `vector` is the query's embedding, shape (dimension,); `where` a filter in LanceDB's SQL over
    the index's columns, applied before either search ranks anything.
    """
    ranking = rank(index, query, vector, settings, where)
    return load_chunks(index, ranking[: settings.top_n or settings.top_k])


def load_chunks(index: Index, ranking: Ranking) -> list[ScoredChunk]:
    """Read the ranked chunks' rows, in the ranking's order."""
    if not ranking:
        return []
    row_ids = [index.rows[chunk_id] for chunk_id, _ in ranking]
    taken = index.table.take_row_ids(row_ids).select(_COLUMNS).to_arrow().to_pylist()
    by_id = {row["chunk_id"]: row for row in taken}
    return [_scored(by_id[chunk_id], score) for chunk_id, score in ranking]


def _scored(row: dict[str, Any], score: float) -> ScoredChunk:
    metadata = parse_metadata(row.pop("metadata"))
    row["context"] = row["context"] or ""
    return ScoredChunk(**row, score=score, metadata=metadata)


def parse_metadata(value: Any) -> dict[str, Any]:
    """Return a metadata column's value as a dictionary."""
    import json

    parsed = json.loads(value) if value else {}
    return parsed if isinstance(parsed, dict) else {}


def _dense(index: Index, vector: Vectors, k: int, where: str | None) -> Ranking:
    found = vector_index.search(index.table, vector, k, where)
    similarity = 1.0 - found.column("_distance").to_numpy()
    return list(zip(found.column("chunk_id").to_pylist(), similarity.tolist(), strict=True))


def _lexical(index: Index, query: str, k: int, allowed: pa.Array | None) -> Ranking:
    if index.lexical is None:
        raise StoreError("this index has no lexical part; run `rag run` again")
    mask: npt.NDArray[np.bool_] | None = None
    if allowed is not None:
        mask = index.lexical.mask(allowed)
    return index.lexical.search(query, k, mask)


def _fuse(settings: HybridRetriever, rankings: list[Ranking], weights: list[float]) -> Ranking:
    if settings.fusion == "rrf":
        return reciprocal_rank_fusion(rankings, k=settings.rrf_k, weights=weights)
    return weighted_fusion(rankings, weights)
