"""Estimates of a text's tokens: by the model's tokenizer where it is here, else by bytes.

Byte-pair vocabularies of some 100,000 entries make a token of 4 to 5 bytes of English prose, of
about 3 bytes of code or tables, and of 3 bytes (a character) of Chinese or Japanese.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from rag_pipeline.calls.contexts import setting
from rag_pipeline.calls.costs.prices import ChargedTokens
from rag_pipeline.datamodels import Messages, Schema

ESTIMATE_ERROR = 0.25
"""Relative error that an estimate may have; the tests measure it against SmolLM2's tokenizer."""
USUAL_OUTPUT = 150
"""Output tokens of a usual reply: two or three sentences, or a small JSON value."""

_FRAME_TOKENS = 8
"""Maximum number of tokens that a message adds to its text."""
_OPENAI_MESSAGE, _OPENAI_REPLY = 4, 3
"""Tokens that OpenAI adds for each message and for the reply (its cookbook on tiktoken)."""
_MOST_COUNTED = 1_000_000
"""Maximum estimated tokens of an alphabet that are counted one by one, in about a second."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What calls of a model have told: tokens by estimated one and alphabet, and a reply's length.

    `output` is None where too few replies are known. `count` goes before the factors, which tell
    of all that is charged with the texts.
    """

    factors: Mapping[str, float] = field(default_factory=dict)
    output: int | None = None
    count: "Callable[[str], int] | None" = None
    """Counts a text's tokens as the model does."""


class Estimate(NamedTuple):
    """About how many tokens some texts have, before anything was learned, and their alphabet."""

    tokens: int
    alphabet: str


_learned: ContextVar[Learned] = ContextVar("learned", default=Learned())  # noqa: B039 - frozen


def estimating(learned: Learned) -> AbstractContextManager[None]:
    """Let estimates inside the block go by what was learned."""
    return setting(_learned, learned)


def estimate_tokens(text: str) -> int:
    """Return how many tokens a text has, by the model's own count where it is known.

    Else about how many: UTF-8 bytes / 4, times what was learned.
    """
    learned = _learned.get()
    if learned.count is not None:
        return learned.count(text)
    size = len(text.encode())
    estimate, factors = -(-size // 4), learned.factors
    return round(estimate * factors.get(_alphabet(size, len(text)), 1.0)) if factors else estimate


@dataclass(slots=True)
class Sampled:
    """A tokenizer's counts: exact for the first texts, then by what these had on average."""

    encode: Callable[[str], int]
    _sums: dict[str, list[int]] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        """Return a text's tokens."""
        estimate, alphabet = estimate_of([text])
        sums = self._sums.setdefault(alphabet, [0, 0])
        if sums[0] > _MOST_COUNTED:
            return round(estimate * sums[1] / sums[0])
        tokens = self.encode(text)
        self._sums[alphabet] = [sums[0] + estimate, sums[1] + tokens]
        return tokens


def framing_tokens(messages: int) -> int:
    """Return what messages add to their texts, where these are counted and not estimated."""
    if _learned.get().count is None:
        return 0
    return _OPENAI_MESSAGE * messages + _OPENAI_REPLY


def estimate_of(texts: Sequence[str]) -> Estimate:
    """Return the estimate of texts that one request has, in which nothing learned is."""
    sizes = [len(text.encode()) for text in texts]
    tokens = sum(-(-size // 4) for size in sizes)
    return Estimate(tokens, _alphabet(sum(sizes), sum(map(len, texts))))


def usual_output(most: int) -> int:
    """Return about how many tokens a reply has that may have at most so many."""
    learned = _learned.get().output
    return min(USUAL_OUTPUT if learned is None else learned, most)


def _alphabet(size: int, characters: int) -> str:
    """Return a class of languages by UTF-8 bytes a character.

    English has 1.00 to 1.01, German and French 1.01 to 1.05, Greek, Cyrillic, Hebrew and Arabic
    about 1.8, Chinese, Japanese, Korean, Thai and Hindi 2.5 and more.
    """
    share = size / max(characters, 1)
    if share < 1.008:
        return "ascii"
    return "latin" if share < 1.3 else "two_byte" if share < 2.2 else "three_byte"


def most_tokens(text: str) -> int:
    """Return more tokens than a text has, unless it is hardly words at all: UTF-8 bytes / 3."""
    return -(-len(text.encode()) // 3)


def request_texts(messages: Messages, schema: Schema | None) -> list[str]:
    """Return the texts of a chat request that are charged: messages, and the schema."""
    texts = [message["content"] for message in messages]
    return texts if schema is None else [*texts, json.dumps(schema)]


def request_tokens(
    messages: Messages, schema: Schema | None, max_output_tokens: int
) -> tuple[ChargedTokens, ChargedTokens]:
    """Return what a chat request is expected to use, and the most that it may use."""
    texts = request_texts(messages, schema)
    expected = ChargedTokens(
        sum(map(estimate_tokens, texts)), output=min(USUAL_OUTPUT, max_output_tokens)
    )
    framing = _FRAME_TOKENS * (len(texts) + 1)
    return expected, ChargedTokens(sum(map(most_tokens, texts)) + framing, output=max_output_tokens)
