"""How many tokens a text has, without the model's tokenizer: hosted models don't hand theirs out.

Byte-pair vocabularies of some 100,000 entries make a token of 4 to 5 bytes of English prose, of
about 3 bytes of code or tables, and of 3 bytes (a character) of Chinese or Japanese.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rag_pipeline.calls.costs.prices import Tokens

ESTIMATE_ERROR = 0.25
"""Relative error that an estimate may have; the tests measure it against SmolLM2's tokenizer."""
USUAL_OUTPUT = 150
"""Output tokens of a usual reply: two or three sentences, or a small JSON value."""

_FRAME_TOKENS = 8
"""Tokens that a message adds to its text."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has: UTF-8 bytes / 4."""
    return -(-len(text.encode()) // 4)


def most_tokens(text: str) -> int:
    """Return more tokens than a text has, unless it is hardly words at all: UTF-8 bytes / 3."""
    return -(-len(text.encode()) // 3)


def request_tokens(
    messages: Sequence[Mapping[str, str]],
    schema: Mapping[str, Any] | None,
    max_output_tokens: int,
) -> tuple[Tokens, Tokens]:
    """Return what a chat request is expected to use, and the most that it may use."""
    texts = [message["content"] for message in messages]
    if schema is not None:
        texts.append(json.dumps(schema))
    expected = Tokens(sum(map(estimate_tokens, texts)), output=min(USUAL_OUTPUT, max_output_tokens))
    framing = _FRAME_TOKENS * (len(texts) + 1)
    return expected, Tokens(sum(map(most_tokens, texts)) + framing, output=max_output_tokens)
