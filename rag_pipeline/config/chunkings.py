"""Declare the interface of chunking methods. The package `chunking` implements them."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import CorpusFile, Settings
from rag_pipeline.datamodels import Document, Prompt, Reply, Span, Vectors
from rag_pipeline.errors import ProviderError
from rag_pipeline.imports import CHUNKINGS


class Models(Protocol):
    """The models of a corpus file. The same call is sent and charged only once."""

    @property
    def config(self) -> CorpusFile:
        """Return the corpus file."""

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        """Return the vectors of texts by a variant of `embeddings`, or by the packaged model."""

    def token_starts(self, text: str, embedding: str | None) -> npt.NDArray[np.int64]:
        """Return each token's offset in characters (see `EmbeddingSettings.token_starts`)."""

    def ask(self, prompts: Sequence[Prompt], chat: str) -> list[Reply | ProviderError]:
        """Return for each prompt the reply of a model of `chats`, or the error of the call."""


class ChunkingSettings(Settings):
    """The settings of a method that cuts documents into chunks."""

    any_document: ClassVar[bool] = True
    """Whether the method can cut documents from outside the corpus."""
    method: str

    @abstractmethod
    def spans(self, document: Document, models: Models) -> Iterable[Span]:
        """Return half-open spans of the document's text, in any order. Spans may overlap.

        A DocumentError sends the document to quarantine.
        """

    def covers(self, config: CorpusFile, document_id: str) -> bool:
        """Return whether the method can cut this document."""
        return True


Chunking = Annotated[ChunkingSettings, VariantsOf(CHUNKINGS, "method")]
