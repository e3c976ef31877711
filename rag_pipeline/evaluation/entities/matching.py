"""Is this fact in that text? Quantities by value, words by stems and near spelling."""

import re
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz

from rag_pipeline.evaluation.entities.values import (
    Quantity,
    Value,
    bound_of,
    quantities,
    same_value,
)

_TOKEN = re.compile(r"[$€£]?\d+(?:[.,]\d+)*%?|[^\W_]+(?:['’][^\W_]+)*")
_NEGATIONS = frozenset({"not", "no", "never", "without", "cannot", "none", "nor", "neither", "non"})
_NEGATING = ("non", "un", "in", "im", "ir", "dis")
_IGNORED = frozenset({"a", "an", "the"})
_STEMMER_LOCK = threading.Lock()
_QUANTITY_TYPES = frozenset({"TIME", "MONEY", "PERCENTAGE"})


@dataclass(frozen=True, slots=True)
class Words:
    """A text's words as they are compared: stems without articles, with where they stand."""

    stems: tuple[str, ...]
    places: tuple[tuple[int, int], ...]


@lru_cache(maxsize=20_000)
def words_of(text: str) -> Words:
    """Return the words of a text; "Employee's" and "Employee’s" are the same."""
    stems: list[str] = []
    places: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        word = unicodedata.normalize("NFKC", match.group()).casefold().replace("’", "'")
        word = word.removesuffix("'s").removesuffix("'")
        if word and word not in _IGNORED:
            stems.append(_stem(word))
            places.append(match.span())
    return Words(tuple(stems), tuple(places))


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    if word[0].isdecimal() or word[0] in "$€£":
        return word.replace(",", "")
    with _STEMMER_LOCK:  # a stemmer must not be entered by two threads
        return str(_stemmer().stemWord(word))


@lru_cache(maxsize=1)
def _stemmer():  # type: ignore[no-untyped-def]
    import Stemmer

    return Stemmer.Stemmer("english")


@lru_cache(maxsize=20_000)
def value_of(kind: str, text: str) -> Value | None:
    """Return the value of a text that is one quantity of its type, with little around it."""
    if kind not in _QUANTITY_TYPES:
        return None
    found = [q for q in quantities(text) if q.kind == kind]
    if len(found) != 1:
        return None
    outside = text[: found[0].start] + " " + text[found[0].end :]
    rest = [w for w in words_of(outside).stems if w not in _LOOSE]
    return None if rest else found[0].value


_LOOSE = frozenset(
    {"of", "for", "in", "to", "at", "by", "on", "up", "within", "than", "more", "least", "most"}
    | {"after", "everi", "per", "period", "about", "approxim", "over", "under", "less"}
    | {"no", "not", "exceed", "maximum", "minimum", "fewer", "longer", "later", "earlier"}
)
"""What may stand around a quantity without changing what it amounts to (as stems)."""


def find(kind: str, variant: str, text: str, similarity: float) -> tuple[int, int] | None:
    """Return where a text states a fact, None where it does not.

    A variant that is a quantity is found where a quantity of the text has its value. Else words
    are compared: a run of the text's words as long as the variant's, or one shorter or longer,
    must be `similarity` percent alike (normalised Levenshtein of the stems). Whatever negations
    and numbers the variant has, the run must have too, and the other way round; "may not terminate"
    does not state "terminate". Of quantities, "at least" is not "at most"; without such a word
    either fits.
    """
    value = value_of(kind, variant)
    if value is not None:
        bound = next(bound_of(variant, q) for q in _quantities(variant) if q.kind == kind)
        places = (
            q
            for q in _quantities(text)
            if q.kind == kind
            and same_value(q.value, value)
            and {bound, bound_of(text, q)} != {"least", "most"}
        )
        return next(((q.start, q.end) for q in places), None)
    wanted, words = words_of(variant).stems, words_of(text)
    if not wanted:
        return None
    sought = " ".join(wanted)
    marks = _marks(wanted)
    best: tuple[float, int, int] | None = None
    for size in sorted({len(wanted), max(len(wanted) - 1, 1), len(wanted) + 1}):
        for first in range(len(words.stems) - size + 1):
            run = words.stems[first : first + size]
            if _marks(run) != marks or _is_opposite(run, wanted):
                continue
            negated = set(words.stems[max(0, first - 2) : first]) & _NEGATIONS
            if negated and "not" not in marks and kind not in _NAMES:
                continue
            score = fuzz.ratio(sought, " ".join(run), score_cutoff=similarity)
            if score and (best is None or score > best[0]):
                best = (score, first, first + size)
    if best is None:
        return None
    return words.places[best[1]][0], words.places[best[2] - 1][1]


@lru_cache(maxsize=5_000)
def _quantities(text: str) -> Sequence[Quantity]:
    return quantities(text)


_NAMES = frozenset({"ORGANIZATION", "LOCATION"})


def _is_opposite(run: Sequence[str], wanted: Sequence[str]) -> bool:
    """Tell whether a word of one is the other's with a prefix that negates it."""
    return any(
        f"{prefix}{word}" in others and word not in others
        for words, others in ((run, wanted), (wanted, run))
        for word in words
        if len(word) > 3
        for prefix in _NEGATING
    )


def _marks(stems: Iterable[str]) -> frozenset[str]:
    """Return what must agree exactly: negations and numbers."""
    return frozenset(
        "not" if s in _NEGATIONS else s for s in stems if s in _NEGATIONS or s[-1].isdecimal()
    )


def matches(kind: str, entity: str, variant: str, similarity: float) -> bool:
    """Tell whether an extracted entity states the fact: it holds the variant or is much like it."""
    return find(kind, variant, entity, similarity) is not None
