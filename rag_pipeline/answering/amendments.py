"""Find the sentence of another document that changes a quoted sentence."""

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
_CHANGED = re.compile(
    r"(?i)\b(?:mov|shift|postpon|reschedul|chang|reduc|rais|increas|lower|extend|shorten|cut|adjust|"
    r"verschob|verschieb|verleg|geändert|ändert|erhöh|gesenkt|verlänger|verkürz|angepasst|"
    r"déplac|report|modifi|augment|rédui|prolong|aplaz|traslad|cambi|aument)"
)
_FORMER = re.compile(
    r"(?i)\b(?:(instead of|rather than|no longer|statt|anstelle von|nicht mehr|au lieu d[eu]|"
    r"en lugar del?)|from|vom?|d[eu]l?)\s+(?:(?!\d)\w+[.,]?\s+){0,2}(?=\d)"
)
_AMOUNT = re.compile(r"(\d+(?:[.,:]\d+)*)[.]?(?:st|nd|rd|th|er)?\s*([^\W\d]+|%|€|\$)")
"""A number with the word after it, such as `4 July` or `45 days`."""


Quoted = tuple[ScoredChunk, int, str]
"""A ranked chunk, the offset of a sentence in its text, and the sentence."""


def change_of(
    query: str, sentences: Sequence[Quoted], chunks: Collection[ScoredChunk]
) -> int | None:
    """Return the position of the sentence that changes the first sentence, or None.

    `sentences` are in descending order of their scores. The changing sentence is from a document
    that amends the document of the first sentence. It repeats a number of the first sentence, as in
    `from 45 days to 30 days`. Otherwise its line names the section of the first sentence. Any other
    document may change the first sentence if it gives its amount as the former one. An example is a
    mail with `the party moves from 4 July to 11 July`. If the query asks for old documents, return
    None.
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
        elif other.document_id != chunk.document_id and _replaces(text, quoted):
            return position
    return None


def _replaces(text: str, quoted: str) -> bool:
    """Return whether a text gives an amount of the quoted sentence as the former one.

    The text also has an amount that the quoted sentence lacks. Outside of their amounts, the two
    have a word of at least four letters in common.
    """
    ours, theirs = _amounts(text), _amounts(quoted)
    if ours <= theirs:
        return False
    for former in _FORMER.finditer(text):
        amount = _AMOUNT.match(text, former.end())
        if not amount or not (former[1] or _CHANGED.search(text)):
            continue
        if (amount[1], amount[2].lower()) in theirs:
            shared = _long_words(text) & _long_words(quoted)
            return bool(shared - {unit for _, unit in theirs})
    return False


def _amounts(text: str) -> set[tuple[str, str]]:
    return {(found[1], found[2].lower()) for found in _AMOUNT.finditer(text)}


def _long_words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[^\W\d_]{4,}", text)}
