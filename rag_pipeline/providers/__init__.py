"""One file per vendor or local model; each turns inputs into what the model answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rag_pipeline.config import Embedding, keeps_tokens

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dimension), unit length."""

InputType = Literal["document", "query"]


class Embedder(Protocol):
    """A model that turns texts into vectors, one request at a time."""

    identity: str
    """Provider, model and parameters: whatever changes the vectors. Part of each call's key."""
    dimension: int

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the positions of `texts` in groups, each within the limits of one request."""

    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        """Embed the texts of one request."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens with a vector each, as they stand in the text."""

    ids: npt.NDArray[np.uint32]
    vectors: Vectors


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """A model that tells the vectors of the tokens too; each text has at least one."""

    def embed_tokens(
        self, texts: Sequence[str], input_type: InputType
    ) -> tuple[Vectors, list[Tokens]]:
        """Embed the texts of one request, and their tokens."""


@lru_cache(maxsize=8)
def open_embedder(settings: Embedding) -> Embedder:
    """Return the embedder of a variant; loaded once per process."""
    from rag_pipeline.providers.minilm import MiniLM, MiniLMTokens

    return MiniLMTokens() if keeps_tokens(settings) else MiniLM()
