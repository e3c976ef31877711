"""Rank the chunks of an index by a retriever's settings, rerank them by tokens, read them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rag_pipeline.config import RetrieverSettings
from rag_pipeline.datamodels import ScoredChunk, parse_metadata
from rag_pipeline.errors import ConfigError
from rag_pipeline.models.embedding import read_tokens
from rag_pipeline.models.providers import Vectors
from rag_pipeline.search.index import Index, Mask, Positions
from rag_pipeline.search.nearest import Ranking, positions_of, ranked
from rag_pipeline.search.query_analysis import Question
from rag_pipeline.search.reranking import maxsim
from rag_pipeline.search.reranking.late_interaction import MaxSimReranker
from rag_pipeline.search.retrievers import Search, SinglePassRetriever

COLUMNS = ("chunk_id", "document_id", "start", "end", "text", "context", "title", "metadata")
"""Columns of the vector table that a `ScoredChunk` is made of."""


class EncodedQuestion(NamedTuple):
    """What `question.ask` was embedded as."""

    vector: Vectors
    """Shape (dimension,)."""
    tokens: bytes = b""


def rank(
    index: Index,
    question: Question,
    vector: Vectors,
    settings: SinglePassRetriever,
    where: str | None = None,
    allowed: Mask | None = None,
    depth: int | None = None,
) -> Ranking:
    """Return the first `depth` chunks, by default `top_k`.

    `allowed` are the chunks that `where` keeps, if they are known. A deeper ranking starts with
    the shorter one. Raises ConfigError for a ranking that is none: a chunk stands in it twice or
    in no index, scores are no numbers or rise.
    """
    depth = depth or settings.top_k
    ranking = settings.rank(Search(index, question, vector, where, allowed), depth)[:depth]
    _check(ranking, len(index), settings)
    return ranking


def _check(ranking: Ranking, size: int, settings: RetrieverSettings) -> None:
    positions, scores = positions_of(ranking), np.array([score for _, score in ranking])
    wrong = None
    if len(np.unique(positions)) < len(positions):
        wrong = "a chunk stands in its ranking twice"
    elif len(positions) and not 0 <= positions.min() <= positions.max() < size:
        wrong = f"its ranking names a position that is none of the index's, 0 to {size - 1}"
    elif not np.isfinite(scores).all() or (np.diff(scores) > 0).any():
        wrong = "the scores of its ranking are not finite, or one is higher than the one before"
    if wrong:
        raise ConfigError(f"the retriever of method {settings.method!r}: {wrong}; repair its code")


def on_one_scale(ranking: Ranking, settings: SinglePassRetriever, depth: int) -> Ranking:
    """Return the ranking with scores that can be mixed with those of other models (0..1).

    Scores that are `on_one_scale` already stay. Others are scaled so that the first
    `depth` chunks run from 1 to 0; what follows them lies below.
    """
    if settings.on_one_scale or not ranking:
        return ranking
    high, low = ranking[0][1], ranking[:depth][-1][1]
    if high == low:
        return [(position, 1.0 if score == high else 0.0) for position, score in ranking]
    return [(position, (score - low) / (high - low)) for position, score in ranking]


class Candidates(NamedTuple):
    """Rows of the table that were read at once."""

    positions: Positions
    rows: pa.Table


def read_candidates(index: Index, ranking: Ranking, columns: Sequence[str]) -> Candidates:
    """Read columns of the ranked chunks."""
    positions = positions_of(ranking)
    rows = index.take(positions, list(columns)) if len(positions) else pa.table({})
    return Candidates(positions, rows)


def rerank(
    index: Index,
    ranking: Ranking,
    encoded: EncodedQuestion,
    settings: MaxSimReranker,
    read: Candidates,
) -> Ranking:
    """Add MaxSim to the scores of the first candidates, whose token vectors were `read`.

    The others follow in their order.
    """
    tokens = read_tokens(encoded.tokens, len(encoded.vector))
    positions = positions_of(ranking)
    scores = np.array([score for _, score in ranking]) * (1 - settings.weight)
    if len(read.positions):
        column = read.rows.column("token_vectors").combine_chunks()
        late = maxsim(tokens, column, index.token_weights)
        spread = late.max() - late.min()
        if spread > 0:
            scores[: len(late)] += settings.weight * (late - late.min()) / spread
    return ranked(positions, scores)


def load_chunks(
    index: Index, ranking: Ranking, known: Candidates | None = None
) -> list[ScoredChunk]:
    """Return the ranked chunks, in the ranking's order; read the rows that are not `known`."""
    if not ranking:
        return []
    positions = positions_of(ranking)
    if known is None or not len(known.positions):
        rows = index.take(positions, list(COLUMNS)).select(COLUMNS)
    else:
        read, rows = known.positions, known.rows.select(COLUMNS)
        missing = np.setdiff1d(positions, read)
        if len(missing):
            read = np.concatenate([read, missing])
            more = index.take(missing, list(COLUMNS)).select(COLUMNS)
            rows = pa.concat_tables([rows, more], promote_options="permissive")
        order = np.argsort(read)
        rows = rows.take(order[np.searchsorted(read, positions, sorter=order)])
    return [_scored(row, score) for row, (_, score) in zip(rows.to_pylist(), ranking, strict=True)]


def _scored(row: dict[str, Any], score: float) -> ScoredChunk:
    metadata = parse_metadata(row.pop("metadata"))
    row["context"] = row["context"] or ""
    return ScoredChunk(**row, score=score, metadata=metadata)
