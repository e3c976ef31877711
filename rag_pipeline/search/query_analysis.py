"""Split a query into the name of a document and the question, and find the named documents.

Every run of consecutive words is compared with every document's name. The best match decides.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.chunking.sentences import sentence_ends
from rag_pipeline.search.lexical_index import DocumentIndex

_LEAST = 0.25
"""Least strength, 0 to 1, with which a word must name a document (see `DocumentIndex.named_by`)."""
_CERTAIN = (0.35, 0.45)
"""Scores between which the certainty of a name rises from 0 to 1."""
_SURELY = 0.9
"""Least score at which a name is removed from the search text though no file name has its words."""
_LEAST_ASKED = 2
"""Least number of words with terms that the search text keeps."""
_LONG = 150
"""Maximum number of words of a search text. A longer query is shortened (see `_asking`)."""

_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"[^.?!\n]*(?:[.?!](?!\s)[^.?!\n]*)*[.?!\n]?")
_BREAK = re.compile(r":\s+|\n\s*\n\s*")
_ENDS = ";:,.!?-–—"


@dataclass(frozen=True, slots=True)
class NamedDocuments:
    """Holds the row numbers of the documents that a query may name, and a score of at most 1 each.

    The score (`shares`) tells how well the query names the document.
    """

    rows: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]
    certainty: float
    """The certainty, 0 to 1, that the query names a document."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """Holds the part of a query that names a document, and the part to search for.

    `search.retrieval.parse_query` creates it, and retrievers use it. If the query names no
    document, `name` is the whole query, and `search_text` is the query or its part that asks.
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
    """Return a parsed query without a named document. A long search text is shortened."""
    return ParsedQuery(query, query, _asking(query))


def analyse(query: str, documents: DocumentIndex) -> ParsedQuery:
    """Find the consecutive words that best name a document, and remove them from the search text.

    A word's gain for a document is its strength (`DocumentIndex.named_by`) minus `_LEAST`. A word
    without terms has gain 0. The name has the highest sum of gains (Kadane's algorithm). The name
    stays in the search text if it is uncertain, or if fewer than `_LEAST_ASKED` other words remain.
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
    # Of equal sums, take the shortest run of words.
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
    """Return the documents that a word names, and the gains, shape (words, documents)."""
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
    """Extend a name by adjacent words for a kind of document, and by words such as `under the`."""

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
    """Return a text without the words of a name, or None if too few words remain.

    An introduction is removed too, such as `Under` before a name with a comma. So is a clause
    before a colon or a sentence without a question mark, if the rest has more words and asks.
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
    """Return a query of at most `_LONG` words unchanged, or the part of a longer query that asks.

    That part is the last sentences with a question mark, up to `_LONG` words. Without a question
    mark, it is the last `_LONG` words.
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
