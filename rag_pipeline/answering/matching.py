"""Match the words of a question with the words of texts, across inflection and typing errors."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from rapidfuzz import fuzz

from rag_pipeline.answering.words import stems
from rag_pipeline.config import Lexical
from rag_pipeline.search.tokenization import tokenizer_of

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+\d*")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts without spaces between words. There, pairs of characters replace words."""
_ENDING = re.compile(r"(?:e?[snrm]|es|e)?")
_SHORTEST = 5
"""Least characters of a word that also matches a similar word or a compound."""
_LEAST_SHARED = 0.7
"""Least share of the longer word that two forms of a word have in common at their start."""
LEAST_SIMILAR = 82
"""Least similarity in percent of two words that differ by typing errors."""


@lru_cache(maxsize=8192)
def words_of(text: str) -> frozenset[str]:
    """Return the distinct words of a text in lower case."""
    if _UNSPACED.search(text):
        return frozenset(tokenizer_of(Lexical(language="auto")).tokenize(text))
    return frozenset(word.casefold() for word in _WORD.findall(text))


class Words:
    """The words of a question, except stop words, each with its weight.

    A word in capitals, such as `IT`, is no stop word.

    The weight is the rarity of the word in `texts`, or 0 if no text has it. The weights sum to 1.
    """

    def __init__(self, question: str, texts: Iterable[str]) -> None:
        has_terms = tokenizer_of(Lexical(language="auto")).has_terms
        spoken = [] if question.isupper() else _WORD.findall(question)
        shouted = {word.casefold() for word in spoken if word.isupper()}
        asked = [
            w
            for w in words_of(question)
            if (has_terms(w) or w in shouted) and (len(w) > 1 or w.isdecimal())
        ]
        read = list(map(words_of, texts))
        # All forms of a word begin or end with the same letter.
        first, last = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for other in frozenset[str]().union(*read):
            first[other[0]].append(other)
            last[other[-1]].append(other)
        self._forms = {
            word: frozenset(
                other
                for other in (*first[word[0]], *last[word[-1]])
                if (other[0] == word[0] or other.endswith(word) or word.endswith(other))
                and _is_alike(word, other)
            )
            for word in asked
        }
        counts = {w: sum(not forms.isdisjoint(r) for r in read) for w, forms in self._forms.items()}
        rare = {
            w: math.log(1 + (len(read) + 1) / (0.5 + n)) if n else 0.0 for w, n in counts.items()
        }
        total = sum(rare.values()) or 1.0
        missing = sum(not n for n in counts.values()) * math.log(1 + 2 * (len(read) + 1))
        self.held = sum(rare.values()) / (total + missing)
        """The weight of the words that some text has, from 0 to 1. A missing word is the rarest."""
        self._weights = {word: weight / total for word, weight in rare.items()}

    @property
    def asked(self) -> frozenset[str]:
        """Return the words of the question, except stop words."""
        return frozenset(self._forms)

    def in_text(self, text: str) -> frozenset[str]:
        """Return the question's words that `text` has. `text` must be a part of one of `texts`."""
        words = words_of(text)
        return frozenset(w for w, forms in self._forms.items() if not forms.isdisjoint(words))

    def share(self, words: Iterable[str]) -> float:
        """Return the sum of the weights of some words, from 0 to 1."""
        return sum(self._weights[word] for word in words)

    def covers(self, text: str) -> float:
        """Return the share of a text's words that the question names, from 0 to 1."""
        words = words_of(text)
        forms = frozenset().union(*self._forms.values())
        return len(words & forms) / len(words) if words else 0.0


@lru_cache(maxsize=65_536)
def _is_alike(word: str, other: str) -> bool:
    if word == other:
        return True
    if not (word.isalpha() and other.isalpha()):
        return False
    short, long = (word, other) if len(word) <= len(other) else (other, word)
    if long.endswith("ies") and f"{long[:-3]}y" == short:
        return True
    if long.startswith(short) and _ENDING.fullmatch(long, len(short)) and len(short) > 2:
        return True
    if word[:3] == other[:3] and stems(word) & stems(other):
        return True
    if len(short) < _SHORTEST:
        return False
    return (
        long.startswith(short)
        or long.endswith(short)
        or short.startswith(long[: math.ceil(_LEAST_SHARED * len(long))])
        or (word[0] == other[0] and fuzz.ratio(word, other) >= LEAST_SIMILAR)
    )
