"""Find the sentence of another document that changes a quoted sentence."""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from rag_pipeline.answering.quantities.facts import facts, plain
from rag_pipeline.answering.quantities.numbers import FactValue
from rag_pipeline.answering.reading import terms_of
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
    r"(?i)\b(?:mov|shift|postpon|reschedul|chang|reduc|rais|ris|rose|increas|lower|extend|shorten|"
    r"cut|adjust|now\b|new\b|verschob|verschieb|verleg|geändert|ändert|erhöh|gesenkt|steig|sink|"
    r"verlänger|verkürz|angepasst|jetzt\b|nun(?:mehr)?\b|neue?[nrs]?\b|künftig|"
    r"déplac|report|modifi|augment|rédui|prolong|aplaz|traslad|cambi|aument)"
)
_INSTEAD = (
    r"(?:instead of|rather than|no longer(?! than)|replac\w+|succeed\w*|previously|formerly|"
    r"statt|anstelle von|ersetzt|löst|bisher\w*|bislang|zuvor|nicht (?:mehr|länger)(?! als)|"
    r"until now|au lieu|n[’']\w+ plus|ne \w+ plus|(?:et )?non plus|et non|und nicht|and not|ya no|"
    r"remplac\w+|en lugar|sustituy\w+)"
)
_FORMER = re.compile(
    rf"(?i)\b(?:({_INSTEAD})|from|was|were|vo[mn]|war|waren|betrug|d[eu]l?)"
    r":?\s+(?:(?!\d)\w+[.,]?\s+){0,2}\W?\Z"
)
"""The words before a former value. Without `_INSTEAD`, a word of `_CHANGED` is needed."""
_NEAR = 40
"""Number of characters before a value that are read."""
_LONGEST_LINE = 300
"""Maximum number of characters of a line whose sentences give the former and the new value."""
_UNIT = re.compile(r"[\s-]*([^\W\d]+)")
_BARE = r"\s+(?:(?!\d)\w+\s+){0,2}\d+(?:[.,]\d+)*"
_NO_UNIT = (
    re.compile(rf"(?i)(\d[\s-]*([^\W\d]+|%|€)\W+(?:\w+\W+)?{_INSTEAD}{_BARE})(?=\s*(?:[,;.)]|\Z))"),
    re.compile(
        rf"(?i)(\b(?:{_INSTEAD}|from|vo[mn]|d[eu]l?){_BARE})(?=,?\s+(?:but|to|sondern|auf|mais|à|sino|a)"
        r"\s+(?:(?!\d)\w+\s+){0,2}\d[\d.,]*[\s-]*([^\W\d]+|%|€))"
    ),
)
"""A former value whose unit stands only at the new one: "16 knots, no longer 18", "from 18 to 16".

Group 1 ends with the value, and group 2 is the unit.
"""


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
    mail with `the party moves from 4 July to 11 July`, or a notice with `the limit was 10 knots, is
    now 8 knots`. If the query asks for old documents, return None.
    """
    if not sentences or asks_for(query, ""):
        return None
    chunk, start, quoted = sentences[0]
    amending = amendments(chunks).get(chunk.document_id, ())
    # Of a section that begins in an earlier chunk, the context has the heading.
    headings = chunk.context.replace(" | ", "\n")
    above = f"{headings}\n{chunk.text[: start + len(quoted)]}"
    section = section_at_end(above)
    values = {value for value in _VALUE.findall(quoted) if len(value) > 1}
    for position, (other, at, text) in enumerate(sentences):
        if other.document_id in amending:
            before = other.text[:at].rpartition("\n")[2]
            named = _NAMED.findall(text) or _NAMED.findall(before)[-1:]
            if section in named or not values.isdisjoint(_VALUE.findall(text)):
                return position
    about = terms_of(_numberless(_line(chunk, start)))
    for whole in (False, True):
        for position, (other, at, text) in enumerate(sentences):
            line = _line(other, at)
            if (
                other.document_id != chunk.document_id
                and (not whole or len(line) <= _LONGEST_LINE)
                and about & terms_of(_numberless(f"{other.title}\n{line}"))
                and _replaces(line if whole else text, quoted)
            ):
                return position
    return None


def section_at_end(text: str) -> str | None:
    """Return the number of the section in which a text ends, such as `3` or `6.2`, or None."""
    numbers: list[str] = _HEADING.findall(text) or _NUMBERED.findall(text)
    return numbers[-1] if numbers else None


def sections_named(text: str) -> set[str]:
    """Return the numbers of the sections that a text names, as in `Clause 3` or `(§ 3)`."""
    return {*_NAMED.findall(text)}


def _replaces(text: str, quoted: str) -> bool:
    """Return whether a text gives a value of the quoted sentence as the former one.

    Beside a former value, the text has another value that the quoted sentence lacks.
    """
    text, quoted = _with_units(text), plain(quoted.replace("œ", "oe"))
    ours, theirs = _values(text), _values(quoted)
    for value, start in ours.items():
        former = value in theirs and _FORMER.search(text[max(0, start - _NEAR) : start])
        if former and (former[1] or _CHANGED.search(text)):
            return any(new not in theirs and (former[1] or new[0] == value[0]) for new in ours)
    return False


@lru_cache(maxsize=2_000)
def _with_units(text: str) -> str:
    text = plain(text.replace("œ", "oe"))
    for no_unit in _NO_UNIT:
        text = no_unit.sub(r"\1 \2", text)
    return text


@lru_cache(maxsize=2_000)
def _values(text: str) -> dict[FactValue, int]:
    """Return the values of a text with their offsets. A plain number has the word after it."""
    found: dict[FactValue, int] = {}
    for one in facts(text):
        if one.kind not in ("RATE", "ORDINAL") and one.value[0] != "month name":
            unit = _UNIT.match(text, one.end) if one.value[0] == "number" else None
            value = (unit[1].lower(), one.value[1]) if unit else one.value
            found.setdefault(value[:3], one.start)  # a date without its year
    return found


def _line(chunk: ScoredChunk, at: int) -> str:
    start, end = chunk.text.rfind("\n", 0, at) + 1, chunk.text.find("\n", at)
    return chunk.text[start : end if end >= 0 else None].strip()


def _numberless(text: str) -> str:
    """Return a text without numbers and the words after them, which may be units."""
    return re.sub(r"(?m)^\W*\d+[.)](?=\s)|\d\S*(\s+\w+)?", " ", text)
