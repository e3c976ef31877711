"""How many tokens a text has, without the model's tokenizer: hosted models don't hand theirs out.

Byte-pair vocabularies of some 100,000 entries make a token of 4 to 5 bytes of English prose, of
about 3 bytes of code or tables, and of 3 bytes (a character) of Chinese or Japanese.
"""

ESTIMATE_ERROR = 0.25
"""How far an estimate may be off; measured against SmolLM2's tokenizer in the tests."""
USUAL_OUTPUT = 150
"""Output tokens of a usual reply: two or three sentences, or a small JSON value."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has: UTF-8 bytes / 4."""
    return -(-len(text.encode()) // 4)


def most_tokens(text: str) -> int:
    """Return more tokens than a text has, unless it is hardly words at all: UTF-8 bytes / 3."""
    return -(-len(text.encode()) // 3)
