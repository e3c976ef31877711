"""Texts -> vectors, each distinct text embedded once."""

from collections.abc import Sequence

import numpy as np

from rag_pipeline.calls import CallCache, CallCounts, call_key
from rag_pipeline.errors import ProviderError
from rag_pipeline.progress import advance
from rag_pipeline.providers import Embedder, InputType, Vectors


def embed(
    texts: Sequence[str],
    embedder: Embedder,
    cache: CallCache,
    input_type: InputType = "document",
    counts: CallCounts | None = None,
) -> Vectors:
    """Return the texts' vectors, shape (texts, dimension), unit length.

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
        vectors = embedder.embed([sent[i] for i in batch], input_type)
        _check(vectors, len(batch), embedder)
        answers = {missing[i]: row.tobytes() for i, row in zip(batch, vectors, strict=True)}
        cache.put(answers)
        known.update(answers)
        advance("texts", len(batch))
    if counts is not None:
        counts.add(CallCounts(made=len(missing), saved=len(texts) - len(missing)))
    flat = np.frombuffer(b"".join(known[key] for key in keys), np.float32)
    return flat.reshape(len(texts), embedder.dimension)


def missing_texts(texts: Sequence[str], embedder: Embedder, cache: CallCache) -> int:
    """Return how many distinct texts `embed` would send."""
    keys = list(dict.fromkeys(_keys(texts, embedder, "document")))
    return len(keys) - len(cache.known(keys))


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
