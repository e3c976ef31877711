"""Detect the language of a text."""

import re
from collections import Counter
from collections.abc import Iterable
from copy import copy
from functools import cache
from threading import Lock
from typing import Any

NAMES = {
    "ar": "arabic",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "nl": "dutch",
    "pt": "portuguese",
    "ru": "russian",
    "zh": "chinese",
}
"""English names of the languages that `language_of` detects, by ISO 639-1 code."""

_READ = 2_000
_MIN_LETTERS = 4
_NO_LANGUAGE = "zxx"
_LETTER = re.compile(r"[^\W\d_]")


def language_of(text: str) -> str:
    """Return the ISO 639-1 code of a text's language (see `NAMES`), or "" if it has few letters.

    py3langid, a model of byte n-grams, classifies 2,000 characters after the first letter (Lui and
    Baldwin, langid.py, 2012).
    """
    first = _LETTER.search(text)
    if first is None:
        return ""
    head = text[first.start() : first.start() + _READ]
    is_chinese = re.match(r"[\u3400-\u9fff]{2}", head)
    if len(_LETTER.findall(head[:100])) < _MIN_LETTERS and not is_chinese:
        return ""
    identifier, lock = _identifier(*NAMES)
    with lock:
        return str(identifier.classify(head)[0])


def is_no_other(text: str, language: str) -> bool:
    """Return whether a text's start and middle are in the given language or in no language."""
    identifier, lock = _identifier()
    middle = len(text) // 2
    with lock:
        parts = (text[:_READ], text[middle : middle + _READ])
        return all(identifier.classify(p)[0] in (language, _NO_LANGUAGE) for p in parts)


def any_language_of(text: str, lead: float = 0.0) -> str:
    """Return the ISO 639-1 code of a text's language among the 97 that py3langid knows.

    Return "" if its log-probability exceeds the second's by less than `lead`.
    """
    identifier, lock = _identifier()
    with lock:
        (first, high), (_, second) = identifier.rank(text)[:2]
    return str(first) if high - second >= lead else ""


def languages_of(texts: Iterable[str]) -> dict[str, float]:
    """Return the share (0 to 1) of each language among texts, the largest share first.

    Texts whose halves differ in language do not count. They are often lists of names and numbers.
    """
    halves = ((text[: len(text) // 2], text[len(text) // 2 :]) for text in texts)
    pairs = ((language_of(first), language_of(second)) for first, second in halves)
    counts = Counter(first for first, second in pairs if first and first == second)
    total = counts.total()
    return {code: count / total for code, count in counts.most_common()}


@cache
def _identifier(*codes: str) -> tuple[Any, Lock]:
    """Return a model of the languages `codes`, by default of all 97, and its lock."""
    identifier = copy(_model())
    identifier.set_languages(list(codes) or None)
    return identifier, Lock()


@cache
def _model() -> Any:
    """Return the model of all languages. It takes 75 MB of memory."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)
