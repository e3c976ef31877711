"""Does a passage bear out a sentence? By its content words and its numbers."""

import re

from rag_pipeline.search.tokenization import default_tokenizer

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def supports(passage: str, sentence: str, share: float) -> bool:
    """Tell whether a passage holds at least `share` of a sentence's terms, and all its numbers.

    Terms are stems without stop words. A sentence without terms is supported by anything.
    """
    terms = set(default_tokenizer().tokenize(sentence))
    if not _numbers(sentence) <= _numbers(passage):
        return False
    held = terms & set(default_tokenizer().tokenize(passage))
    return not terms or len(held) >= share * len(terms)


def _numbers(text: str) -> set[str]:
    return {number.replace(",", "") for number in _NUMBER.findall(text)}
