"""What a method that cuts documents into chunks promises; the methods stand in `chunking`."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from rag_pipeline.config.plugins import CHUNKINGS, VariantsOf
from rag_pipeline.config.settings import CorpusFile, Settings
from rag_pipeline.datamodels import Document, Prompt, Reply, Span, Vectors
from rag_pipeline.errors import ProviderError


class Models(Protocol):
    """The models of a corpus file: each distinct call is made once, counted and paid for."""

    @property
    def config(self) -> CorpusFile:
        """Return the corpus file."""

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        """Embed texts with a variant of `embeddings`, with the packaged model for None."""

    def token_starts(self, text: str, embedding: str | None) -> npt.NDArray[np.int64]:
        """Return where each token starts by the tokenizer of a variant of `embeddings`."""

    def ask(self, prompts: Sequence[Prompt], chat: str) -> list[Reply | ProviderError]:
        """Ask a model of `chats`; return a reply per prompt, or the error it failed with."""


class ChunkingSettings(Settings):
    """A method that cuts documents into chunks."""

    any_document: ClassVar[bool] = True
    """Whether documents from outside of the corpus can be cut too."""
    method: str

    @abstractmethod
    def spans(self, document: Document, models: Models) -> Iterable[Span]:
        """Return half-open spans of the document's text, in any order; they may overlap.

        Raises DocumentError for a document that can't be cut; it is quarantined.
        """

    def covers(self, config: CorpusFile, document_id: str) -> bool:
        """Return whether it has chunks for a document."""
        return True


Chunking = Annotated[ChunkingSettings, VariantsOf(CHUNKINGS, "method")]
