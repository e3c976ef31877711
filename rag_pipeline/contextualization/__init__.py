"""Document + chunks -> the short context that each chunk is indexed with."""

from collections.abc import Sequence

from rag_pipeline.chunking import NoCorpus
from rag_pipeline.config import ContextualizerSettings, Models
from rag_pipeline.contextualization.llm import context_prompts as context_prompts
from rag_pipeline.contextualization.llm import contextualize_with_model as contextualize_with_model
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document


def contextualize(
    document: Document,
    chunks: Sequence[Chunk],
    settings: ContextualizerSettings,
    models: Models | None = None,
) -> list[ContextualizedChunk]:
    """Return the chunks, in their order, each with its context ("" for `none`).

    Only methods that ask a model need the `models` of a corpus. Raises ProviderError if one fails.
    """
    contexts = settings.contexts(document, chunks, models or NoCorpus())
    return [ContextualizedChunk(*pair) for pair in zip(chunks, contexts, strict=True)]
