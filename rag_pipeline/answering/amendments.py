"""Find the sentence of an amending document that changes a quoted sentence."""

import re
from collections.abc import Collection, Sequence

from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.search.standing import amendments, asks_for

_SECTION_WORD = (
    r"(?:§§?|\b(?:clauses?|sections?|articles?|paragraphs?|points?|items?|no|nr|number|nummer|"
    r"ziffer|artikel|abschnitt|punkt|absatz|klausel|cláusula|artículo)\b\.?)"
)
_NUMBER = r"(\d{1,3}(?:\.\d{1,3})*)"
_HEADING = re.compile(rf"(?mi)^#+[ \t]+(?:{_SECTION_WORD}[ \t]*)?{_NUMBER}\.?\)?[ \t]+\S")
_NUMBERED = re.compile(rf"(?mi)^(?:{_SECTION_WORD}[ \t]*)?{_NUMBER}\.?\)?[ \t]+\S")
_NAMED = re.compile(rf"(?i){_SECTION_WORD}[ \t]*{_NUMBER}")
_VALUE = re.compile(r"\b(?!(?:19|20)\d\d\b)\d+(?:[.,]\d+)*")
"""A number that is no year."""


Quoted = tuple[ScoredChunk, int, str]
"""A ranked chunk, the offset of a sentence in its text, and the sentence."""


def change_of(
    query: str, sentences: Sequence[Quoted], chunks: Collection[ScoredChunk]
) -> int | None:
    """Return the position of the sentence that changes the first sentence, or None.

    `sentences` are in descending order of their scores. The changing sentence is from a document
    that amends the document of the first sentence. It repeats a number of the first sentence, as in
    `from 45 days to 30 days`. Otherwise its line names the section of the first sentence. If the
    query asks for old documents, return None.
    """
    if not sentences or asks_for(query, ""):
        return None
    chunk, start, quoted = sentences[0]
    amending = amendments(chunks).get(chunk.document_id, ())
    above = f"{chunk.context}\n{chunk.text[: start + len(quoted)]}"
    section = (_HEADING.findall(above) or _NUMBERED.findall(above) or [None])[-1]
    values = {value for value in _VALUE.findall(quoted) if len(value) > 1}
    for position, (other, at, text) in enumerate(sentences):
        if other.document_id in amending:
            before = other.text[:at].rpartition("\n")[2]
            named = _NAMED.findall(text) or _NAMED.findall(before)[-1:]
            if section in named or not values.isdisjoint(_VALUE.findall(text)):
                return position
    return None
