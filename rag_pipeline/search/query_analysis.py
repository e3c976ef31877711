"""Split a query into the name of a document and the question, and find the named documents.

Every run of consecutive words is compared with the name, title and head of every document.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.chunking.sentences import sentence_ends
from rag_pipeline.search.lexical_index import DocumentIndex

_LEAST = 0.25
"""Minimum strength, 0 to 1, at which a word names a document (see `DocumentIndex.named_by`)."""
_CERTAIN = (0.35, 0.45)
"""Between these scores, the certainty of a name rises from 0 to 1."""
_SURELY = 0.9
"""Minimum score at which a name is removed even if the file name has none of its words."""
_LEAST_ASKED = 2
"""Minimum number of words with terms in a search text."""
_LONG = 150
"""Maximum number of words of a search text. A longer query is shortened (see `_asking`)."""

_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"[^.?!\n]*(?:[.?!](?!\s)[^.?!\n]*)*[.?!\n]?")
_BREAK = re.compile(r"[:;]\s+|\s[-–—]\s+|\n\s*\n\s*")
_SEMICOLON = re.compile(r";\s+")
_QUOTED = re.compile(r"[\"“„«»]([^\"“”„«»\n]{1,200})[\"“”«»]")
_CAPITALIZED = re.compile(r"(?<![\w.-])(?!\d)[^\W_a-zß-ÿ][\w-]*")
_COMMA = re.compile(r",\s+")
_COMMON = 0.5
"""A term in at least this share of the documents is common and distinguishes no document."""
_OPENING = 2
"""Number of words at the start of a clause that may be rare, such as `According to`."""
_ASKS = re.compile(
    r"(?:and |so )?(?:who|whom|whose|what|when|where|why|how|which|whether|if|do|does|did|is|are|"
    r"was|were|am|can|could|may|might|must|shall|should|will|would|has|have|had|tell|list|name|"
    r"give|show|explain|describe|wer|wem|wen|wie|was|wann|wo|warum|welche\w?|wieviel|darf|dürfen|"
    r"kann|können|muss|müssen|ist|sind|hat|haben|gibt|qui|que|quoi|quand|où|comment|pourquoi|"
    r"combien|quel\w*|est-ce|peut|doit|qué|quién\w*|cuál\w*|cuándo|dónde|cómo|cuánt\w*|puede\w*|"
    r"debe\w*|chi|che|quale|quando|dove|come|può|wat|wanneer|waar|hoe\w*|welk\w?)\b",
    re.I,
)
"""Matches the first word of a question or a request."""
_OF_ASKER = re.compile(
    r"(?i)(?:(?:hello|hi|hey|hallo|bonjour|hola),? )?(?:i|i'\w+|we|we'\w+|my|our|ich|wir|meine?|"
    r"unsere?|je|j'\w+|nous|mon|ma|mes|notre|nos|yo|mi|mis|nosotr[oa]s|nuestr[oa]s?)\b"
)
"""Matches the first words of a statement about the person who asks."""
_TURNING = frozenset(
    "know tell wonder wondering curious question hello hi hey please dear sorry thanks inform ask "
    "asking wissen frage hallo bitte savoir question bonjour saber pregunta hola".split()
)
_AROUND = _TURNING | frozenset(
    "a about an and anyone i'd i'm am can could do does everybody excuse for got have i if is it "
    "just kindly let like me morning my need one out quick quickly short someone team the there to "
    "trying us want was we were whether will wish would you your all afternoon good here ich "
    "möchte gerne eine kurze können sie mir sagen je voudrais une quiero una".split()
)
"""Words of an address before a question. An address has at least one word of `_TURNING`."""
_ENDS = ";:,.!?-–—"


@dataclass(frozen=True, slots=True)
class NamedDocuments:
    """The documents that a query may name, as row numbers of the document index.

    `shares` has the score of each document, at most 1. The best document has 1.
    """

    rows: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]
    certainty: float
    """The certainty, 0 to 1, that the query names a document."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The part of a query that names a document, and the part to search for.

    `search.retrieval.parse_query` makes it for the retrievers. If the query names no document,
    `name` is the whole query, and `search_text` is the query or its part that asks.
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
    without terms has gain 0. The name is the run of words with the highest sum of gains (Kadane's
    algorithm). An uncertain name stays in the search text. A name also stays if fewer than
    `_LEAST_ASKED` other words remain.
    """
    parsed = whole(query)
    text = _without_address(parsed.search_text)
    parsed = replace(parsed, search_text=text)
    words = [_Word(*w.span(), documents.terms(w[0])) for w in _WORD.finditer(text)]
    candidates, gains = _gains(text, words, documents)
    if documents.count < 2 or not len(candidates):
        return parsed
    best, scores, start, end = _best_run(words, gains, _segments(text, words))
    low, high = _CERTAIN
    certainty = float(np.clip((scores[best] - low) / (high - low), 0, 1))
    named = NamedDocuments(candidates, scores / max(scores[best], 1e-9), certainty)
    own = documents.name_terms(documents.document_ids[int(candidates[best])].as_py())
    in_name = any(term in own for word in words[start:end] for term in word.terms)
    if certainty and (in_name or scores[best] >= _SURELY):
        start, end = _with_kind(words, start, end, documents.kinds)
        search_text = _without(text, words, start, end, documents)
        if search_text is not None:
            name = text[words[start].start : words[end - 1].end].strip(_ENDS)
            return ParsedQuery(query, name, search_text, named)
    return ParsedQuery(query, query, text, named)


def _segments(text: str, words: list[_Word]) -> list[tuple[int, int]]:
    """Return the first word and the last word + 1 of each sentence, clause and question."""
    ends = {*sentence_ends(text, 0, len(text)), *(m.end() for m in _SEMICOLON.finditer(text))}
    for breaks in (_BREAK, _COMMA):
        ends |= {m.end() for m in breaks.finditer(text) if _ASKS.match(text, m.end())}
    firsts = [n for n, word in enumerate(words) if word.start in ends]
    return list(pairwise(sorted({0, *firsts, len(words)})))


def _best_run(
    words: list[_Word], gains: npt.NDArray[np.float64], segments: list[tuple[int, int]]
) -> tuple[int, npt.NDArray[np.float64], int, int]:
    """Return the best candidate, each candidate's score, and start and end of the best name."""
    runs = []
    for first, last in segments:
        sums = np.vstack([np.zeros((1, gains.shape[1])), np.cumsum(gains[first:last], axis=0)])
        runs.append((first, sums, sums - np.minimum.accumulate(sums, axis=0)))
    scores = np.max([stretches.max(axis=0) for _, _, stretches in runs], axis=0)
    best = int(scores.argmax())
    first, sums, stretches = max(runs, key=lambda run: float(run[2][:, best].max()))
    end = int(stretches[:, best].argmax())
    # The shortest run wins among runs of equal sums.
    start = end - int(sums[: end + 1, best][::-1].argmin())
    return best, scores, *_shortest(words, gains[:, best], first + start, first + end)


def _shortest(
    words: list[_Word], gains: npt.NDArray[np.float64], start: int, end: int
) -> tuple[int, int]:
    """Return the first word and the last word + 1 of the shortest part with all naming terms."""
    naming = [
        (number, term)
        for number in range(start, end)
        if gains[number] > 0
        for term in words[number].terms[:1] or [str(number)]
    ]
    count = len({term for _, term in naming})
    last: dict[str, int] = {}
    found = start, end
    for number, term in naming:
        last[term] = number
        first = min(last.values())
        if len(last) == count and number + 1 - first < found[1] - found[0]:
            found = first, number + 1
    return found


def _whole_names(
    text: str, words: list[_Word], documents: DocumentIndex
) -> list[tuple[int, list[int]]]:
    """Return the row of each document whose whole name is quoted, with the name's word numbers.

    Capitalized words count as quoted, except at the start of a sentence and except `kinds`.
    """
    named = [(found.span(), found[1]) for found in _QUOTED.finditer(text)]
    for before, word in pairwise(words):
        found = _CAPITALIZED.search(text, word.start, word.end)
        if found and text[before.end - 1] not in ".?!:;" and not documents.kinds & {*word.terms}:
            named.append((found.span(), found[0]))
    return [
        (row, within)
        for (start, end), name in named
        for row in documents.rows_named(name)
        if (within := [n for n, w in enumerate(words) if w.start < end and w.end > start])
    ]


def _gains(
    text: str, words: list[_Word], documents: DocumentIndex
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the rows of documents that words may name, and the gains, shape (words, documents)."""
    known = {t: documents.named_by(t) for t in {t for word in words for t in word.terms}}
    naming = [found.rows[found.scores > _LEAST] for found in known.values()]
    quoted = _whole_names(text, words, documents)
    rows = np.array([row for row, _ in quoted], np.int64)
    candidates = np.unique(np.concatenate([rows, *naming]))
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
    for row, numbers in quoted:
        gains[numbers, np.searchsorted(candidates, row)] = 1 - _LEAST
    return candidates, gains


def _with_kind(words: list[_Word], start: int, end: int, kinds: frozenset[str]) -> tuple[int, int]:
    """Extend a name by adjacent words for a kind of document, and by words such as `under the`."""
    while end < len(words) and words[end].terms and kinds.issuperset(words[end].terms):
        end += 1
    at = start
    while at and kinds.issuperset(words[at - 1].terms):
        at -= 1
        if words[at].terms:
            start = at
    while start > 1 and not words[start - 1].terms:
        start -= 1
    return start, end


def _without(
    text: str, words: list[_Word], start: int, end: int, documents: DocumentIndex
) -> str | None:
    """Return a text without the words of a name, or None if too few words remain.

    The part (sentence or clause) around the name is also removed in these cases:

    - The part ends with a colon, semicolon or dash. The rest is longer, or only the rest starts
      like a question.
    - The part is a sentence without a question mark. The rest is longer and has a question mark.
    - Only the rest starts like a question. The part is about the person who asks, or all its words
      after the first two are common (see `_is_common`). Even a single word may remain.
    """
    left = sum(1 for word in words[:start] if word.terms)
    right = sum(1 for word in words[end:] if word.terms)
    before, after = text[: words[start].start], text[words[end - 1].end :]
    if left < _LEAST_ASKED <= right and text[words[end - 1].end - 1] in ";:,.":
        before, left = "", 0
    others = [word for word in words[:start] + words[end:] if word.terms]
    name = words[start].start, len(text[: words[end - 1].end].rstrip(_ENDS))
    for breaks in ((_BREAK,), (_BREAK, _COMMA)):
        first, last = _part(text, *name, breaks)
        inside = [word for word in others if first <= word.start < last]
        outside = len(others) - len(inside)
        part, rest = text[first:last].rstrip(), f"{text[:first].rstrip()} {text[last:]}".strip()
        if not outside:
            continue
        opens = [word for word in words if first <= word.start][:_OPENING]
        rest = _without_address(rest)
        asks = _ASKS.match(rest) is not None and not _ASKS.match(part)
        leads_up = asks and (
            _OF_ASKER.match(part) is not None
            or all(word in opens or _is_common(word, documents) for word in inside)
        )
        if outside < _LEAST_ASKED and not leads_up:
            continue
        if part.endswith(tuple(":;-–—")):
            leads_up = asks or 2 * outside > len(others)
        elif _COMMA not in breaks:
            asks = "?" in rest and not part.endswith("?")
            leads_up = leads_up or (asks and 2 * outside > len(others))
        if leads_up:
            is_cut = part.endswith("?") and not rest.endswith("?")
            return f"{rest.rstrip(' ,')}?" if is_cut else rest
    asked = f"{before.rstrip(' ,;:')} {after.lstrip(' ,;:')}".strip()
    return asked if left + right >= _LEAST_ASKED else None


def _is_common(word: _Word, documents: DocumentIndex) -> bool:
    """Return whether a word names a kind of document, or occurs in half of the documents."""
    held = (documents.share_holding(term) >= _COMMON for term in word.terms)
    return documents.kinds.issuperset(word.terms) or all(held)


def _without_address(text: str) -> str:
    """Return a text without the words, such as `Hello, can you tell me`, before its question."""
    words = list(_WORD.finditer(text))
    said = [word[0].strip(_ENDS).lower().replace("’", "'") for word in words]
    count = next((n for n, word in enumerate(said) if word not in _AROUND), len(said))
    last = max((n for n, word in enumerate(said[:count]) if word in _TURNING), default=-1) + 1
    for word in words[last : count + 1] if last else ():
        rest = text[word.start() :]
        if _ASKS.match(rest) and len(rest.split()) > _LEAST_ASKED:
            return rest
    return text


def _part(text: str, start: int, end: int, patterns: Iterable[re.Pattern[str]]) -> tuple[int, int]:
    """Return the start and end of the part around a span. Sentences and `patterns` end parts."""
    found = (match.end() for pattern in patterns for match in pattern.finditer(text))
    breaks = [*sentence_ends(text, 0, len(text)), *found]
    first = max((at for at in breaks if at <= start), default=0)
    return first, min((at for at in breaks if at >= end), default=len(text))


def _asking(query: str) -> str:
    """Return a query of at most `_LONG` words, or the last questions or words of a longer query."""
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
