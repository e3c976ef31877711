"""Document + chunks -> the short context that is put before each chunk when it is indexed.

`structural` costs nothing and depends on the document's text alone: what the document is, between
whom and of when, the headings above the chunk, the sentence or block that it continues, and the
defined terms that it uses.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rag_pipeline.config import Contextualizer, NoContext
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document

_HEAD = 2_000
_LINE = 300
_PIECE = 100
_PARTIES = 160
_MAX_DEPTH = 8

_MARKDOWN = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_NUMBERED = re.compile(
    r"[ \t]*(?:(?:article|section|chapter|part|schedule|annex|exhibit|§)[ \t]*)?"
    r"(?:\d{1,3}(?:\.\d{1,3}){0,4}|[IVXLC]{1,6})[.):]?[ \t]+(?=[A-Z\"“‘'])",
    re.IGNORECASE,
)
_LIST_ITEM = re.compile(
    r"[ \t]*(?:[-*•·–][ \t]|\(?[A-Za-z][.)][ \t]|\(?[ivx]{1,5}[.)][ \t]|\(?\d{1,2}[.)][ \t])"
)
_BETWEEN = re.compile(r"\b(?:between|by and among|entered into by)\b[:\s]+(.{3,400})", re.DOTALL)
_PARTIES_END = re.compile(
    r"(?:\.\s+(?=[A-Z])|;|\n\s*\n|\bwhereas\b|\bcollectively\b|\bwhich\b)", re.IGNORECASE
)
_ASIDE = re.compile(r"\([^()]{0,200}\)|[“”\"*_]")
_DATE = re.compile(
    r"\b(?:\d{1,2}(?:st|nd|rd|th)?[ \t]+(?:of[ \t]+)?)?"
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
    r"(?:[ \t]+\d{1,2}(?:st|nd|rd|th)?)?,?[ \t]+\d{4}\b|\b\d{4}-\d{2}-\d{2}\b",
    re.IGNORECASE,
)
_DEFINED = re.compile(
    r"[“\"*]{1,3}([A-Z][A-Za-z-]+(?:[ \t][A-Z][A-Za-z-]+){0,3})[”\"*]{1,3}"
    r"[ \t]+(?:means?|shall mean|refers? to|is|are)\b([^\n.;]{0,120})"
)


def contextualize(
    document: Document, chunks: Sequence[Chunk], settings: Contextualizer
) -> list[ContextualizedChunk]:
    """Return the chunks, in their order, each with its context (empty for `none`).

    Linear in the document's length; a context has at most `max_characters`.
    """
    if isinstance(settings, NoContext):
        return [ContextualizedChunk(chunk, "") for chunk in chunks]
    outline = _Outline.of(document)
    return [
        ContextualizedChunk(chunk, _joined(outline.pieces(chunk), settings.max_characters))
        for chunk in chunks
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    """What stands above a line: headings, the lead-in of its list, the blocks it is inside of."""

    headings: tuple[str, ...]
    lead_in: str
    blocks: tuple[str, ...]


@dataclass(slots=True)
class _Outline:
    """A document's structure, worked out once for all of its chunks."""

    about: list[str]
    terms: dict[str, str]
    starts: list[int] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)

    @classmethod
    def of(cls, document: Document) -> "_Outline":
        """Read a document's lines from top to bottom."""
        outline = cls(_about(document), _defined_terms(document.text))
        markdown: list[tuple[int, str]] = []
        numbered = capitals = lead_in = ""
        blocks: list[tuple[int, str]] = []
        position = 0
        for line in document.text.split("\n"):
            outline.starts.append(position)
            position += len(line) + 1
            words = line[:_LINE].strip()
            if not words:
                outline._add(markdown, (capitals, numbered), lead_in, blocks)
                continue
            indent = len(line[:_LINE].expandtabs(4)) - len(line[:_LINE].expandtabs(4).lstrip())
            while blocks and blocks[-1][0] >= indent:
                blocks.pop()
            continues = bool(_LIST_ITEM.match(line[:_LINE])) or words[0].islower()
            if not continues:
                lead_in = ""
            heading = _MARKDOWN.match(words)
            if heading:
                level = len(heading[1])
                markdown = [h for h in markdown if h[0] < level]
                outline._add(markdown, ("", ""), "", [])
                markdown.append((level, _cut(heading[2].rstrip("# "))))
                numbered = capitals = ""
            elif words.isupper() and 3 < len(words) < _PIECE:
                outline._add(markdown, ("", ""), "", [])
                capitals, numbered = words, ""
            elif _NUMBERED.match(line[:_LINE]):
                outline._add(markdown, (capitals, ""), lead_in, blocks)
                numbered = _first_clause(words)
            else:
                outline._add(markdown, (capitals, numbered), lead_in, blocks)
            if words.endswith((":", ":-", ":—")):
                lead_in = _cut(words)
            blocks.append((indent, _cut(words)))
            del blocks[:-_MAX_DEPTH]
        return outline

    def _add(
        self,
        markdown: list[tuple[int, str]],
        numbered: tuple[str, str],
        lead_in: str,
        blocks: list[tuple[int, str]],
    ) -> None:
        headings = (*(text for _, text in markdown), *(text for text in numbered if text))
        self.places.append(_Place(headings, lead_in, tuple(text for _, text in blocks)))

    def pieces(self, chunk: Chunk) -> list[str]:
        """Return what is to be said before a chunk, the most telling first."""
        place = self.places[bisect_right(self.starts, chunk.start) - 1]
        terms = [
            f"{term}{meaning}"
            for term, meaning in self.terms.items()
            if term in chunk.text and f"{term}{meaning}" not in chunk.text
        ]
        return [*self.about, *place.headings, *place.blocks, place.lead_in, *terms]


def _about(document: Document) -> list[str]:
    """Return title, readable name, parties and date."""
    head = document.text[:_HEAD]
    path = PurePosixPath(document.document_id)
    name = " ".join(re.split(r"[-_/\s]+", str(path.with_suffix(""))))
    about = [_cut(document.title), _cut(name)]
    between = _BETWEEN.search(head)
    if between:
        parties = _ASIDE.sub(" ", _PARTIES_END.split(between[1], maxsplit=1)[0])
        if " and " in parties and parties.lstrip()[:1].isupper():
            about.append(f"between {_cut(parties, _PARTIES)}")
    date = _DATE.search(head)
    if date:
        about.append(" ".join(date[0].split()))
    return about


def _defined_terms(text: str) -> dict[str, str]:
    terms: dict[str, str] = {}
    for found in _DEFINED.finditer(text):
        terms.setdefault(found[1], f": {_cut(found[2])}")
    return terms


def _joined(pieces: Sequence[str], limit: int) -> str:
    """Join distinct pieces by bars while they fit."""
    context = ""
    for piece in dict.fromkeys(p for p in pieces if p):
        longer = f"{context} | {piece}" if context else piece[:limit]
        if len(longer) <= limit:
            context = longer
    return context


def _first_clause(words: str) -> str:
    """Return a numbered heading's number and words, without the sentence that may follow."""
    end = re.search(r"(?<=[\w)\"”’]{2})[.:;](?=\s|$)", words[4:])
    return _cut(words[: 4 + end.start()] if end else words)


def _cut(text: str, limit: int = _PIECE) -> str:
    """Return a text on one line, cut at a blank below the limit."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    blank = line.rfind(" ", limit // 2, limit)
    return line[: blank if blank > 0 else limit]
