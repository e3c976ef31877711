"""Sentences, questions and passages -> vectors of the packaged model; the last ones are remembered.

A passage's tokens are read from what its index keeps of them, where it keeps any.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rag_pipeline.answering.interaction import Signs
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.datamodels import ScoredChunk, Span
from rag_pipeline.models.providers import LocalEmbedder, Tokens, Vectors
from rag_pipeline.models.providers.minilm import MAX_TOKENS, MiniLMTokens, TokenIds
from rag_pipeline.search.tokenization import default_tokenizer

_REMEMBERED = 20_000
"""Maximum number of vectors of 384 numbers that stay in memory: some 35 MB."""
_PASSAGES = 2_000
"""Maximum number of passages whose tokens stay in memory, some 16 kB each."""

_READ_ANEW = 8
"""Maximum number of passages per question that are embedded, where no index keeps their tokens."""

SentenceEmbed = Callable[[Sequence[str]], Vectors]
"""From texts to unit vectors, shape (texts, dimension)."""


@dataclass(frozen=True)
class PassageTokens:
    """The tokens of a passage's text; of those of an index, as many as it keeps."""

    whole: Signs
    """Signs of the text's tokens, then of those of the context that the index keeps with it."""
    cut: Callable[[], tuple[TokenIds, Sequence[Span]]]
    """Cuts the text into tokens, which most readers of the signs do without."""

    @cached_property
    def _text(self) -> tuple[TokenIds, Sequence[Span]]:
        return self.cut()

    @property
    def ids(self) -> TokenIds:
        """Return the text's tokens."""
        return self._text[0]

    @property
    def spans(self) -> Sequence[Span]:
        """Return where each of the text's tokens stands."""
        return self._text[1]


class ReadPassage(NamedTuple):
    """A ranked chunk with its tokens; ranks count from 1."""

    rank: int
    chunk: ScoredChunk
    tokens: PassageTokens


class Reader(Protocol):
    """What reads questions and passages token by token."""

    def question(self, text: str) -> Tokens:
        """Return the tokens that say what a question asks."""

    def passage(self, chunk: ScoredChunk) -> PassageTokens:
        """Return the tokens of a chunk's text."""


class SentenceVectors:
    """Embeds sentences, the same one once; safe to share between threads.

    Questions are answered from the same few documents again and again, and the model takes most of
    an answer's time. Texts are remembered by their hashes alone.
    """

    def __init__(self, model: LocalEmbedder | None = None, most: int = _REMEMBERED) -> None:
        self._given = model
        self._most = most
        self._known: OrderedDict[bytes, Vectors] = OrderedDict()
        self._lock = Lock()
        self._questions = lru_cache(maxsize=256)(_read_question)
        self._passages = lru_cache(maxsize=_PASSAGES)(_read_passage)
        self._cuts = lru_cache(maxsize=_PASSAGES)(_cut)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the texts' vectors, shape (texts, dimension)."""
        model = self._given or _packaged()
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in found}
        for together in _of_like_length(list(missing.items())):
            for batch in model.batches([text for _, text in together]):
                vectors = model.embed([together[i][1] for i in batch], "document")
                found |= zip((together[i][0] for i in batch), np.copy(vectors), strict=True)
        with self._lock:
            for key in keys:
                self._known[key] = found[key]
                self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        made = np.empty((len(texts), model.dimension), np.float32)
        for row, key in enumerate(keys):
            made[row] = found[key]
        return made

    def question(self, text: str) -> Tokens:
        """Return the tokens that say what a question asks."""
        return self._questions(text)

    def passage(self, chunk: ScoredChunk) -> PassageTokens:
        """Return the tokens of a chunk's text."""
        cut: Callable[[str], _Cut] = self._cuts
        if chunk.token_signs:  # of the text, and of what it was contextualized with
            packed = np.frombuffer(chunk.token_signs, np.uint8)
            packed = packed.reshape(-1, _packaged().dimension // 8)
        else:
            packed, cut = self._passages(chunk.text).packed, lambda text: self._passages(text).cut

        def tokens() -> tuple[TokenIds, Sequence[Span]]:
            ids, spans = cut(chunk.text)
            kept = spans[: len(packed)].tolist()
            return ids[: len(packed)], [(start, end) for start, end in kept]

        return PassageTokens(np.unpackbits(packed, axis=1).astype(np.float32), tokens)


@lru_cache(maxsize=1)
def _packaged() -> MiniLMTokens:
    return MiniLMTokens()


def _of_like_length(texts: list[tuple[bytes, str]]) -> Iterator[list[tuple[bytes, str]]]:
    """Group texts by the power of two of their length: a batch is padded to its longest text."""
    texts.sort(key=lambda item: len(item[1]))
    for _, group in groupby(texts, lambda item: max(len(item[1]), 128).bit_length()):
        yield list(group)


def _read_question(text: str) -> Tokens:
    return _packaged().embed_tokens([text], "query")[1][0]


class _Cut(NamedTuple):
    """The tokens of a text, and where each stands: pairs of Python's would take 44 kB."""

    ids: TokenIds
    spans: npt.NDArray[np.int32]


class _Read(NamedTuple):
    cut: _Cut
    packed: npt.NDArray[np.uint8]


def _cut(text: str) -> _Cut:
    ids, spans = _packaged().tokens_of(text)
    return _Cut(ids, _packed(spans))


def _read_passage(text: str) -> _Read:
    """Return the tokens of a text whose signs no index keeps."""
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
    places = [
        (start + first, start + last)
        for (start, _), (_, own) in zip(pieces, read, strict=True)
        for first, last in own
    ]
    ids = np.concatenate([own for own, _ in read])
    return _Read(_Cut(ids, _packed(places)), np.concatenate(signs))


def _packed(spans: Sequence[Span]) -> npt.NDArray[np.int32]:
    return np.array(spans, np.int32).reshape(-1, 2)


def _pieces(model: MiniLMTokens, text: str, start: int = 0) -> list[Span]:
    """Cut a text between its sentences until the model reads each piece to its end."""
    inner = [first for first, _ in sentence_spans(text)][1:]
    if not inner or len(model.tokens_of(text)[0]) < MAX_TOKENS - 2:
        return [(start, start + len(text))]
    middle = min(inner, key=lambda first: abs(first - len(text) / 2))
    left = _pieces(model, text[:middle], start)
    return [*left, *_pieces(model, text[middle:], start + middle)]


def read_passages(query: str, chunks: Sequence[ScoredChunk], reader: Reader) -> list[ReadPassage]:
    """Return the chunks that have words, with their tokens.

    Of those whose tokens no index keeps only the 8 that share the most words with the query are
    embedded; the others are left out.
    """
    ranked = [(n, chunk) for n, chunk in enumerate(chunks, 1) if has_terms(chunk.text)]
    anew = [pair for pair in ranked if not pair[1].token_signs]
    if len(anew) > _READ_ANEW:
        asked = frozenset(default_tokenizer().tokenize(query))
        anew.sort(key=lambda pair: (-len(asked & terms_of(pair[1].text)), pair[0]))
        left_out = {rank for rank, _ in anew[_READ_ANEW:]}
        ranked = [pair for pair in ranked if pair[0] not in left_out]
    return [ReadPassage(rank, chunk, reader.passage(chunk)) for rank, chunk in ranked]


def token_ids(text: str) -> TokenIds:
    """Return the numbers of a text's tokens, as the packaged model cuts it."""
    return _packaged().tokens_of(text)[0]


def has_terms(text: str) -> bool:
    """Return whether a text has any terms."""
    return default_tokenizer().has_terms(text)


@lru_cache(maxsize=4096)
def terms_of(text: str) -> frozenset[str]:
    """Return the terms of a text: stems without stop words."""
    return frozenset(default_tokenizer().tokenize(text))


sentence_vectors = SentenceVectors()
"""The packaged model, opened when it is first asked."""
