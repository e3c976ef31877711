"""Document + chunks -> the short context that is put before each chunk when it is indexed."""

from collections.abc import Sequence

from rag_pipeline.config import Contextualizer, NoContext
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document


def contextualize(
    document: Document, chunks: Sequence[Chunk], settings: Contextualizer
) -> list[ContextualizedChunk]:
    """Return the chunks with their contexts, in their order."""
    context = "" if isinstance(settings, NoContext) else document.title[: settings.max_characters]
    return [ContextualizedChunk(chunk, context) for chunk in chunks]
