"""Read the ONNX file of all-MiniLM-L6-v2, which has 8-bit weights with a scale for each output."""

import mmap
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_pipeline.models.providers.encoder import Floats, Matrix

_TYPES = {1: np.float32, 3: np.int8, 7: np.int64, 9: np.bool_}
_MATRICES = ("q", "k", "v", "ao", "fi", "fo")
_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_ENDS = {"w": "weight", "b": "bias"}


class MiniLMFile:
    """The tensors of the model file. Field numbers are from onnx.proto."""

    layers = 6
    loud: Sequence[int] = (63, 99, 157, 223, 267, 338)

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        (graph,) = (value for number, value in _fields(memoryview(raw)) if number == 7)
        self._tensors: dict[str, npt.NDArray[Any]] = {}
        for number, value in _fields(graph):
            if number == 5:
                name, tensor = _tensor(value)
                self._tensors[name] = tensor
        # The matrices of the layers have no names. They stand in the order of their use.
        unnamed = [name[:-2] for name in self._tensors if name.endswith("_q") and name[:3] == "val"]
        names = (f"l{n}.{part}" for n in range(self.layers) for part in _MATRICES)
        self._matrices = dict(zip(names, unnamed, strict=True))

    def matrix(self, name: str) -> Matrix:
        """Return the numbers and scales of a layer's matrix."""
        held = self._matrices[name]
        return self._tensors[f"{held}_q"], self._tensors[f"{held}_scale"][0]

    def floats(self, name: str) -> Floats:
        """Return a bias, or the weight or bias of a norm."""
        *layer, part, end = name.split(".")
        if part == "ln":
            return self._tensors[f"inner.embeddings.LayerNorm.{_ENDS[end]}"]
        return self._tensors[f"inner.encoder.layer.{layer[0][1:]}.{_NAMES[part]}.{_ENDS[end]}"]

    def embedded(self, ids: npt.NDArray[np.int64]) -> Floats:
        """Return the input of the first layer for the tokens of one text, shape (tokens, 384)."""
        words, scales = self._words
        made: Floats = words[ids] * scales[ids]
        return made + self._positions[: len(ids)]

    @cached_property
    def _words(self) -> tuple[npt.NDArray[np.int8], Floats]:
        name = "inner.embeddings.word_embeddings.weight"
        return self._tensors[f"{name}_q"], self._tensors[f"{name}_scale"]

    @cached_property
    def _positions(self) -> Floats:
        name = "inner.embeddings.position_embeddings.weight"
        positions: Floats = self._tensors[f"{name}_q"] * self._tensors[f"{name}_scale"]
        positions += self._tensors["inner.embeddings.token_type_embeddings.weight"][0]
        return positions


def _tensor(raw: memoryview) -> tuple[str, npt.NDArray[Any]]:
    fields = list(_fields(raw))
    shape = [value for number, value in fields if number == 1]
    one = dict(fields)
    return bytes(one[8]).decode(), np.frombuffer(one[9], _TYPES[one[2]]).reshape(shape)


def _fields(raw: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each field of a protocol buffer's message."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, at = _varint(raw, at)
        if tag & 7 == 2:  # The number is a length.
            yield tag >> 3, raw[at : at + number]
            at += number
        else:
            yield tag >> 3, number


def _varint(raw: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while raw[at] > 127:
        number |= (raw[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return number | raw[at] << shift, at + 1
