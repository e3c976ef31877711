"""Cut passages into the sentences that an answer may quote, and read what stands above them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, takewhile, zip_longest

from rag_pipeline.chunking.sentences import LIST_ITEM, sentence_spans
from rag_pipeline.datamodels import ScoredChunk, Span

HEADING = re.compile(r"#+\s|(?=[^a-z]*[A-Z])[^\W_a-z][A-Z\d\s.,:;&'’()/=-]{0,158}[^.]\Z")
"""A heading of Markdown, or a line in capitals that does not end with a full stop."""
_HEADING_LINE = re.compile(r"(?m)^#{1,6}[ \t]+(\S.*)$")
_TABLE_RULE = r"\|(?:[ ]*:?-+:?[ ]*\|)+[ ]*"
_TABLE_HEAD = re.compile(rf"\|.*\n{_TABLE_RULE}(?:\n|\Z)")
"""The header row of a Markdown table, with the delimiter row below it."""
_NO_HEAD = re.compile(rf"(?:\A|\n)[| ]+\n{_TABLE_RULE}\n\Z")
"""An empty header row and its delimiter row. In tables from Word, the column names follow them."""
_LEAD_IN = re.compile(r"\*\*[^*\n]{1,80}[.:]\*\*[ \t]+|\*\*\d{1,3}[.)][ \t]+")
"""Bold words, or the number of bold words, before the first sentence of a paragraph."""
_MAIL_FIELD = re.compile(r"(?:From|To|Cc|Date|Subject): ")
_SALUTATION = re.compile(
    r"(?i:dear|hi|hello|hallo|moin|liebe[rs]?|sehr geehrte[rs]?|guten (?:tag|morgen))\b"
    r"[^.!?:\d]{0,80},|"
    r"(?i:(?:mit |(?:vielen dank|thanks) (?:und|and) )?(?:freundliche|beste|herzliche|liebe|viele|"
    r"schöne)[nr]? gr(?:ü|ue)(?:ß|ss)en?|(?:with )?(?:best|kind|warm)(?:est)? (?:regards|wishes)|"
    r"regards|yours (?:sincerely|faithfully|truly)|(?:bien )?cordialement|bien à vous|"
    r"(?:\w+ )?salutations|(?:cordiales )?saludos|atentamente)\b[^.!?:\d]{0,60}"
)
"""A greeting, or the closing words of a letter with the names below them."""
_ASKS_FOR_MAIL = re.compile(
    r"(?i)\b(?:e-?mails?|mail\w*|sen[dt]\w*|wrote|writ\w+|subject|letters?|messages?|schr[ei]+b\w*|"
    r"geschrieben|schick\w*|geschickt|gesendet|betreff|absender\w*)\b"
)
_ROW = re.compile(r'(?:"[^"]*"|[^\r\n])+')
"""A row of a CSV file. A quoted field may hold line ends."""
_OBJECT = re.compile(r'\{(?:"(?:[^"\\]|\\.)*"|[^{}"])*\}')
"""A JSON object that holds no other object."""
_LONGEST_OBJECT = 300
_COLUMNS = "columns: "
"""Stands in a chunk's context before the names of the columns of a table that began above it."""
_LONGEST_RULE = 300
_LONGEST_LIST = 1_000
"""Maximum characters of a list that one quote holds."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a ranked chunk. `start` is its offset in the document's text."""

    chunk: ScoredChunk
    rank: int
    start: int
    text: str
    match: float
    """The late interaction with the query, or the share of its words that the sentence holds."""

    @property
    def heading(self) -> str:
        """Return the last heading above the sentence in its chunk, or "" if there is none."""
        return "".join(_HEADING_LINE.findall(self.chunk.text[: self.start - self.chunk.start])[-1:])

    @property
    def with_headings(self) -> str:
        """Return the document's title, the heading, a table's column names and the sentence."""
        above = self.heading or " ".join(self.chunk.context.split(" | ")[2:])
        about = [self.chunk.title, *([above] if above != self.chunk.title else []), self._head]
        return ": ".join(filter(None, [*about, spaced(self.chunk, self.text)]))

    @property
    def with_units(self) -> str:
        """Return the sentence. In a table's row, the column's name follows each number.

        The names often hold the units, such as `Price (EUR)`.
        """
        columns = self._head or self.chunk.context.partition(_COLUMNS)[2]
        if not (columns and self.is_row):
            return self.text
        mark = "|" if self.text.startswith("|") else _mark_of(self.chunk)
        rows = (row.strip("| ").split(mark) for row in (self.text, columns))
        pairs = zip_longest(*rows, fillvalue="")
        return "|".join(f"{c} {name}" if any(map(str.isdigit, c)) else c for c, name in pairs)

    @property
    def is_row(self) -> bool:
        """Return whether the sentence is a row of a table, or an object of a JSON file."""
        return _is_separated(self.chunk) or self.text.startswith(("|", "{"))

    @property
    def _head(self) -> str:
        """Return the first row of a Markdown table above a row in its chunk, or ""."""
        before = self.chunk.text[: self.start - self.chunk.start].splitlines()
        above = takewhile(lambda line: line.startswith("|"), reversed(before))
        return "".join([*above][-1:]) if self.text.startswith("|") else ""

    def repeats(self, other: "Sentence") -> bool:
        """Return whether the sentences overlap, as a list and its item do, or have equal words."""
        return self.chunk.document_id == other.chunk.document_id and (
            self.text.split() == other.text.split()
            or -len(self.text) < self.start - other.start < len(other.text)
        )


def _is_separated(chunk: ScoredChunk) -> bool:
    return chunk.document_id.casefold().endswith((".csv", ".tsv"))


def _mark_of(chunk: ScoredChunk) -> str:
    """Return the character between the fields of a CSV or TSV file."""
    head = chunk.context.partition(_COLUMNS)[2] or chunk.text
    return max(",;\t", key=head.count)


def spaced(chunk: ScoredChunk, text: str) -> str:
    """Return a part of a chunk's text. In a CSV or TSV file, fields have white space around them.

    Otherwise, two fields such as `4541,2025-04-10` look like one number.
    """
    mark = _mark_of(chunk)
    return text.replace(mark, f" {mark} ") if _is_separated(chunk) else text


def is_table_head(chunk: ScoredChunk, start: int) -> bool:
    """Return whether the line that begins at `start` holds the column names of a table."""
    text = chunk.text
    if _is_separated(chunk):
        return chunk.start + start == 0
    if text[start] != "|":
        return False
    before = text[max(0, start - _LONGEST_RULE) : start]
    return bool(_TABLE_HEAD.match(text, start) or _NO_HEAD.search(before))


def is_address(query: str, document_id: str, text: str) -> bool:
    """Return whether a text greets or closes, or is a mail's field that the query does not ask for.

    The date of a mail is hardly ever the date that a query asks for.
    """
    if _SALUTATION.fullmatch(text):
        return True
    of_mail = document_id.casefold().endswith((".eml", ".msg")) and _MAIL_FIELD.match(text)
    return bool(of_mail) and not _ASKS_FOR_MAIL.search(query)


def spans_of(chunk: ScoredChunk) -> list[Span]:
    """Return the spans of a chunk's sentences, or of the rows of a CSV or TSV file.

    A short object of a JSON file is one sentence. A sentence has the list below it and the bold
    lead-in before it. A heading is one sentence.
    """
    if _is_separated(chunk):
        return [row.span() for row in _ROW.finditer(chunk.text) if row[0].strip()]
    if chunk.document_id.casefold().endswith(".json"):
        found = (o.span() for o in _OBJECT.finditer(chunk.text) if len(o[0]) <= _LONGEST_OBJECT)
        cuts = [cut for span in found for cut in span]
        if cuts:
            spans: list[Span] = []
            for n, (start, end) in enumerate(pairwise([0, *cuts, len(chunk.text)])):
                start = end - len(chunk.text[start:end].lstrip("]}, \t\r\n"))
                inner = [(0, end - start)] if n % 2 else _spans_of(chunk.text[start:end])
                spans += [(start + s, start + e) for s, e in inner]
            return [(s, e) for s, e in spans if any(map(str.isalnum, chunk.text[s:e]))]
    return _spans_of(chunk.text)


# Many queries and configurations find the same chunks.
@lru_cache(maxsize=4096)
def _spans_of(text: str) -> list[Span]:
    spans: list[Span] = []
    for start, end in sentence_spans(text):
        line = text.rfind("\n", 0, start) + 1
        if line < start and text[line] == "|":
            start = spans.pop()[0]  # "| 30.09. | 2025 |"
        elif spans and _LEAD_IN.fullmatch(text[spans[-1][0] : start]):
            start = spans.pop()[0]
        elif spans and _HEADING_LINE.fullmatch(text, spans[-1][0], end):
            start = spans.pop()[0]  # "# 16. The shop"
        spans.append((start, end))
    return [(start, _end_of_list(text, spans[n:])) for n, (start, _) in enumerate(spans)]


def _end_of_list(text: str, spans: Sequence[Span]) -> int:
    (start, end), *following = spans
    if text[start:end].endswith(":"):
        for first, last in following:
            is_item = LIST_ITEM.match(text, first) and not HEADING.match(text[first:last])
            if not is_item or last - start > _LONGEST_LIST:
                break
            end = last
    return end
