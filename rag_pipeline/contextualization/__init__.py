"""Write a short context for each chunk, which is indexed with the chunk."""

from collections.abc import Sequence

from rag_pipeline.chunking import NoCorpus
from rag_pipeline.config import ContextualizerSettings, Models
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document


def contextualize(
    document: Document,
    chunks: Sequence[Chunk],
    settings: ContextualizerSettings,
    models: Models | None = None,
) -> list[ContextualizedChunk]:
    """Return the chunks in the same order, each with its context.

    `models` is required only if the method calls a model. Raise ProviderError if a model fails.
    """
    contexts = settings.contexts(document, chunks, models or NoCorpus())
    return [ContextualizedChunk(*pair) for pair in zip(chunks, contexts, strict=True)]
