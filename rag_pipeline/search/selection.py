"""Drop near-duplicates and irrelevant chunks from a ranking, and limit the number of chunks."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rag_pipeline.config import AdaptiveSelection, RetrieverSettings
from rag_pipeline.datamodels import ScoredChunk

_WORDS = re.compile(r"\w+")
_SHINGLE = 3
"""Number of consecutive words in a shingle."""
_ALIKE = 0.9
"""Minimum share of common shingles (Jaccard index) of two near-duplicates."""
_SIMPLE = 0.3
_COMPLEX = 0.7
_QUESTION_WORD = re.compile(r"\b(?:what|how|why|when|where|which)\b", re.IGNORECASE)
_TECHNICAL_TERM = re.compile(r"\b[A-Z][A-Za-z]*[A-Z][A-Za-z]*\b")


def varied(chunks: Sequence[ScoredChunk], settings: RetrieverSettings) -> list[int]:
    """Return the list positions of the ranked chunks to keep, in order.

    `near_duplicates` drops a chunk if a better-ranked chunk of the document or of the corpus has
    nearly the same text. Texts with different numbers are never duplicates. `most_per_document`
    limits the chunks of each document.

    Source: word shingles of Broder, On the resemblance and containment of documents, 1997.
    """
    kept: list[int] = []
    shingled: dict[str, list[_Shingles]] = {}
    counts: Counter[str] = Counter()
    for place, chunk in enumerate(chunks):
        if counts[chunk.document_id] == settings.most_per_document:
            continue
        if settings.near_duplicates != "keep":
            among = chunk.document_id if settings.near_duplicates == "document" else ""
            earlier = shingled.setdefault(among, [])
            own = _shingles_of(chunk.text)
            if any(_is_alike(own, other) for other in earlier):
                continue
            earlier.append(own)
        counts[chunk.document_id] += 1
        kept.append(place)
    return kept


class _Shingles(NamedTuple):
    shingles: frozenset[str]
    figures: frozenset[str]


def _shingles_of(text: str) -> _Shingles:
    words = _WORDS.findall(text.casefold())
    figures = frozenset(word for word in words if any(c.isdigit() for c in word))
    if len(words) < _SHINGLE:
        return _Shingles(frozenset([" ".join(words) or text]), figures)
    starts = range(len(words) - _SHINGLE + 1)
    return _Shingles(frozenset(" ".join(words[n : n + _SHINGLE]) for n in starts), figures)


def _is_alike(one: _Shingles, other: _Shingles) -> bool:
    if one.figures != other.figures:
        return False
    shared = len(one.shingles & other.shingles)
    return shared >= _ALIKE * (len(one.shingles) + len(other.shingles) - shared)


def query_complexity(query: str) -> float:
    """Return the complexity of a query, 0 to 1.

    The complexity is a sum, at most 1. Its terms are characters / 100, 0.2 per question word, 0.1
    per word with two capitals, and 0.3 per question mark after the first. The published formula
    (see `select`) also counts the first question mark.
    """
    asked = 0.2 * len(_QUESTION_WORD.findall(query))
    technical = 0.1 * len(_TECHNICAL_TERM.findall(query))
    return min(len(query) / 100 + asked + technical + 0.3 * max(query.count("?") - 1, 0), 1.0)


def select(
    query: str, ranking: Sequence[tuple[int, float]], settings: AdaptiveSelection
) -> list[tuple[int, float]]:
    """Return the first chunks of a ranking whose scaled scores are above `settings.floor`.

    Scores are scaled to 0..1 between the lowest and the highest score of the ranking. If all scores
    are equal, no chunk is dropped. `query_complexity` chooses the maximum number of chunks among
    the three values of `settings.contexts`.

    Source: "Adaptive Context Selection" in Mastra's article on context-aware evaluation (2025),
    which takes 3, 5 or 7 contexts with a relevance above 0.5.
    """
    complexity = query_complexity(query)
    few, some, many = settings.contexts
    count = few if complexity < _SIMPLE else some if complexity < _COMPLEX else many
    scores = [score for _, score in ranking]
    low = min(scores, default=0.0)
    spread = max(scores, default=0.0) - low
    relevant = [p for p in ranking if not spread or (p[1] - low) / spread > settings.floor]
    return relevant[:count]
