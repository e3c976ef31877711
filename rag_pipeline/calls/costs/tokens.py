"""Count the tokens of a text by the model's tokenizer if it is installed, else by bytes.

The following sizes hold for a vocabulary of about 100,000 byte pairs. A token is 4 to 5 bytes of
English prose, about 3 bytes of code or tables, or one character of Chinese or Japanese.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

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


# --- the vocabularies of OpenAI ---

_FILES = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}
"""File names in the cache of tiktoken, and the SHA-256 of their content."""
_VARIABLE = "TIKTOKEN_CACHE_DIR"
_CARRIER, _CARRIED_IN = "litellm", "litellm_core_utils/tokenizers"
_CHARACTERS_AT_ONCE = 50_000
_reading = Lock()


@cache
def encoder(model: str) -> Callable[[str], int] | None:
    """Return the token counter of a model, or None if this machine lacks its vocabulary.

    `tiktoken` would download a missing vocabulary. Here it reads only local files: in the folder
    TIKTOKEN_CACHE_DIR, or in litellm, which the extra `dspy` installs. The packages of Anthropic,
    Voyage, Cohere and Jina contain no vocabularies.
    """
    try:
        import tiktoken

        name = tiktoken.encoding_name_for_model(model)
    except (ImportError, KeyError):
        return None
    folder = next((f for f in _folders() if name in _FILES and _holds(f, *_FILES[name])), None)
    if folder is None:
        return None
    encoding = _read(tiktoken, name, folder)
    # The tokenizer is slow for a megabyte without a space.
    step = _CHARACTERS_AT_ONCE
    return lambda text: sum(
        len(encoding.encode_ordinary(text[i : i + step])) for i in range(0, len(text), step)
    )


def _folders() -> list[Path]:
    carrier = find_spec(_CARRIER)
    places = carrier.submodule_search_locations if carrier is not None else None
    found = [Path(place) / _CARRIED_IN for place in places or ()]
    named = os.environ.get(_VARIABLE)
    return [Path(named), *found] if named else found


def _holds(folder: Path, file: str, digest: str) -> bool:
    """Return whether a file has the expected hash. tiktoken would replace any other file."""
    try:
        return hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest
    except OSError:
        return False


def _read(tiktoken: Any, name: str, folder: Path) -> Any:
    with _reading:
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = str(folder)
        try:
            return tiktoken.get_encoding(name)
        finally:
            del os.environ[_VARIABLE]
            if before is not None:
                os.environ[_VARIABLE] = before
