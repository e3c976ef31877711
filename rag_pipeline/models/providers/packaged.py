"""Find the files of packaged models, write and open ONNX models, and split their input."""

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnxruntime

from rag_pipeline.errors import ProviderError

Part = TypeVar("Part")
Made = TypeVar("Made")


@cache
def packaged_file(package: str, file: str, sha256: str | None = None) -> Path:
    """Return a file of an installed package.

    Raise ProviderError if the file is missing, or if its hash differs from `sha256`.
    """
    spec = find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec else []
    path = next((p for folder in folders if (p := Path(folder) / file).is_file()), None)
    reinstall = f"reinstall {package.replace('_', '-')}"
    if path is None:
        raise ProviderError(f"the packaged model is missing: {package}/{file}; {reinstall}")
    if sha256 is not None and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ProviderError(
            f"{path}: not the tested model (SHA-256 differs); {reinstall} as pinned in "
            f"constraints.txt"
        )
    return path


def open_session(model: str | bytes) -> "onnxruntime.InferenceSession":
    """Open a model, given as a path or as bytes. Threads may share the model, and each runs it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # A memory arena keeps the memory of its largest batch (1.8 GiB at 64 x 256 tokens).
    options.enable_cpu_mem_arena = False
    # The threads of a pass wait for each other, which takes 1.3 times the CPU time for a query.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def padded_groups(
    positions: Iterable[int], sizes: Sequence[int], most_size: int
) -> Iterator[list[int]]:
    """Yield positions in groups of at most `most_size` in total.

    All items of a group are padded to the size of its largest item, so each counts with this size.
    An item above `most_size` is a group of its own.
    """
    group: list[int] = []
    width = 0
    for position in positions:
        width = max(width, sizes[position])
        if group and (len(group) + 1) * width > most_size:
            yield group
            group, width = [], sizes[position]
        group.append(position)
    if group:
        yield group


def on_all_cores(run: Callable[[Part], Made], parts: Sequence[Part]) -> list[Made]:
    """Return the result of `run` for each part, in order. A single part needs no other thread."""
    return [run(part) for part in parts] if len(parts) == 1 else list(_threads().map(run, parts))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), "model")


# --- ONNX models in the encoding of protocol buffers (fields of onnx.proto) ---

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
