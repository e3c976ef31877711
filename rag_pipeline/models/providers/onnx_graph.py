"""Write ONNX models in the encoding of protocol buffers (fields of onnx.proto)."""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
"""The numbers of types of tensors."""
_CONTRIB = "com.microsoft"
_CONTRIBUTED = ("BiasGelu MatMulIntegerToFloat MultiHeadAttention SkipLayerNormalization").split()


class Graph:
    """Operations and constants. Operation set 18, and the set of onnxruntime."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []

    def node(self, kind: str, inputs: list[str], **settings: int | float) -> str:
        """Add an operation. Return the name of its output."""
        own = b"".join(
            _field(5, _field(1, name) + _field(2 + is_int, value) + _field(20, 1 + is_int))
            for name, value in settings.items()
            for is_int in [isinstance(value, int)]
        )
        output = f"y{len(self._nodes)}"
        names = b"".join(_field(1, name) for name in inputs) + _field(2, output)
        domain = _CONTRIB if kind in _CONTRIBUTED else ""
        self._nodes.append(_field(1, names + _field(4, kind) + own + _field(7, domain)))
        return output

    def tensor(self, array: npt.NDArray[Any]) -> str:
        """Add a constant. Return its name."""
        name = f"c{len(self._tensors)}"
        shape = b"".join(_field(1, size) for size in array.shape)
        kind = _field(2, TYPES[str(array.dtype)])
        self._tensors.append(_field(5, shape + kind + _field(8, name) + _field(9, array.tobytes())))
        return name

    def number(self, value: float) -> str:
        """Add a constant float. Return its name."""
        return self.tensor(np.array(value, np.float32))

    def model(self, inputs: Mapping[str, str], output: str, kind: str) -> bytes:
        """Return the model, with the type of each input and of the output."""
        values = [_value(11, name, one) for name, one in inputs.items()]
        body = [*self._nodes, _field(2, "graph"), *self._tensors, *values, _value(12, output, kind)]
        sets = [_field(1, "") + _field(2, 18), _field(1, _CONTRIB) + _field(2, 1)]
        used = b"".join(_field(8, one) for one in sets)
        return _field(1, 10) + _field(7, b"".join(body)) + used


def _value(number: int, name: str, kind: str) -> bytes:
    return _field(number, _field(1, name) + _field(2, _field(1, _field(1, TYPES[kind]))))


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
