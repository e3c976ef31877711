"""Estimate the tokens of a text, by the model's tokenizer if it is installed, else by bytes.

The following sizes hold for a vocabulary of about 100,000 byte pairs. A token is 4 to 5 bytes of
English prose, about 3 bytes of code or tables, or one character of Chinese or Japanese.
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
"""Relative error of an estimate. Tests compare estimates with the tokenizer of SmolLM2."""
USUAL_OUTPUT = 150
"""Output tokens of a usual reply: two or three sentences, or a small JSON value."""

_FRAME_TOKENS = 8
"""Maximum number of tokens that a message adds to its text."""
_OPENAI_MESSAGE, _OPENAI_REPLY = 4, 3
"""Tokens that OpenAI adds for each message and for the reply (its cookbook on tiktoken)."""
_MOST_COUNTED = 1_000_000
"""Estimated tokens per alphabet after which `Sampled` uses the average. Counting takes 1 s."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A model's token factors by alphabet and its usual reply length, learned from calls.

    `output` is the length in tokens, or None if too few replies are known. If there is a `count`,
    the factors are ignored.
    """

    factors: Mapping[str, float] = field(default_factory=dict)
    output: int | None = None
    count: "Callable[[str], int] | None" = None
    """Counts the tokens of a text exactly."""


class Estimate(NamedTuple):
    """The number of tokens of some texts, estimated without learned factors, and their alphabet."""

    tokens: int
    alphabet: str


_learned: ContextVar[Learned] = ContextVar("learned", default=Learned())  # noqa: B039 - frozen


def estimating(learned: Learned) -> AbstractContextManager[None]:
    """Use learned factors for the estimates inside the block."""
    return setting(_learned, learned)


def estimate_tokens(text: str) -> int:
    """Return the number of tokens of a text, counted by the model's tokenizer if it is known.

    Otherwise return a quarter of the UTF-8 bytes, multiplied by the learned factor, if any.
    """
    learned = _learned.get()
    if learned.count is not None:
        return learned.count(text)
    size = len(text.encode())
    estimate, factors = -(-size // 4), learned.factors
    return round(estimate * factors.get(_alphabet(size, len(text)), 1.0)) if factors else estimate


@dataclass(slots=True)
class Sampled:
    """A token counter with a tokenizer for the first texts, and their average for later texts."""

    encode: Callable[[str], int]
    _sums: dict[str, list[int]] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        """Return the number of tokens of a text."""
        estimate, alphabet = estimate_of([text])
        sums = self._sums.setdefault(alphabet, [0, 0])
        if sums[0] > _MOST_COUNTED:
            return round(estimate * sums[1] / sums[0])
        tokens = self.encode(text)
        self._sums[alphabet] = [sums[0] + estimate, sums[1] + tokens]
        return tokens


def framing_tokens(messages: int) -> int:
    """Return the tokens that the message format adds to texts, or 0 if tokens are estimated."""
    return _OPENAI_MESSAGE * messages + _OPENAI_REPLY if _learned.get().count else 0


def estimate_of(texts: Sequence[str]) -> Estimate:
    """Return the estimate for the texts of one request, without learned factors."""
    sizes = [len(text.encode()) for text in texts]
    tokens = sum(-(-size // 4) for size in sizes)
    return Estimate(tokens, _alphabet(sum(sizes), sum(map(len, texts))))


def usual_output(most: int) -> int:
    """Return the expected number of tokens of a reply that may have at most `most` tokens."""
    learned = _learned.get().output
    return min(USUAL_OUTPUT if learned is None else learned, most)


def _alphabet(size: int, characters: int) -> str:
    """Return a class of languages by UTF-8 bytes per character.

    English has 1.00 to 1.01, German and French 1.01 to 1.05. Greek, Cyrillic, Hebrew and Arabic
    have about 1.8. Chinese, Japanese, Korean, Thai and Hindi have 2.5 and more.
    """
    share = size / max(characters, 1)
    if share < 1.008:
        return "ascii"
    return "latin" if share < 1.3 else "two_byte" if share < 2.2 else "three_byte"


def most_tokens(text: str) -> int:
    """Return an upper bound of the tokens of prose: UTF-8 bytes / 3."""
    return -(-len(text.encode()) // 3)


def request_texts(messages: Messages, schema: Schema | None) -> list[str]:
    """Return the charged texts of a chat request: its messages and its schema."""
    texts = [message["content"] for message in messages]
    return texts if schema is None else [*texts, json.dumps(schema)]


def request_tokens(
    messages: Messages, schema: Schema | None, max_output_tokens: int
) -> tuple[ChargedTokens, ChargedTokens]:
    """Return the expected and the highest number of tokens of a chat request."""
    texts = request_texts(messages, schema)
    expected = ChargedTokens(
        sum(map(estimate_tokens, texts)), output=min(USUAL_OUTPUT, max_output_tokens)
    )
    framing = _FRAME_TOKENS * (len(texts) + 1)
    return expected, ChargedTokens(sum(map(most_tokens, texts)) + framing, output=max_output_tokens)
