"""Document + chunks -> the short context that is put before each chunk when it is indexed."""

from collections.abc import Sequence

from rag_pipeline.config import NoContext, StructuralContext
from rag_pipeline.contextualization.llm import (
    Contextualized,
    context_prompts,
    contextualize_with_model,
    is_too_long,
)
from rag_pipeline.contextualization.structural import structural_contexts
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document

__all__ = [
    "Contextualized",
    "context_prompts",
    "contextualize",
    "contextualize_with_model",
    "is_too_long",
]


def contextualize(
    document: Document, chunks: Sequence[Chunk], settings: NoContext | StructuralContext
) -> list[ContextualizedChunk]:
    """Return the chunks, in their order, each with its context (empty for `none`).

    Free of charge; for contexts by a chat model see `contextualize_with_model`.
    """
    if isinstance(settings, NoContext):
        return [ContextualizedChunk(chunk, "") for chunk in chunks]
    contexts = structural_contexts(document, chunks, settings)
    return [ContextualizedChunk(*pair) for pair in zip(chunks, contexts, strict=True)]
