"""The interface of a chunking method; `chunking` holds the methods."""

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
    """The models of a corpus file: each distinct call is made, counted and charged once."""

    @property
    def config(self) -> CorpusFile:
        """Return the corpus file."""

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        """Embed texts by a variant of `embeddings`, by the packaged model for None."""

    def token_starts(self, text: str, embedding: str | None) -> npt.NDArray[np.int64]:
        """Return each token's offset by the tokenizer of a variant of `embeddings`."""

    def ask(self, prompts: Sequence[Prompt], chat: str) -> list[Reply | ProviderError]:
        """Ask a model of `chats`; return a reply or an error per prompt."""


class ChunkingSettings(Settings):
    """A method that cuts documents into chunks."""

    any_document: ClassVar[bool] = True
    """Whether documents outside the corpus can be cut, too."""
    method: str

    @abstractmethod
    def spans(self, document: Document, models: Models) -> Iterable[Span]:
        """Return half-open spans of the document's text, in any order; they may overlap.

        A DocumentError quarantines the document.
        """

    def covers(self, config: CorpusFile, document_id: str) -> bool:
        """Return whether the method makes chunks of a document."""
        return True


Chunking = Annotated[ChunkingSettings, VariantsOf(CHUNKINGS, "method")]
