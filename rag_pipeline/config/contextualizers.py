"""What a method that writes chunks' contexts promises; the methods stand in `contextualization`."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.plugins import CONTEXTUALIZERS, VariantsOf
from rag_pipeline.config.settings import CorpusFile, Settings
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document
from rag_pipeline.errors import CallsStoppedError, ProviderError

Chunked = tuple[Document, Sequence[Chunk]]
"""A document with its chunks in the order of their offsets."""
Outcome = tuple[Document, list[ContextualizedChunk] | ProviderError]
"""A document with its contextualized chunks, or with the error that it failed with."""


class ContextualizerSettings(Settings):
    """A method that writes what is put before each chunk when it is indexed."""

    method: str

    @abstractmethod
    def contexts(self, document: Document, chunks: Sequence[Chunk], models: Models) -> list[str]:
        """Return the context of each chunk, in their order; "" for none.

        Raises ProviderError where a model fails on the document; it is tried again in the next
        run, and the others go on.
        """

    def contextualize(self, documents: Iterable[Chunked], models: Models) -> Iterator[Outcome]:
        """Yield what came of each document; a method may ask a model about many at a time."""
        for document, chunks in documents:
            try:
                pairs = zip(chunks, self.contexts(document, chunks, models), strict=True)
                made = [ContextualizedChunk(*pair) for pair in pairs]
            except CallsStoppedError:
                raise
            except ProviderError as error:
                yield document, error
            else:
                yield document, made

    def is_too_long(self, document: Document, chunks: Sequence[Chunk], c: CorpusFile) -> bool:
        """Return whether a model can't read the document as a whole; such are counted."""
        return False


Contextualizer = Annotated[ContextualizerSettings, VariantsOf(CONTEXTUALIZERS, "method")]
