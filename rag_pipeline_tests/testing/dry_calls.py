"""The calls that embedding would make, told by a dry run."""

from collections.abc import Sequence
from contextlib import suppress

from rag_pipeline.calls import CallCache
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config.models import Embedder
from rag_pipeline.errors import UnknownReplyError
from rag_pipeline.models.embedding import embed_tokens


def missing_texts(
    texts: Sequence[str],
    embedder: Embedder,
    cache: CallCache,
    documents: Sequence[str] | None = None,
) -> int:
    """Return how many distinct inputs have no vectors in the cache."""
    dry = RecordingCache.of(cache)
    with suppress(UnknownReplyError):
        embed_tokens(texts, embedder, dry, documents=documents)
    return len(dry.missing["embedding"])
