"""Measure the quality of a document's text, and warn about doubtful values."""

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files

from rag_pipeline.errors import installation
from rag_pipeline.loading.extras import is_installed
from rag_pipeline.loading.languages import is_no_other
from rag_pipeline.loading.text import is_cjk

_WORD = re.compile(r"[^\W\d_]+")
_IN_ADDRESSES = ("://", "www.", "@")
_NAME = re.compile(r"[a-z][A-Z]")  # servletConfigurationFactory
_GERMAN_NAME = re.compile(_NAME.pattern + r"|\A[^\W\d_a-z][a-zäöüß]+\Z")  # Fahrradversicherung
_MAX_WORD = 25
_MAX_GLUED = 0.005
_MAX_PIPES = 0.5
_LEAST_PROSE = 6.0
"""Mean number of words per cell above which a table is probably a page of prose in columns."""
_MAX_REPLACED = 0.01
_MEAN_WORD = (2.2, 12.0)
_MIN_KNOWN = 0.45
_MIN_WORDS = 50
_MAX_LOOKED_UP = 2_000
_MAX_MEASURED = 500_000
_MIN_CONFIDENCE = 0.8


@dataclass(frozen=True, slots=True)
class TextQuality:
    """Measures of the quality of one text. Shares are between 0 and 1."""

    pages: int
    words: int
    glued: float
    """Share of words with more than 25 letters."""
    pipes: float
    """Share of characters in table rows."""
    replaced: float
    """Share of characters that the fonts or the encoding do not map to a letter."""
    mean_word: float
    """Mean number of letters per word."""
    with_text: int
    """Number of pages with text."""
    unread: int = 0
    """Number of pages with an image and no text."""
    recognised: int = 0
    """Number of pages that were read by OCR."""
    confidence: float | None = None
    """Mean confidence (0 to 1) of the recognised characters."""
    known: float | None = None
    """Share of words in a dictionary of the text's language, or None without a dictionary."""
    cell_words: float = 0.0
    """Mean number of words in the non-empty cells of tables."""

    def warnings(self) -> list[str]:
        """Return a sentence for each measure that exceeds its limit."""
        found = []
        if self.words >= _MIN_WORDS:
            if self.glued > _MAX_GLUED:
                share = f"{self.glued:.1%} of the words"
                found.append(f"{share} have over {_MAX_WORD} letters; they may be glued")
            low, high = _MEAN_WORD
            if not low <= self.mean_word <= high:
                found.append(
                    f"words have {self.mean_word:.1f} letters on average, not {low:g} to {high:g}"
                )
            if self.known is not None and self.known < _MIN_KNOWN:
                found.append(f"only {self.known:.0%} of the words are in the language's dictionary")
            if self.pages and self.pipes > _MAX_PIPES and self.cell_words > _LEAST_PROSE:
                share = f"{self.pipes:.0%} of the characters"
                found.append(f"{share} are in tables of prose; columns may be mixed")
        if self.replaced > _MAX_REPLACED:
            whose = "unknown to the file's fonts" if self.pages else "in no known encoding (U+FFFD)"
            found.append(f"{self.replaced:.1%} of the characters are {whose}")
        if self.unread:
            warning = f"{self.unread} of {self.pages} pages are images that were not read"
            if not is_installed("ocr"):
                warning += f"; to read them, run `{installation('ocr')}` and `rag run`"
            found.append(warning)
        if self.confidence is not None and self.confidence < _MIN_CONFIDENCE:
            found.append(
                f"text in images was recognised with a confidence of {self.confidence:.2f}"
            )
        return found

    def summary(self) -> str:
        """Return the measures as one line of text."""
        known = [] if self.known is None else [f"{self.known:.0%} in the language's dictionary"]
        figures = (
            *(f"{self.words:,} words of {self.mean_word:.1f} letters on average", *known),
            f"{self.glued:.1%} of the words have over {_MAX_WORD} letters",
            f"{self.pipes:.0%} of the text in tables",
            f"{self.replaced:.1%} unknown characters",
        )
        pages = f"; text on {self.with_text} of {self.pages} pages" if self.pages else ""
        return ", ".join(figures) + pages

    def to_json(self) -> str:
        """Return the measures as JSON, for a document's metadata."""
        values = [(k, round(v, 4) if isinstance(v, float) else v) for k, v in asdict(self).items()]
        return json.dumps({key: value for key, value in values if value is not None})

    @classmethod
    def from_json(cls, stored: str) -> "TextQuality":
        """Return the measures that `to_json` wrote."""
        return cls(**json.loads(stored))


def measure(
    text: str, characters: Sequence[int], unmapped: int, language: str = "", **pages: float | None
) -> TextQuality:
    """Measure the quality of a text.

    - `characters`: the number of characters on each page, or () if there are no pages.
    - `unmapped`: the number of characters that the fonts or the encoding do not map to a letter.
    - `pages`: further fields of `TextQuality`, which describe the pages.
    """
    words = _words(text)
    rows = [line for line in text.split("\n") if line.startswith("|")]
    cells = [cell for row in rows for cell in row.split("|") if cell.strip(" -:")]
    return TextQuality(
        pages=len(characters),
        words=len(words),
        glued=_glued(words, language),
        pipes=sum(map(len, rows)) / max(len(text), 1),
        cell_words=sum(len(cell.split()) for cell in cells) / max(len(cells), 1),
        replaced=unmapped / max(sum(characters) or len(text), 1),
        mean_word=sum(map(len, words)) / max(len(words), 1),
        with_text=sum(bool(n) for n in characters),
        **pages,  # type: ignore[arg-type]
    )


def with_known(measured: str, text: str, language: str) -> str:
    """Return `measured`, which is JSON, with the measures that depend on the text's language."""
    found, glued = TextQuality.from_json(measured), _glued(_words(text), language)
    return replace(found, glued=glued, known=share_known(text, language)).to_json()


def doubts_of_prose(text: str, language: str) -> str:
    """Return the measures of a text without pages as JSON, or "" if no measure is doubtful."""
    text = text[:_MAX_MEASURED]
    found = measure(text, (), text.count("\ufffd"), language)
    found = replace(found, known=share_known(text, language))
    return found.to_json() if found.warnings() else ""


def share_known(text: str, language: str) -> float | None:
    """Return the share (0 to 1) of a text's words that are in the dictionary of a language.

    Look up at most 4,000 words of at least two letters, spread over the text. Return None without a
    dictionary, for fewer than 50 such words, or for a low share if the text may be in another
    language.
    """
    known = dictionary(language)
    words = [word.lower() for word in _words(text) if len(word) > 1]
    if not known or len(words) < _MIN_WORDS:
        return None
    words = words[:: max(len(words) // _MAX_LOOKED_UP, 1)]
    share = sum(word in known for word in words) / len(words)
    return share if share >= _MIN_KNOWN or is_no_other(text, language) else None


@cache
def dictionary(language: str) -> frozenset[str]:
    """Return a language's words in lower case, or an empty set without a packaged dictionary."""
    packed = files("spellchecker").joinpath(f"resources/{language}.json.gz")
    return frozenset(json.loads(gzip.decompress(packed.read_bytes())) if packed.is_file() else ())


def _glued(words: Sequence[str], language: str) -> float:
    name = _GERMAN_NAME if language == "de" else _NAME
    return sum(len(w) > _MAX_WORD and not name.search(w) for w in words) / max(len(words), 1)


def _words(text: str) -> list[str]:
    # Split first, because a pattern with white space takes quadratic time on long tokens.
    parts = text.split()
    signs = [sign for sign in _IN_ADDRESSES if sign in text]
    if signs:
        parts = [part for part in parts if not any(sign in part for sign in signs)]
    words: list[str] = _WORD.findall(" ".join(parts))
    return words if text.isascii() else [word for word in words if not is_cjk(word[0])]
