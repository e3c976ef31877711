"""Texts -> vectors, and vectors of their tokens, each distinct text embedded once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.calls import CallCache, CallCounts, call_key
from rag_pipeline.errors import ProviderError
from rag_pipeline.progress import advance
from rag_pipeline.providers import Embedder, InputType, TokenEmbedder, Tokens, Vectors


class Embedded(NamedTuple):
    """What a model made of some texts, in their order."""

    vectors: Vectors
    """Shape (texts, dimension), unit length."""
    tokens: Sequence[bytes]
    """Each text's tokens, packed: see `read_signs` for documents and `read_tokens` for queries.

    Empty bytes of a model that tells none.
    """


def embed(
    texts: Sequence[str],
    embedder: Embedder,
    cache: CallCache,
    input_type: InputType = "document",
    counts: CallCounts | None = None,
) -> Vectors:
    """Return the texts' vectors, shape (texts, dimension), unit length: see `embed_tokens`."""
    return embed_tokens(texts, embedder, cache, input_type, counts).vectors


def embed_tokens(
    texts: Sequence[str],
    embedder: Embedder,
    cache: CallCache,
    input_type: InputType = "document",
    counts: CallCounts | None = None,
) -> Embedded:
    """Return the texts' vectors and packed tokens.

    Texts that were embedded before, or stand here twice, are not sent again; each request's
    vectors are committed before the next one. Raises ProviderError when the model returns vectors
    of a wrong count, dimension or value.
    """
    keys = _keys(texts, embedder, input_type)
    distinct = dict(zip(keys, texts, strict=True))
    known = cache.get(list(distinct))
    missing = [key for key in distinct if key not in known]
    advance("texts", len(texts) - len(missing))
    sent = [distinct[key] for key in missing]
    for batch in embedder.batches(sent):
        made = request([sent[i] for i in batch], embedder, input_type)
        answers = {
            missing[i]: vector.tobytes() + tokens
            for i, vector, tokens in zip(batch, made.vectors, made.tokens, strict=True)
        }
        cache.put(answers)
        known.update(answers)
        advance("texts", len(batch))
    if counts is not None:
        counts.add(CallCounts(made=len(missing), saved=len(texts) - len(missing)))
    values = [known[key] for key in keys]
    size = embedder.dimension * 4
    flat = np.frombuffer(b"".join(value[:size] for value in values), np.float32)
    vectors = flat.reshape(len(texts), embedder.dimension)
    return Embedded(vectors, [value[size:] for value in values])


def request(texts: Sequence[str], embedder: Embedder, input_type: InputType) -> Embedded:
    """Embed the texts of one request, past the cache."""
    if not isinstance(embedder, TokenEmbedder):
        vectors = embedder.embed(texts, input_type)
        _check(vectors, len(texts), embedder)
        return Embedded(vectors, [b""] * len(texts))
    vectors, tokens = embedder.embed_tokens(texts, input_type)
    _check(vectors, len(texts), embedder)
    pack = _pack_signs if input_type == "document" else _pack_tokens
    return Embedded(vectors, [pack(t) for t in tokens])


def missing_texts(texts: Sequence[str], embedder: Embedder, cache: CallCache) -> int:
    """Return how many distinct texts `embed` would send."""
    keys = list(dict.fromkeys(_keys(texts, embedder, "document")))
    return len(keys) - len(cache.known(keys))


def read_signs(packed: bytes, dimension: int) -> tuple[npt.NDArray[np.uint32], bytes]:
    """Return a document's token ids, and one bit per token and dimension: whether it is above 0."""
    count = len(packed) // (4 + dimension // 8)
    return np.frombuffer(packed, np.uint32, count), packed[4 * count :]


def read_tokens(packed: bytes, dimension: int) -> Tokens:
    """Return a query's tokens."""
    count = len(packed) // (4 + 2 * dimension)
    vectors = np.frombuffer(packed, np.float16, offset=4 * count).reshape(count, dimension)
    return Tokens(np.frombuffer(packed, np.uint32, count), vectors.astype(np.float32))


def _pack_signs(tokens: Tokens) -> bytes:
    return tokens.ids.tobytes() + np.packbits(tokens.vectors > 0, axis=1).tobytes()


def _pack_tokens(tokens: Tokens) -> bytes:
    return tokens.ids.tobytes() + tokens.vectors.astype(np.float16).tobytes()


def _keys(texts: Sequence[str], embedder: Embedder, input_type: InputType) -> list[bytes]:
    return [call_key(f"embed:{input_type}", embedder.identity, text) for text in texts]


def _check(vectors: Vectors, count: int, embedder: Embedder) -> None:
    if vectors.shape != (count, embedder.dimension):
        raise ProviderError(
            f"{embedder.identity}: expected vectors of shape ({count}, {embedder.dimension}), "
            f"got {vectors.shape}"
        )
    if not np.isfinite(vectors).all():
        raise ProviderError(f"{embedder.identity}: returned a vector that is not finite")
