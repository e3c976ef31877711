"""Find a question's names (people, places, products, years) that do not occur in the passages."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from rapidfuzz import fuzz

from rag_pipeline.answering.matching import LEAST_SIMILAR, words_of
from rag_pipeline.answering.reading import has_terms
from rag_pipeline.answering.tables import DocumentOf
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.loading.languages import language_of
from rag_pipeline.loading.quality import dictionary

_WORD = re.compile(r"[^\W_]+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_CODE = re.compile(r"\b[A-Za-z]{1,6}-\d+[A-Za-z]?\b")
_IDENTIFIER = re.compile(
    r"(?<![\w/.-])(?:(?P<kind>[^\W\d_]{3,}) (?P<number>\d+(?:[-/.]\d+)*)(?![\w%])"
    r"|(?P<code>[A-Z]+(?:[-/.][A-Z\d]+)+|[A-Za-z]+\d[A-Za-z\d]*))"
)
"""A code such as `G-SKLC`, or a number after a word, such as `hall 3`."""
_CAPITALIZED = re.compile(r"(?!^)(?<![.?!:] )\b[A-Z][\w-]*[a-z][\w-]*")
_STARTS = re.compile(r"(?:\A|[.?!:;]|[-–—(\"“¿¡])\s*\Z")
"""The end of the text before a word that starts a sentence or clause."""
NO_NAMES = frozenset(
    "january february march april may june july august september october november december monday "
    "tuesday wednesday thursday friday saturday sunday".split()
)
"""Capitalized words that texts write in other ways, such as `2024-06-18`."""
_ADJECTIVE = ("an", "ans", "ese", "ish")
"""Endings of adjectives such as `Danish`. Texts may have the noun instead."""
_SHORTEST = 4
_LONG = 6


def capitalized(question: str) -> list[str]:
    """Return the names in a question, or [] if it is German. German capitalizes all nouns."""
    names = _CAPITALIZED.findall(question)
    return [] if names and language_of(question) == "de" else names


def unheld_names(question: str, chunks: Iterable[ScoredChunk]) -> list[str]:
    """Return the words of names in a question that no chunk, title, context or id holds.

    A name is a year, a code such as `R15` or `H-120`, or a run of capitalized words inside a
    sentence. German capitalizes all nouns. In a German question, a run therefore has at least two
    words, and the German dictionary has none of them. The last letter of a word may differ, and the
    last two letters of a word with more than 6 letters. So may other letters of a word that is
    misspelt. If a chunk holds a part of a name, such as `Party`, the other part counts only if the
    English dictionary lacks it.
    """
    names = _names(question)
    if not names:
        return []
    held = "\n".join(map(about, chunks)).casefold()
    found = []
    for name in names:
        missing = _missing(name, held)
        if len(missing) < len(name):
            missing = [word for word in missing if word not in dictionary("en")]
        found += missing
    return found


def is_of_other_name(
    question: str, cited: ScoredChunk, chunks: Sequence[ScoredChunk], document_of: DocumentOf
) -> bool:
    """Return whether the document of a cited chunk lacks a name that another document's chunk has.

    The name is one of the question's (see `unheld_names`).
    """
    document = document_of(cited)
    own = f"{about(cited)}\n{document.text if document else ''}".casefold()
    lacking = {_stem(word) for name in _names(question) for word in _missing(name, own)}
    others = (about(c).casefold() for c in chunks if c.document_id != cited.document_id)
    return any(stem in text for text in others for stem in lacking)


def lacks_year(question: str, chunk: ScoredChunk) -> bool:
    """Return whether a question names years that a chunk, its title, context and id all lack.

    Another chunk of the same document may have another year.
    """
    years = _YEAR.findall(question)
    return bool(years) and not any(year in about(chunk) for year in years)


def about(chunk: ScoredChunk) -> str:
    """Return a chunk's text, context, title and document id, joined by newlines."""
    return f"{chunk.text}\n{chunk.context}\n{chunk.title}\n{chunk.document_id}"


def _missing(words: Iterable[str], held: str) -> list[str]:
    """Return the words that a text in lower case lacks, also with other endings or misspelt."""
    return [w for w in words if _stem(w) not in held and not _is_misspelt(w, held)]


def _stem(word: str) -> str:
    if any(map(str.isdigit, word)):
        return word
    return word[: max(_SHORTEST, len(word) - (2 if len(word) > _LONG else 1))]


def _is_misspelt(word: str, held: str) -> bool:
    """Return whether a text in lower case has a word that differs by typing errors only."""
    return len(word) >= _LONG and any(
        fuzz.ratio(word, other) >= LEAST_SIMILAR
        for other in words_of(held)
        if other[0] == word[0] and other.isalpha()
    )


def of_named(
    question: str, chunks: Sequence[ScoredChunk], document_of: DocumentOf
) -> list[ScoredChunk]:
    """Return the chunks without those of other things than the question's identifiers name.

    A chunk, or its document, is of another thing if it lacks the question's identifiers of a form
    and has others of that form, such as `G-SKLB` for `G-SKLC`. Identifiers that no document has do
    not count. If all chunks are of other things, return them all.
    """
    if not (asked := _identifiers(question)):
        return list(chunks)
    held: dict[tuple[str, str], frozenset[tuple[str, str]]] = {}
    for chunk in chunks:
        key = chunk.corpus, chunk.document_id
        if key not in held:
            document = document_of(chunk)
            held[key] = _identifiers(document.text if document else "")
        held[key] |= _identifiers(about(chunk))
    asked &= frozenset[tuple[str, str]]().union(*held.values())

    def is_of_another(own: frozenset[tuple[str, str]]) -> bool:
        forms = {form for form, _ in asked} & {form for form, _ in own}
        return bool(forms - {form for form, _ in own & asked})

    kept = [
        chunk
        for chunk in chunks
        if not is_of_another(held[chunk.corpus, chunk.document_id])
        and not is_of_another(_identifiers(about(chunk)))
    ]
    return kept or list(chunks)


@lru_cache(maxsize=1_000)
def _identifiers(text: str) -> frozenset[tuple[str, str]]:
    """Return the identifiers of a text, each with its form, such as (`g-a`, `g-sklc`)."""
    found = set[tuple[str, str]]()
    for match in _IDENTIFIER.finditer(text):
        if code := (match["code"] or "").casefold():
            form = re.sub(r"\d+", "0", re.sub(r"(?<=[^a-z])[a-z]+", "a", code))
            found.add((form, code))
        elif has_terms(match["kind"]) and not _YEAR.fullmatch(match["number"]):
            found.add((match["kind"].casefold(), match["number"]))
    return frozenset(found)


@lru_cache(maxsize=256)
def _names(question: str) -> list[list[str]]:
    words = list(_WORD.finditer(question))
    alone = [[m[0].casefold()] for m in words if _YEAR.fullmatch(m[0]) or _is_code(m[0])]
    alone += [[code.casefold()] for code in _CODE.findall(question)]
    shouted = question.isupper()
    proper = [
        not shouted and m[0][0].isupper() and not _STARTS.search(question[: m.start()])
        for m in words
    ]
    if is_german := any(proper) and language_of(question) == "de":
        known = dictionary("de")
        proper = [
            own and bool(known) and m[0].casefold() not in known
            for own, m in zip(proper, words, strict=True)
        ]
    runs: list[list[str]] = []
    for is_name, run in groupby(zip(proper, words, strict=True), key=itemgetter(0)):
        own = [m[0].casefold() for _, m in run] if is_name else []
        usual = [w for w in own if w in NO_NAMES or w.endswith(_ADJECTIVE) or len(w) < _SHORTEST]
        runs.append([] if is_german and len(own) < 2 else [w for w in own if w not in usual])
    return [*alone, *filter(None, runs)]


def _is_code(word: str) -> bool:
    has_both = any(map(str.isdigit, word)) and any(map(str.isalpha, word))
    return has_both and len(word) > 2 and word[0].isalpha()
