"""Write the contexts of chunks from the document itself, without a model.

A context holds the document's title, parties and date, the headings above the chunk, and the
sentence, block or table that the chunk continues. It also holds the definitions of a source file
and the meanings of the chunk's defined terms.
"""

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple
from urllib.parse import unquote

from pydantic import Field

from rag_pipeline.chunking.sentences import sentence_ends
from rag_pipeline.config import ContextualizerSettings, Models
from rag_pipeline.datamodels import Chunk, Document

_HEAD = 2_000
_LINE = 300
_PIECE = 100
_PARTIES = 160
_MAX_DEPTH = 8
_DEFINITIONS = 6

_MARKDOWN = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_NUMBERED = re.compile(
    r"""[ \t]*(?:
        (?i:article|section|chapter|part|schedule|annex|exhibit|§)[ \t]*
        (?:\d{1,3}(?:\.\d{1,3}){0,4}|[IVXLC]{1,6}|[A-Z])\b[.):]?[ \t]*
      | (?:\d{1,3}[.):]|\d{1,3}(?:\.\d{1,3}){1,4}[.):]?|[IVXLC]{1,6}[.):])[ \t]+(?=[A-Z"“‘'])
      | \d{1,3}[ \t]+(?=[A-Z][^.;]{0,60}$)
    )""",
    re.VERBOSE,
)
"""Matches a numbered heading or clause. After a bare number, the line must be short."""
_LIST_ITEM = re.compile(
    r"[ \t]*(?:[-*•·–][ \t]|\(?[A-Za-z][.)][ \t]|\(?[ivx]{1,5}[.)][ \t]|\(?\d{1,2}[.)][ \t])"
)
_BETWEEN = re.compile(r"\b(?:between|by and among|entered into by)\b[:\s]+(.{3,400})", re.DOTALL)
_PARTIES_END = re.compile(r";|\n\s*\n|\bwhereas\b|\bcollectively\b|\bwhich\b", re.IGNORECASE)
_ASIDE = re.compile(r"\([^()]{0,200}\)|[“”\"*_]")
_DATE = re.compile(
    r"(?i)\b(?:\d{1,2}(?:st|nd|rd|th)?[ \t]+(?:of[ \t]+)?)?"
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
    r"(?:[ \t]+\d{1,2}(?:st|nd|rd|th)?)?,?[ \t]+\d{4}\b|\b\d{4}-\d{2}-\d{2}\b"
)
_DEFINED = re.compile(
    r"[“\"*]{1,3}([A-Z][A-Za-z-]+(?:[ \t][A-Z][A-Za-z-]+){0,3})[”\"*]{1,3}"
    r"[ \t]+(?:means?|shall mean|refers? to|is|are)\b([^\n.;]{0,120})"
)
_NAMES_BLOCK = re.compile(r"(?!//|/?\*|--|#\s|@).*[^\W\d_]")
"""Matches a line that has words and is not a comment or annotation."""
_UNLIKE_HEADING = re.compile(r"[_=;{}<>]|,$")
_TABLE_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
_SEPARATED = ("text/csv", "text/tab-separated-values")
_TERM_WORDS = 4
_CAPITALISED = re.compile(r"[A-Z][A-Za-z-]+(?:\s[A-Z][A-Za-z-]+)*")
_DEFINITION = re.compile(
    r"(?m)^[ \t]*(?:(?:pub(?:\([^)\n]{0,30}\))?|public|private|protected|internal|export|default|"
    r"static|final|abstract|async|unsafe|extern|const|virtual|inline|override|sealed|open)[ \t]+)"
    r"{0,6}(?:def|class|fn|func|function|struct|enum|trait|impl|interface|namespace)"
    r"[ \t<](?:[^\n]{0,160}[{:(,)]|\w{1,80}(?=\s{0,20}\{))"
)
"""Matches the line that opens a type or function in most programming languages."""


class StructuralContext(ContextualizerSettings):
    """Contexts from the document's own structure, without a model.

    If `table_heads` is set, a chunk that begins inside a table gets the table's column names.
    """

    code_version = 4
    method: Literal["structural"]
    max_characters: int = Field(default=400, ge=16)
    table_heads: bool = False

    def contexts(self, document: Document, chunks: Sequence[Chunk], models: Models) -> list[str]:
        """Return the structural context of each chunk."""
        return structural_contexts(document, chunks, self)


def structural_contexts(
    document: Document, chunks: Sequence[Chunk], settings: StructuralContext
) -> list[str]:
    """Return each chunk's context of at most `max_characters` characters, in linear time."""
    text = document.text
    own, definitions, meanings = about(document), _definitions(text), _defined_terms(text)
    starts, places = _outline(text)
    contexts = []
    for chunk in chunks:
        blank = len(chunk.text) - len(chunk.text.lstrip())
        line = bisect_right(starts, chunk.start + blank) - 1
        place = places[line] if line >= 0 else _Place((), "", ())
        above = [*place.headings, *place.blocks, place.lead_in]
        above += [place.columns] if settings.table_heads else []
        terms = (f"{term}{meanings[term]}" for term in _terms_in(chunk.text, meanings))
        new = (term for term in terms if term not in chunk.text)
        contexts.append(_joined([*own, *above, *definitions, *new], settings.max_characters))
    return contexts


class _Place(NamedTuple):
    """The headings and blocks above a line, and the sentence that introduces the line's list."""

    headings: tuple[str, ...]
    lead_in: str
    blocks: tuple[str, ...]
    columns: str = ""
    """The column names of the line's table."""


def _outline(text: str) -> tuple[list[int], list[_Place]]:
    """Return the start offset and the `_Place` of each line that has words."""
    starts: list[int] = []
    places: list[_Place] = []
    markdown: list[tuple[int, str]] = []
    numbered = capitals = lead_in = head = columns = ""
    blocks: list[tuple[int, str]] = []

    def add(above: Sequence[str] = (), lead_in: str = "", inside: int = 0, table: str = "") -> None:
        headings = (*(one for _, one in markdown), *(one for one in above if one))
        places.append(_Place(headings, lead_in, tuple(one for _, one in blocks[:inside]), table))

    position = 0
    for line in text.split("\n"):
        start, position = position, position + len(line) + 1
        words = line[:_LINE].strip()
        if not words:
            continue
        starts.append(start)
        indent = len(line[:_LINE].expandtabs(4)) - len(line[:_LINE].expandtabs(4).lstrip())
        if words != "{":  # this line opens the block that the line above names
            while blocks and blocks[-1][0] >= indent:
                blocks.pop()
        if _TABLE_RULE.fullmatch(words):
            columns = head
        elif words[0] != "|":
            head = columns = ""
        elif not columns:
            head = f"columns: {cut_line(' '.join(words.strip('|').split()), _PARTIES)}"
        if not _LIST_ITEM.match(line[:_LINE]) and not words[0].islower():
            lead_in = ""
        if heading := _MARKDOWN.match(words):
            level = len(heading[1])
            markdown = [h for h in markdown if h[0] < level]
            add()
            markdown.append((level, cut_line(heading[2].rstrip("# "))))
            numbered = capitals = ""
        elif words.isupper() and 3 < len(words) < _PIECE and not _UNLIKE_HEADING.search(words):
            add()
            capitals, numbered = words, ""
        elif _NUMBERED.match(line[:_LINE]):
            add((capitals,), lead_in, len(blocks))
            numbered = _first_clause(words)
        else:
            add((capitals, numbered), lead_in, len(blocks), columns)
        if words.endswith((":", ":-", ":—")):
            lead_in = cut_line(words)
        if _NAMES_BLOCK.match(words):
            blocks.append((indent, cut_line(words)))
            del blocks[:-_MAX_DEPTH]
    return starts, places


def _terms_in(text: str, known: Mapping[str, str]) -> Iterator[str]:
    for run in _CAPITALISED.finditer(text) if known else ():
        words = run[0].split()
        for first in range(len(words)):
            for last in range(first + 1, min(first + _TERM_WORDS, len(words)) + 1):
                term = " ".join(words[first:last])
                if term in known:
                    yield term


def about(document: Document) -> list[str]:
    """Return a document's title, file name in words, parties, CSV columns and date."""
    head = document.text[:_HEAD]
    path = PurePosixPath(document.document_id)
    name = " ".join(re.split(r"[-+_/\s]+", unquote(str(path.with_suffix(""))))).strip()
    known = [cut_line(document.title)]
    if name.casefold() != known[0].casefold():
        known.append(cut_line(name))
    between = _BETWEEN.search(head)
    if between:
        said = _PARTIES_END.split(between[1], maxsplit=1)[0]
        sentence = next(sentence_ends(said, 0, len(said)), len(said))
        parties = " ".join(_ASIDE.sub(" ", said[:sentence]).split())
        if " and " in parties and parties[:1].isupper():
            known.append(f"between {cut_line(parties, _PARTIES)}")
    if document.media_type in _SEPARATED:
        # A date below is that of a row.
        head = head.strip().partition("\n")[0]
        known.append(f"columns: {cut_line(head, _PARTIES)}")
    date = _DATE.search(head)
    if date:
        known.append(" ".join(date[0].split()))
    return known


def _definitions(text: str) -> list[str]:
    found = (cut_line(match[0]) for match in _DEFINITION.finditer(text))
    return list(itertools.islice(dict.fromkeys(found), _DEFINITIONS))


def _defined_terms(text: str) -> dict[str, str]:
    terms: dict[str, str] = {}
    for found in _DEFINED.finditer(text):
        terms.setdefault(" ".join(found[1].split()), f": {cut_line(found[2])}")
    return terms


def _joined(pieces: Sequence[str], limit: int) -> str:
    context = ""
    for piece in dict.fromkeys(p for p in pieces if p):
        longer = f"{context} | {piece}" if context else piece[:limit]
        if len(longer) <= limit:
            context = longer
    return context


def _first_clause(words: str) -> str:
    """Return a numbered heading without the sentence after it."""
    end = re.search(r"(?<=[\w)\"”’]{2})[.:;](?=\s|$)", words[4:])
    return cut_line(words[: 4 + end.start()] if end else words)


def cut_line(text: str, limit: int = _PIECE) -> str:
    """Return a text on one line of at most `limit` characters, cut at a space if possible."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    blank = line.rfind(" ", limit // 2, limit)
    return line[: blank if blank > 0 else limit]
