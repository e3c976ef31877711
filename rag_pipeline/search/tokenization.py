"""Split texts into the terms that every BM25 engine indexes and searches."""

import itertools
import re
import threading
import unicodedata
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from rag_pipeline.config import Lexical
from rag_pipeline.loading.languages import NAMES, language_of

# Scripts without spaces between words (Thai, Lao, Burmese, Khmer, Chinese, Japanese), and Hangul,
# which joins particles to words. A run of these characters becomes overlapping pairs.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+)"
)
# `\w` lacks combining marks, so it would split Arabic, Indic and Thai words.
_LETTER = (
    r"[\w\u0300-\u036f\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]"
)
_WORD = re.compile(
    # 3.2  1,000.50  12(b)  4.1(a)(ii)  10b  3rd
    r"\d+(?:\.\d+|,\d{3}(?!\d))*[A-Za-z0-9_]*(?:\((?:[A-Za-z]{1,2}|[ivxIVX]{1,5}|\d{1,2})\))*"
    rf"|{_LETTER}+(?:['’]{_LETTER}+)*"
)
_IDENTIFIER_PART = re.compile(r"_+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
_STEMMED = ("en", "de", "fr", "es", "it", "pt", "nl", "ru", "ar")
_UNSTEMMED = ("none", "chinese")
_TOO_SHORT_TO_TELL = 100
"""Below this length in characters, the detected language of a text is uncertain."""
_ASKING = {
    "german": "wie was wer wem wen wann wo wohin woher warum weshalb welche welcher welches "
    "welchem welchen wieviel",
    "french": "quel quelle quels quelles quand où comment pourquoi combien qui que quoi est-ce",
    "spanish": "qué cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas quién quiénes",
    "italian": "che quale quali quando dove come quanto quanta quanti quante chi perché",
    "portuguese": "que qual quais quando onde como quanto quanta quantos quantas quem",
    "dutch": "wat wie wanneer waar waarom hoe hoeveel welk welke",
}
"""Question words. They are rare in documents, so they would outweigh other words of a query."""
_ARABIC_STOP_WORDS = (
    "في من على إلى عن أن إن كان كانت هذا هذه ذلك تلك التي الذي الذين ما ماذا هل متى أين كيف كم "
    "لماذا و أو ثم لا لم لن قد كل بعد قبل مع هو هي هم أي عند بين غير"
)
_LONGEST_WORD = 64
_MAX_CACHED_WORDS = 1_000_000


class Tokenizer:
    """A tokenizer that returns case-folded, stemmed terms without stop words.

    - Numbers and section references stay whole: `3.2`, `12(b)`. `12(b)` also becomes `12`, so a
      search for a section finds its subsections. `$1,000` becomes `1000`.
    - `getChunk` becomes `getchunk`, `get`, `chunk`. `max_size` becomes `max_size`, `max`, `size`.
      Each part is stemmed.
    - A single letter before or after an apostrophe is dropped: `company's`, `l'accord`.
    - Scripts without spaces, such as Chinese, become overlapping pairs of characters.
    - The languages `none` and `chinese` have no stemmer and no stop words.
    - The language `auto` detects the language of each text. The stemmers of all languages stem
      texts of less than 100 characters, such as most questions.

    Threads may share a tokenizer.
    """

    def __init__(self, settings: Lexical) -> None:
        self._by_language: dict[str, _OneLanguage] = {}
        self._terms_of = None
        if settings.language == "auto":
            self._by_language = {code: _OneLanguage(NAMES[code], True) for code in _STEMMED}
            self._any = _AnyLanguage(self._by_language)
        else:
            self._terms_of = _OneLanguage(settings.language)

    @property
    def detects_language(self) -> bool:
        """Return whether the language of each text is detected."""
        return bool(self._by_language)

    def tokenize(self, text: str) -> list[str]:
        """Return the terms of a text in order, with repetitions."""
        words = _WORD.findall(_normalized(text))
        return list(itertools.chain.from_iterable(map(self._terms_in(text).__getitem__, words)))

    def has_terms(self, text: str) -> bool:
        """Return whether a text has any terms."""
        terms_of = self._terms_in(text)
        return any(terms_of[word[0]] for word in _WORD.finditer(_normalized(text)))

    def _terms_in(self, text: str) -> "_Words":
        if self._terms_of is not None:
            return self._terms_of
        if len(text) < _TOO_SHORT_TO_TELL:
            return self._any
        return self._by_language.get(language_of(text), self._by_language["en"])


@lru_cache(maxsize=8)
def tokenizer_of(settings: Lexical) -> Tokenizer:
    """Return the tokenizer for these settings. Equal settings share a tokenizer and its cache."""
    return Tokenizer(settings)


@cache
def default_tokenizer() -> Tokenizer:
    """Return the tokenizer of the default settings."""
    return tokenizer_of(Lexical())


class _Words(dict[str, tuple[str, ...]]):
    """The terms of each word, computed at the word's first use."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        terms = self[word] = tuple(self._terms(word))
        return terms

    @abstractmethod
    def _terms(self, word: str) -> Iterable[str]: ...


class _OneLanguage(_Words):
    def __init__(self, language: str, asks: bool = False) -> None:
        super().__init__()
        self._stop_words = stop_words(language)
        if asks:
            self._stop_words |= frozenset(_ASKING.get(language, "").split())
        self._stemmer = None
        if language not in _UNSTEMMED:
            import Stemmer

            self._stemmer = Stemmer.Stemmer(language)
        self._lock = threading.Lock()

    def _terms(self, word: str) -> list[str]:
        if not word[0].isdecimal():
            return self._word_terms(word)
        number = word.casefold().replace(",", "")
        section, parenthesis, _ = number.partition("(")
        return [number, section] if parenthesis else [number]

    def _word_terms(self, word: str) -> list[str]:
        word = word.replace("’", "'")
        if word.casefold() in self._stop_words:
            return []
        pieces = [word] if word.isascii() else _UNSPACED.split(word)  # every second piece is a run
        if len(pieces) > 1:
            terms = (_pairs(p) if n % 2 else self._word_terms(p) for n, p in enumerate(pieces) if p)
            return list(itertools.chain.from_iterable(terms))
        if len(word) > _LONGEST_WORD:  # encoded data has no words
            return [word[:_LONGEST_WORD].casefold()]
        pieces = word.split("'")
        if len(pieces) > 1:
            pieces = [piece for piece in pieces if len(piece) > 1]
        names = [name.casefold() for piece in pieces for name in _names(piece)]
        kept = [name for name in names if name not in self._stop_words]
        if self._stemmer is None:
            return kept
        with self._lock:  # two threads must not use a stemmer at the same time
            return list(self._stemmer.stemWords(kept))


class _AnyLanguage(_Words):
    """The terms of each word in all languages. A stop word of any language has no terms."""

    def __init__(self, by_language: Mapping[str, _OneLanguage]) -> None:
        super().__init__()
        self._by_language = by_language

    def _terms(self, word: str) -> Iterable[str]:
        found = [terms_of[word] for terms_of in self._by_language.values()]
        return dict.fromkeys(itertools.chain.from_iterable(found)) if all(found) else ()


def _normalized(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))


def _names(piece: str) -> list[str]:
    whole = piece.strip("_")
    parts = [part for part in _IDENTIFIER_PART.split(whole) if part]
    if len(parts) < 2:
        return parts
    return [whole, *(part for part in parts if len(part) > 1)]


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language in lower case, or an empty set for some languages."""
    if language in _UNSTEMMED:
        return frozenset()
    if language == "arabic":
        return frozenset(_ARABIC_STOP_WORDS.split())
    from bm25s import stopwords

    # EN_PLUS also holds question words, such as `what`, `who` and `does`.
    name = "EN_PLUS" if language == "english" else language.upper()
    return frozenset(word.casefold() for word in getattr(stopwords, f"STOPWORDS_{name}"))
