"""Write the layers of a BERT encoder as an ONNX model that multiplies 8-bit numbers.

A processor multiplies 8-bit numbers two to three times as fast as floats. Each token has its own
scale, so the vector of a text does not depend on its batch.
"""

from collections.abc import Callable, Sequence
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnxruntime

from rag_pipeline.models.providers.packaged import TYPES, Graph, open_session

WIDTH = 384
_HEADS = 12
_EPSILON = 1e-12
_LIFT = 0.17
"""GELU is nowhere below -0.17, so its output plus 0.17 uses all 256 numbers."""

OPENING = Lock()
"""A lock for the time in which a thread opens a model."""

Floats = npt.NDArray[np.float32]
Matrix = tuple[npt.NDArray[np.int8], Floats]
"""Numbers of shape (inputs, outputs), and a scale for each output."""


class Weights(Protocol):
    """The tensors of a model. The layers are `l0.`, `l1.` and so on.

    A layer has the matrices `q`, `k`, `v` and `ao` of its attention, and `fi` and `fo` of its
    feed-forward network. A name with `.b` is a bias. Norms are `emb.ln`, `aln` and `oln`, each with
    the weight `.w` and the bias `.b`.
    """

    layers: int
    loud: Sequence[int]
    """Channels of the norms' output with values up to ten times those of the others.

    They set the scale of a token and leave few of the 256 numbers to the others. So they are halved
    and multiplied twice. Source: Zhao et al., Outlier Channel Splitting, ICML 2019.
    """

    def matrix(self, name: str) -> Matrix:
        """Return the numbers and scales of a matrix."""

    def floats(self, name: str) -> Floats:
        """Return a bias, or the weight or bias of a norm."""

    def embedded(self, ids: npt.NDArray[np.int64]) -> Floats:
        """Return the input of the first layer for the tokens of one text, shape (tokens, 384)."""


def in_8_bits(matrix: Floats) -> Matrix:
    """Return a matrix of floats as numbers from -127 to 127 with one scale for each column."""
    scales: Floats = np.abs(matrix).max(axis=0) / np.float32(127)
    return np.rint(matrix / scales).astype(np.int8), scales


def encoder(weights: Weights) -> bytes:
    """Return the layers as an ONNX model.

    The inputs are `x`, shape (texts, tokens, 384), and `mask`, shape (texts, tokens). The output
    has the shape of `x`.
    """
    graph = _Layers(weights)
    x = graph.norm(["x"], "emb.ln")
    for layer in range(weights.layers):
        at = f"l{layer}."
        rows = graph.rows(graph.split(x))
        parts = [graph.product(rows, at + part, split=True) for part in "qkv"]
        bias = graph.tensor(np.concatenate([weights.floats(f"{at}{part}.b") for part in "qkv"]))
        attended = graph.node("MultiHeadAttention", [*parts, bias, "mask"], num_heads=_HEADS)
        changed = graph.product(graph.rows(attended), at + "ao")
        x = graph.norm([changed, x], at + "aln", weights.floats(at + "ao.b"))
        inner = graph.product(graph.rows(graph.split(x)), at + "fi", split=True)
        bent = graph.node("BiasGelu", [inner, graph.tensor(weights.floats(at + "fi.b"))])
        numbers, scales = weights.matrix(at + "fo")
        lift = np.float32(_LIFT) * numbers.sum(axis=0, dtype=np.float32) * scales
        changed = graph.product(graph.lifted_rows(bent), at + "fo")
        x = graph.norm([changed, x], at + "oln", weights.floats(at + "fo.b") - lift)
    return graph.model({"x": "float32", "mask": "int32"}, x, "float32")


def run(file: Callable[[], Weights], texts: Sequence[Sequence[int]]) -> tuple[Floats, Floats]:
    """Run the layers on the token ids of texts. `file` returns the weights, and opens them once.

    Return the mean of each text's states, shape (texts, 384), and all states, shape (texts, tokens,
    384).
    """
    with OPENING:
        weights, session = file(), _session(file)
    x = np.zeros((len(texts), max(map(len, texts)), WIDTH), np.float32)
    mask = np.zeros(x.shape[:2], np.int32)
    for row, ids in enumerate(texts):
        x[row, : len(ids)] = weights.embedded(np.array(ids))
        mask[row, : len(ids)] = 1
    (states,) = session.run(None, {"x": x, "mask": mask})
    held = mask[..., None].astype(np.float32)
    return (states * held).sum(axis=1) / held.sum(axis=1), states


@cache
def _session(file: Callable[[], Weights]) -> "onnxruntime.InferenceSession":
    return open_session(encoder(file()))


class _Layers(Graph):
    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self._weights = weights

    def norm(self, inputs: list[str], name: str, bias: Floats | None = None) -> str:
        """Normalize an input, or the sum of two and of a bias."""
        kind = "LayerNormalization" if bias is None else "SkipLayerNormalization"
        own = [self._weights.floats(f"{name}.{part}") for part in "wb"]
        own += [] if bias is None else [bias]
        return self.node(kind, [*inputs, *map(self.tensor, own)], epsilon=_EPSILON)

    def split(self, x: str) -> str:
        """Halve the loud channels, and append them once more."""
        halves = np.ones(WIDTH, np.float32)
        halves[list(self._weights.loud)] = 0.5
        halved = self.node("Mul", [x, self.tensor(halves)])
        again = self.node("Gather", [halved, self.tensor(np.array(self._weights.loud))], axis=2)
        return self.node("Concat", [halved, again], axis=2)

    def rows(self, x: str) -> tuple[str, str, str]:
        """Return each row in 8 bits around 128, the number 128, and the scale of each row."""
        most = self.node("ReduceMax", [self.node("Abs", [x]), self._last], keepdims=1)
        return self._rounded(x, most, 127, self.number(128.5), 128)

    def lifted_rows(self, x: str) -> tuple[str, str, str]:
        """Return each row of GELU's output in 8 bits from 0, the number 0, and its scale."""
        lift = self.number(_LIFT)
        most = self.node("Add", [self.node("ReduceMax", [x, self._last], keepdims=1), lift])
        lifted = self.node("Mul", [self.node("Div", [self.number(255), most]), lift])
        return self._rounded(x, most, 255, self.node("Add", [lifted, self.number(0.5)]), 0)

    def _rounded(self, x: str, most: str, size: int, start: str, zero: int) -> tuple[str, str, str]:
        scaled = self.node("Mul", [x, self.node("Div", [self.number(size), most])])
        # The cast cuts the fraction off.
        rounded = self.node("Cast", [self.node("Add", [scaled, start])], to=TYPES["uint8"])
        scale = self.node("Div", [most, self.number(size)])
        return rounded, self.tensor(np.array(zero, np.uint8)), scale

    def product(self, rows: tuple[str, str, str], name: str, *, split: bool = False) -> str:
        """Multiply rows by a matrix."""
        numbers, zero, scale = rows
        matrix, scales = self._weights.matrix(name)
        if split:
            matrix = np.concatenate([matrix, matrix[list(self._weights.loud)]])
        inputs = [numbers, self.tensor(matrix), self.number(1), self.tensor(scales), zero]
        return self.node("Mul", [self.node("MatMulIntegerToFloat", inputs), scale])

    @property
    def _last(self) -> str:
        return self.tensor(np.array([-1], np.int64))
