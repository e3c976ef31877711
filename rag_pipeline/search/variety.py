"""Ranked chunks -> the same without near-duplicates and beyond no document's quota."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rag_pipeline.config import RetrieverSettings
from rag_pipeline.datamodels import ScoredChunk

_WORDS = re.compile(r"\w+")
_SHINGLE = 3
"""Number of words in a row that are compared as one."""
_ALIKE = 0.9
"""Share of both texts' shingles from which on they say the same (Jaccard)."""


def is_varied(settings: RetrieverSettings) -> bool:
    """Return whether any chunk may be left out."""
    return settings.near_duplicates != "keep" or settings.most_per_document is not None


def varied(chunks: Sequence[ScoredChunk], settings: RetrieverSettings) -> list[int]:
    """Return the places of the chunks that stay, of ranked ones, in order.

    A chunk goes that says nearly what a better one says, in the same document or in the whole
    corpus as `near_duplicates` sets it, and one past the `most_per_document` of its document.
    Texts with other figures are no duplicates. They are compared by their word shingles (Broder,
    On the resemblance and containment of documents, 1997), exactly: there are few of them.
    """
    kept: list[int] = []
    shingled: dict[str, list[_Said]] = {}
    counts: Counter[str] = Counter()
    for place, chunk in enumerate(chunks):
        if counts[chunk.document_id] == settings.most_per_document:
            continue
        if settings.near_duplicates != "keep":
            among = chunk.document_id if settings.near_duplicates == "document" else ""
            earlier = shingled.setdefault(among, [])
            own = _said(chunk.text)
            if any(_is_alike(own, other) for other in earlier):
                continue
            earlier.append(own)
        counts[chunk.document_id] += 1
        kept.append(place)
    return kept


class _Said(NamedTuple):
    shingles: frozenset[str]
    figures: frozenset[str]


def _said(text: str) -> _Said:
    words = _WORDS.findall(text.casefold())
    figures = frozenset(word for word in words if any(c.isdigit() for c in word))
    if len(words) < _SHINGLE:
        return _Said(frozenset([" ".join(words) or text]), figures)
    starts = range(len(words) - _SHINGLE + 1)
    return _Said(frozenset(" ".join(words[n : n + _SHINGLE]) for n in starts), figures)


def _is_alike(one: _Said, other: _Said) -> bool:
    if one.figures != other.figures:
        return False
    shared = len(one.shingles & other.shingles)
    return shared >= _ALIKE * (len(one.shingles) + len(other.shingles) - shared)
