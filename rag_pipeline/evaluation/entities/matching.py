"""Find the place where a text states a fact, by the values of quantities or by words."""

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz

from rag_pipeline.answering.quantities.numbers import FactValue
from rag_pipeline.answering.quantities.values import bound_of, quantities, states

_TOKEN = re.compile(r"[$€£]?\d+(?:[.,]\d+)*%?|[^\W_]+(?:['’][^\W_]+)*|&")
_NEGATIONS = frozenset({"not", "no", "never", "without", "none", "nor", "neither", "non"})
_REFUSALS = frozenset("prohibit forbidden bar ban refrain abstain exclud unless".split())
_NEGATING = ("un", "in", "im", "il", "ir", "dis")
_NON = re.compile(r"non(?=[^\W\d_]{4})(?!e\w|sens)")
_CONTRACTED = re.compile(r"(can|won|shan|[^\W_]+?)(?:n't|not|'t)")
_SAME = {
    "&": "and",
    "must": "shall",
    "can": "may",
    "never": "not",
    "nobody": "no",
    "limited": "ltd",
    "incorporated": "inc",
    "corporation": "corp",
    "company": "co",
}
"""Synonyms in agreements. The second word replaces the first in comparisons."""
_IGNORED = frozenset({"a", "an", "the", "all", "any"})
_STEMMER_LOCK = threading.Lock()
_QUANTITY_TYPES = frozenset({"TIME", "MONEY", "PERCENTAGE"})


@dataclass(frozen=True, slots=True)
class Words:
    """The stems of a text's words without articles, and the spans of the words."""

    stems: tuple[str, ...]
    places: tuple[tuple[int, int], ...]


@lru_cache(maxsize=20_000)
def words_of(text: str) -> Words:
    """Return the words of a text. "Employee's" and "Employee’s" are the same word."""
    stems: list[str] = []
    places: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        for word in _parts(_folded(match.group())):
            if word not in _IGNORED:
                stems.append(_stem(word))
                places.append(match.span())
    return Words(tuple(stems), tuple(places))


def _folded(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold().replace("’", "'"))
    bare = "".join(c for c in plain if not unicodedata.combining(c))
    return bare.removesuffix("'s").removesuffix("'")


def _parts(word: str) -> Iterator[str]:
    """Yield the parts of words such as "don't" and "nontransferable", or else the word itself."""
    contracted = _CONTRACTED.fullmatch(word)
    if contracted and (word == "cannot" or "'" in word):
        said = {"can": "can", "won": "will", "shan": "shall"}.get(contracted[1], contracted[1])
        yield _SAME.get(said, said)
        yield "not"
        return
    non = _NON.match(word)
    if non:
        yield "non"
        word = word[non.end() :]
    if word:
        yield _SAME.get(word, word)


_ROLE = re.compile(r"[a-z]{3,}ees?")


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    if word[0].isdecimal() or word[0] in "$€£":
        return word.replace(",", "")
    if _ROLE.fullmatch(word):
        return word.removesuffix("s")  # the employee is not the employer
    with _STEMMER_LOCK:  # a stemmer is not safe for threads
        return str(_stemmer().stemWord(word))


@lru_cache(maxsize=1)
def _stemmer():  # type: ignore[no-untyped-def]
    import Stemmer

    return Stemmer.Stemmer("english")


@lru_cache(maxsize=20_000)
def value_of(kind: str, text: str) -> FactValue | None:
    """Return the value of the only quantity of type `kind` in a text.

    Return None for any other number of quantities, and if the text has further words, except
    `_LOOSE` and `_IGNORED`.
    """
    if kind not in _QUANTITY_TYPES:
        return None
    found = [q for q in quantities(text) if q.kind == kind]
    if len(found) != 1:
        return None
    outside = text[: found[0].start] + " " + text[found[0].end :]
    words = (_folded(match.group()) for match in _TOKEN.finditer(outside))
    rest = [w for w in words if w not in _LOOSE and w not in _IGNORED]
    return None if rest else found[0].value


_LOOSE = frozenset(
    "of for in to at by on up within than more least most after every per period about approximate "
    "approximately over under above below less no not exceed exceeding maximum minimum fewer "
    "longer later earlier latest before until capped limited "
    "frist zeitraum von bis zu innerhalb binnen mindestens wenigstens hochstens maximal spatestens "
    "am zum im seit eine einer einen der die das den dem ein "
    "dans delai de d au aux moins plus le la les un une pendant duree "
    "en plazo al menos como minimo maximo lo por mas el dias".split()
)
"""Words around a quantity that do not change its value."""


def find(kind: str, variant: str, text: str, similarity: float) -> tuple[int, int] | None:
    """Return the span where a text states a fact, or None if the text does not state it.

    A quantity matches a quantity of the same value. "At least" does not match "at most". A quantity
    without such words matches both.

    Any other variant matches a run of words with the same length, or with one word fewer or more.
    The stems must be at least `similarity` percent alike (normalised Levenshtein). If a fact has at
    least four words, the run may contain up to two other words. Both sides need the same negations
    and numbers: "may not terminate" does not state "terminate".
    """
    value = value_of(kind, variant)
    if value is not None:
        bound = next(bound_of(variant, q) for q in _quantities(variant) if q.kind == kind)
        places = (
            q
            for q in _quantities(text)
            if q.kind == kind
            and states(q.value, value)
            and {bound, bound_of(text, q)} != {"least", "most"}
        )
        return next(((q.start, q.end) for q in places), None)
    wanted, words = words_of(variant).stems, words_of(text)
    if not wanted:
        return None
    sought = " ".join(wanted)
    marks = _marks(wanted)
    best: tuple[float, int, int] | None = None
    longest = len(wanted) + (_INSERTED if len(wanted) >= _LONG else 1)
    for size in range(max(len(wanted) - 1, 1), longest + 1):
        for first in range(len(words.stems) - size + 1):
            run = words.stems[first : first + size]
            if _marks(run) != marks or _is_opposite(run, wanted):
                continue
            if "not" not in marks and kind not in _NAMES and _is_negated(words.stems, first, size):
                continue
            if size > len(wanted) and len(wanted) >= _LONG and _holds_in_order(run, wanted):
                score = similarity
            else:
                score = fuzz.ratio(sought, " ".join(run), score_cutoff=similarity)
            if score and (best is None or score > best[0]):
                best = (score, first, first + size)
    if best is None:
        return None
    return words.places[best[1]][0], words.places[best[2] - 1][1]


_LONG, _INSERTED = 4, 2
"""For a fact of at least `_LONG` words, a run may contain at most `_INSERTED` other words."""


def _holds_in_order(run: Sequence[str], wanted: Sequence[str]) -> bool:
    rest = iter(run)
    return all(word in rest for word in wanted)


_quantities = lru_cache(maxsize=5_000)(quantities)


_NAMES = frozenset({"ORGANIZATION", "LOCATION"})


def _is_negated(stems: Sequence[str], first: int, size: int) -> bool:
    """Return whether words around a run negate the run: "prohibited from …", "… is excluded"."""
    before, past = stems[max(0, first - 3) : first], first + size
    run = set(stems[first:past])
    around = {*before, *stems[past : past + 2]}
    return bool(
        _NEGATIONS & set(before[-2:])
        or before == ("without", "right", "to")
        or (_REFUSALS & around and not _REFUSALS & run)
    )


def _is_opposite(run: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether a word on one side is a word on the other side with a negating prefix."""
    return any(
        f"{prefix}{word}" in others and word not in others
        for words, others in ((run, wanted), (wanted, run))
        for word in words
        if len(word) > 3
        for prefix in _NEGATING
    )


def _marks(stems: Iterable[str]) -> frozenset[str]:
    """Return the stems that must match exactly: negations, numbers and roles like "licensee"."""
    return frozenset(
        "not" if s in _NEGATIONS else s
        for s in stems
        if s in _NEGATIONS or s[-1].isdecimal() or _ROLE.fullmatch(s)
    )
