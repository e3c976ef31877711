"""Declare the interface of contextualizers. The package `contextualization` implements it."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import CorpusFile, Settings
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document
from rag_pipeline.errors import CallsStoppedError, ProviderError
from rag_pipeline.imports import CONTEXTUALIZERS

Chunked = tuple[Document, Sequence[Chunk]]
"""A document and its chunks, ordered by offset."""
Outcome = tuple[Document, list[ContextualizedChunk] | ProviderError]
"""A document and its contextualized chunks, or its error."""


class ContextualizerSettings(Settings):
    """The settings of a method that writes the context of each chunk."""

    method: str

    @abstractmethod
    def contexts(self, document: Document, chunks: Sequence[Chunk], models: Models) -> list[str]:
        """Return the context of each chunk in order, or "" for a chunk without context.

        After a ProviderError, only this document fails. The next run tries the document again.
        """

    def contextualize(self, documents: Iterable[Chunked], models: Models) -> Iterator[Outcome]:
        """Yield each document's outcome. A method may send prompts for many documents together."""
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
        """Return whether the document exceeds the model's context window. Runs report this."""
        return False


Contextualizer = Annotated[ContextualizerSettings, VariantsOf(CONTEXTUALIZERS, "method")]
