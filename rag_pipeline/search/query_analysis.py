"""Query -> the words that name a document, the words that ask, and the documents that are named.

Every stretch of words is tried as the name of every document; the best match decides.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.chunking.sentences import sentence_ends
from rag_pipeline.search.lexical_index import DocumentIndex

_LEAST = 0.25
"""Degree, 0..1, to which a word must name a document; a lower degree counts against the reading."""
_CERTAIN = (0.35, 0.45)
"""Score above which a reading counts as a name, and score from which it counts fully."""
_SURELY = 0.9
"""Score from which words that are in no file name are taken out of the search text."""
_LEAST_ASKED = 2
"""Least number of words with terms that the search text keeps."""
_LONG = 150
"""Maximum words of a search text; of a longer query only the part that asks is searched for."""

_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"[^.?!\n]*(?:[.?!](?!\s)[^.?!\n]*)*[.?!\n]?")
_BREAK = re.compile(r":\s+|\n\s*\n\s*")
_ENDS = ";:,.!?-–—"


@dataclass(frozen=True, slots=True)
class NamedDocuments:
    """The documents that a query may name, by number, and how well it names each, at most 1."""

    rows: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]
    certainty: float
    """0..1; 0 if nothing is named for certain."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query taken apart: the part that names a document, and the part to search for.

    Made by `search.retrieval.parse_query`; read by retrievers. Both parts are the whole text if no
    document is named.
    """

    text: str
    name: str
    search_text: str
    named: NamedDocuments | None = field(default=None, compare=False)


class _Word(NamedTuple):
    start: int
    end: int
    terms: list[str]


def whole(query: str) -> ParsedQuery:
    """Return a query that names no document; of a long query the part that asks is searched for."""
    return ParsedQuery(query, query, _asking(query))


def analyse(query: str, documents: DocumentIndex) -> ParsedQuery:
    """Find the stretch of words that best names a document, and take it out of the search text.

    A word counts for a document by how far it names it (`DocumentIndex.named_by`) less `_LEAST`. A
    word without terms counts 0. The name is the stretch with the highest sum (Kadane's algorithm).
    It stays in the search text if it is no certain name, or if hardly any other word is left.
    """
    parsed = whole(query)
    text = parsed.search_text
    words = [_Word(*w.span(), documents.terms(w[0])) for w in _WORD.finditer(text)]
    candidates, gains = _gains(words, documents)
    if len(documents) < 2 or not len(candidates):
        return parsed
    sums = np.concatenate([np.zeros((1, len(candidates))), np.cumsum(gains, axis=0)])
    stretches = sums - np.minimum.accumulate(sums, axis=0)
    scores = stretches.max(axis=0)
    best = int(scores.argmax())
    end = int(stretches[:, best].argmax())
    # the shortest of equal stretches
    start = end - int(sums[: end + 1, best][::-1].argmin())
    low, high = _CERTAIN
    certainty = float(np.clip((scores[best] - low) / (high - low), 0, 1))
    named = NamedDocuments(candidates, scores / max(scores[best], 1e-9), certainty)
    own = documents.name_terms(documents.document_ids[int(candidates[best])].as_py())
    in_name = any(term in own for word in words[start:end] for term in word.terms)
    if certainty and (in_name or scores[best] >= _SURELY):
        start, end = _with_kind(words, start, end, documents.kinds)
        search_text = _without(text, words, start, end)
        if search_text is not None:
            name = text[words[start].start : words[end - 1].end].strip(_ENDS)
            return ParsedQuery(query, name, search_text, named)
    return ParsedQuery(query, query, text, named)


def _gains(
    words: list[_Word], documents: DocumentIndex
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the documents that some word names, and each word's count for each, shape (w, d)."""
    known = {t: documents.named_by(t) for t in {t for word in words for t in word.terms}}
    naming = [found.rows[found.scores > _LEAST] for found in known.values()]
    candidates = np.unique(np.concatenate([np.empty(0, np.int64), *naming]))
    gains = np.zeros((len(words), len(candidates)))
    if not len(candidates):
        return candidates, gains
    for gain, word in zip(gains, words, strict=True):
        for term in word.terms:
            rows, shares = known[term]
            at = np.minimum(np.searchsorted(candidates, rows), len(candidates) - 1)
            meant = candidates[at] == rows
            gain[at[meant]] = np.maximum(gain[at[meant]], shares[meant])
        if word.terms:
            gain -= _LEAST
    return candidates, gains


def _with_kind(words: list[_Word], start: int, end: int, kinds: frozenset[str]) -> tuple[int, int]:
    """Widen a name by the words for a kind of document around it, and by a lead: `under the`."""

    def kind(word: _Word) -> bool:
        return all(term in kinds for term in word.terms)

    while end < len(words) and words[end].terms and kind(words[end]):
        end += 1
    at = start
    while at and kind(words[at - 1]):
        at -= 1
        if words[at].terms:
            start = at
    while start > 1 and not words[start - 1].terms:
        start -= 1
    return start, end


def _without(text: str, words: list[_Word], start: int, end: int) -> str | None:
    """Return a text without the words of a name; None if the rest hardly asks anything.

    Words that only lead up to the question go too: `Under` before a name with a comma; the clause
    before a colon and a sentence beside the question, if they have fewer words than the rest.
    """
    left = sum(1 for word in words[:start] if word.terms)
    right = sum(1 for word in words[end:] if word.terms)
    before, after = text[: words[start].start], text[words[end - 1].end :]
    if left < _LEAST_ASKED <= right and text[words[end - 1].end - 1] in ";:,.":
        before, left = "", 0
    first, last = _part(text, words[start].start, len(text[: words[end - 1].end].rstrip(_ENDS)))
    others = [word for word in words[:start] + words[end:] if word.terms]
    outside = sum(1 for word in others if not first <= word.start < last)
    part, rest = text[first:last].rstrip(), f"{text[:first].rstrip()} {text[last:]}".strip()
    leads_up = part.endswith(":") or ("?" in rest and not part.endswith("?"))
    if leads_up and outside >= _LEAST_ASKED and 2 * outside > len(others):
        return rest
    asked = f"{before.rstrip(' ,;:')} {after.lstrip(' ,;:')}".strip()
    return asked if left + right >= _LEAST_ASKED else None


def _part(text: str, start: int, end: int) -> tuple[int, int]:
    breaks = [*sentence_ends(text, 0, len(text)), *(m.end() for m in _BREAK.finditer(text))]
    first = max((at for at in breaks if at <= start), default=0)
    return first, min((at for at in breaks if at >= end), default=len(text))


def _asking(query: str) -> str:
    """Return a query of at most `_LONG` words; of a longer query its questions or its end.

    The questions are the last sentences that end with a question mark, at most `_LONG` words.
    """
    words = list(_WORD.finditer(query))
    if len(words) <= _LONG:
        return query
    asking: list[str] = []
    left = _LONG
    for sentence in reversed(_SENTENCE.findall(query)):
        if sentence.rstrip().endswith("?") and len(sentence.split()) <= left:
            asking.insert(0, sentence.strip())
            left -= len(sentence.split())
    return " ".join(asking) or query[words[-_LONG].start() :]
