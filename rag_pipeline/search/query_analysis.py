"""Query -> the part that names a document, and the part that asks about it."""

import re
from dataclasses import dataclass

from rag_pipeline.search.lexical_index import DocumentIndex

NAMES_A_DOCUMENT = 0.25
"""How far a document's name and head must cover a part of the query for it to name the document.

Parts that only set the scene share a frequent word or two with a head (below 0.1), parts that
name a document most of their rare ones (0.3 to 0.7).
"""

_SEGMENT_END = re.compile(r"[;:?!\n]+|(?<=\w\w)\.\s")


@dataclass(frozen=True, slots=True)
class Question:
    """A query taken apart; `name` and `ask` are both the whole text where no document is named."""

    text: str
    name: str
    ask: str

    @property
    def names_document(self) -> bool:
        """Return whether the query was split."""
        return self.name != self.text


def whole(query: str) -> Question:
    """Return a query that is searched with as it is."""
    return Question(query, query, query)


def analyse(query: str, documents: DocumentIndex) -> Question:
    """Split a query whose leading segments name a document from its last segment, which asks.

    Segments end at `;`, `:`, `?`, `!`, a line's or a sentence's end. A segment before the last
    belongs to the name if some document's name and head cover `NAMES_A_DOCUMENT` of it, else to
    what is asked.
    """
    segments = [s.strip() for s in _SEGMENT_END.split(query) if s.strip()]
    if len(segments) < 2:
        return whole(query)
    naming = [s for s in segments[:-1] if _names_one(s, documents)]
    if not naming:
        return whole(query)
    asking = [s for s in segments[:-1] if s not in naming]
    return Question(query, " ".join(naming), " ".join([*asking, segments[-1]]))


def _names_one(segment: str, documents: DocumentIndex) -> bool:
    return bool(documents.scores(segment).max(initial=0.0) >= NAMES_A_DOCUMENT)
