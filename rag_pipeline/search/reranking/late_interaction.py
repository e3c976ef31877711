"""Score chunks for a query by their token vectors (late interaction)."""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

if TYPE_CHECKING:
    import onnxruntime

from rag_pipeline.config.models import Tokens
from rag_pipeline.config.rerankers import RerankerSettings
from rag_pipeline.datamodels import Weights as Weights
from rag_pipeline.models.providers.packaged import Graph, open_session

_TOKENS_AT_ONCE = 8192
"""Number of tokens that are unpacked at once, to 3 MB."""
_BLOCK = 24
"""Number of tokens in a block. A window of two blocks starts at each block."""
_PRODUCT_SIZE = 1 << 18
"""Above this number of multiplications, OpenBLAS starts threads, which take longer."""
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
"""The bits of each byte."""

MaxSimScores = npt.NDArray[np.float64]


class MaxSimReranker(RerankerSettings):
    """A reranker by late interaction over token vectors. The embedding needs `token_vectors`.

    Each of the `candidates` best chunks gets the score (1 - weight) x retriever's score + weight x
    MaxSim. Both scores are scaled to 0..1, but scores of `weighted` fusion keep their scale.
    """

    code_version = 4
    compares_tokens: ClassVar[bool] = True
    method: Literal["maxsim"]
    weight: float = Field(default=0.5, ge=0.0, le=1.0)
    candidates: int = Field(default=100, ge=1, le=1000)


def token_weights(token_ids: Iterable[pa.Array]) -> Weights:
    """Return the weight of each token by its id. Larger ids have the weight of the last entry.

    `token_ids` are batches of a column with the distinct token ids of each chunk. A token in n of N
    chunks has the weight ln(1 + (N - n + 0.5) / (n + 0.5)), as in BM25.
    """
    chunks = 0
    holding = np.zeros(1, np.int64)
    for column in token_ids:
        chunks += len(column)
        counts = np.bincount(_flat(column)[0].view(np.uint32))
        if len(counts) >= len(holding):
            holding = np.pad(holding, (0, len(counts) + 1 - len(holding)))
        holding[: len(counts)] += counts
    weights: Weights = np.log(1 + (chunks - holding + 0.5) / (holding + 0.5)).astype(np.float32)
    return weights


def maxsim(query: Tokens, token_vectors: pa.Array, weights: Weights) -> MaxSimScores:
    """Return each chunk's MaxSim score for the query, shape (chunks,).

    The score is the mean of the scores of two parts: the whole chunk, and its best window of 48
    tokens. The score of a part is a mean over the query's tokens, weighted by `weights`. Each token
    counts with its highest cosine to a token of the part. A chunk's token is a vector of signs (+1
    or -1). A query's numbers are rounded to 8 bits. The score is 0 if the chunk or the query has no
    tokens.

    Source: ColBERT (Khattab & Zaharia, SIGIR 2020).
    """
    scores = np.zeros(len(token_vectors))
    importance = weights[np.minimum(query.ids, len(weights) - 1)].astype(np.float64)
    if not importance.sum():
        return scores
    importance /= importance.sum()
    dimension = query.vectors.shape[1]
    # Products of 8-bit numbers take a third of the time of floats.
    scale = np.abs(query.vectors).max(axis=1) / 127
    columns = np.rint(query.vectors.T / scale).astype(np.int8)
    # q . sign = 2 (q . bit) - sum(q), where a sign is +1 or -1 and its bit is 1 or 0
    offsets = columns.sum(axis=0, dtype=np.int32) * scale
    data, ends = _flat(token_vectors)
    ends = ends // (dimension // 8)
    filled = np.flatnonzero(np.diff(ends))
    if not len(filled):
        return scores
    products = _products(data.reshape(-1, dimension // 8), columns)
    blocks = [np.arange(*span, _BLOCK) for span in zip(ends[filled], ends[filled + 1], strict=True)]
    nearest = np.maximum.reduceat(products, np.concatenate(blocks), axis=0) * scale
    at = np.concatenate([[0], np.cumsum([len(one) for one in blocks])[:-1]])
    windows = nearest.copy()
    windows[:-1] = np.maximum(nearest[:-1], nearest[1:])
    ends_of_chunks = np.append(at[1:], len(nearest)) - 1
    windows[ends_of_chunks] = nearest[ends_of_chunks]
    whole = np.maximum.reduceat(nearest, at, axis=0) @ importance
    closest = np.maximum.reduceat(windows @ importance, at)
    cosine_of = 2 / np.sqrt(dimension)
    scores[filled] = cosine_of * ((whole + closest) / 2 - offsets @ importance / 2)
    return scores


def _products(signs: npt.NDArray[np.uint8], columns: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """Return the sum of each column over each token's bits, shape (tokens, columns)."""
    parts = [signs[at : at + _TOKENS_AT_ONCE] for at in range(0, len(signs), _TOKENS_AT_ONCE)]
    bits = (np.unpackbits(part, axis=1) for part in parts)
    made = [_multiplier().run(None, {"bits": one, "columns": columns})[0] for one in bits]
    sums: npt.NDArray[np.int32] = np.concatenate(made)
    return sums


@cache
def _multiplier() -> "onnxruntime.InferenceSession":
    graph = Graph()
    product = graph.node("MatMulInteger", ["bits", "columns"])
    return open_session(graph.model({"bits": "uint8", "columns": "int8"}, product, "int32"))


def unpacked(packed: npt.NDArray[np.uint8], dimension: int) -> npt.NDArray[np.float32]:
    """Return packed bits as 1.0 and 0.0, shape (tokens, dimension)."""
    # A lookup of each byte's bits takes half the time of `unpackbits` and `astype`.
    bits: npt.NDArray[np.float32] = np.take(_BITS, packed.ravel(), axis=0)
    return bits.reshape(-1, dimension)


def small_products(
    rows: npt.NDArray[np.float32], columns: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return rows @ columns, computed in blocks that are small enough for one thread."""
    dimension, width = columns.shape
    height = max(_PRODUCT_SIZE // (dimension * width), 1)
    whole = len(rows) // height * height
    stacked = rows[:whole].reshape(-1, height, dimension) @ columns
    products: npt.NDArray[np.float32] = np.concatenate(
        [stacked.reshape(whole, width), rows[whole:] @ columns]
    )
    return products


def _flat(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return a binary column's bytes, and the offsets of its values, shape (rows + 1,)."""
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    if data is None or not len(starts):
        return np.empty(0, np.uint8), np.zeros(len(column) + 1, np.int64)
    values = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]
    return values, (starts - starts[0]).astype(np.int64)
