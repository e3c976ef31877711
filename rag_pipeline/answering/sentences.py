"""Sentences -> vectors of the packaged model; those of the last questions are remembered."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from threading import Lock

import numpy as np

from rag_pipeline.models.providers import LocalEmbedder, Vectors
from rag_pipeline.models.providers.minilm import MiniLM

_REMEMBERED = 20_000
"""Vectors of 384 numbers: some 35 MB."""


class SentenceVectors:
    """Embeds sentences, the same one once; safe to share between threads.

    Questions are answered from the same few documents again and again, and the model takes most of
    an answer's time. Texts are remembered by their hashes alone.
    """

    def __init__(self, model: LocalEmbedder, most: int = _REMEMBERED) -> None:
        self._model = model
        self._most = most
        self._known: OrderedDict[bytes, Vectors] = OrderedDict()
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the texts' vectors, shape (texts, dimension)."""
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in found}
        for together in _of_like_length(list(missing.items())):
            for batch in self._model.batches([text for _, text in together]):
                vectors = self._model.embed([together[i][1] for i in batch], "document")
                found |= zip((together[i][0] for i in batch), np.copy(vectors), strict=True)
        with self._lock:
            for key in keys:
                self._known[key] = found[key]
                self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        made = np.empty((len(texts), self._model.dimension), np.float32)
        for row, key in enumerate(keys):
            made[row] = found[key]
        return made


@lru_cache(maxsize=1)
def _packaged() -> SentenceVectors:
    return SentenceVectors(MiniLM())


def sentence_vectors(texts: Sequence[str]) -> Vectors:
    """Embed sentences with the packaged model, shape (texts, 384)."""
    return _packaged()(texts)


def _of_like_length(texts: list[tuple[bytes, str]]) -> Iterator[list[tuple[bytes, str]]]:
    """Group texts by the power of two of their length: a batch is padded to its longest text."""
    texts.sort(key=lambda item: len(item[1]))
    for _, group in groupby(texts, lambda item: max(len(item[1]), 128).bit_length()):
        yield list(group)
