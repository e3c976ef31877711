"""Find the rows of tables that a question asks for, and count, add or compare their cells.

A row is found by the words of the question in its cells. Column names, the heading above the table
and the document's title decide between rows with the same words.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import zip_longest
from operator import itemgetter
from typing import NamedTuple

from rag_pipeline.answering.facts import kinds_asked, states_asked
from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.answering.quantities.dates import days_asked, ways_to_write, with_order
from rag_pipeline.answering.quantities.numbers import read_number
from rag_pipeline.datamodels import Document, ScoredChunk, Span
from rag_pipeline.imports import compiled
from rag_pipeline.loading.text import headings_above

DocumentOf = Callable[[ScoredChunk], Document | None]
"""Returns the document of a passage, or None if the passage's corpus has no whole documents."""

_LONGEST = 200_000
"""Maximum number of characters of a document whose tables are read."""
_MOST_DOCUMENTS = 4
MOST_ROWS = 30
"""Maximum number of rows of an answer."""
_LEAST_COVERED = 0.5
"""Least weight of the question's words that a row, its table and its document must have."""
_EQUAL = 1e-6
_LEAST_LIKE = 0.7
"""Least share of the best score that a row of a comparison must have."""
_WHOLE_CELL = 0.1
"""Weight of the share of a cell's words that the question names."""
_OUTDATED = 0.5
"""Factor of the score of a table whose heading says that it no longer holds."""
_TITLE = 3
"""Least number of filled cells below one filled cell of a title in the first row of a sheet."""
_RULE = re.compile(r"\|(?:[ ]*:?-+:?[ ]*\|)+[ ]*")
_CELL = re.compile(r"(?<!\\)\|")
_SEPARATED = {"text/csv": ",;\t|", "text/tab-separated-values": "\t"}
_NUMBER = re.compile(r"(?<![\w.,])[-−]?\d[\d.,'’\u00a0\u202f]*(?<![.,])")
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_LABEL = re.compile(r"\b[^\W\d_]{3,} (?!(?:19|20)\d\d\b)\d{1,6}\b(?![.,/]?\d)")
_DATE = re.compile(r"\b\d{1,2}([./-])\d{1,2}\1(?:\d\d){1,2}\b")

_NO_LONGER = (
    r"supersed|obsolete|outdated|withdrawn|archiv|draft|ersetzt|veraltet|überholt|ungültig|"
    r"entwurf|remplacé|périmé|obsolèt|brouillon|sustituid|obsolet|borrador|作废|草案|ملغ"
)
_MANY = (
    r"\bhow many\b|\bnumber of\b|\bwie ?viele\b|\banzahl\b|\bcombien d|\bnombre d|\bcuánt[oa]s\b|"
    r"\bnúmero de\b|多少|几|كم عدد"
)
_SUMS: Mapping[str, str] = {
    "sum": (
        r"\b(?:total(?:ly)?|altogether|combined|in all|overall|sum|together|insgesamt|zusammen|"
        r"gesamt\w*|summe|ensemble|somme|en tout|suma)\b|总共|一共|合计|إجمالي|مجموع"
    ),
    "average": r"\b(?:average|mean|durchschnitt\w*|im schnitt|moyenne?|promedio)\b|平均|متوسط",
    "highest": (
        r"\b(?:highest|(?<!at )most(?! (?:recent|current))|largest|longest|biggest|dearest|"
        r"höchste(?!ns)\w*|meisten?|größte\w*|"
        r"längste\w*|teuerste\w*|le plus|la plus|mayor|más alt\w+)\b|最高|最多|أعلى|أكبر"
    ),
    "lowest": (
        r"\b(?:lowest|least|smallest|shortest|fewest|cheapest|niedrigste\w*|wenigsten?|kleinste\w*|"
        r"kürzeste\w*|billigste\w*|günstigste\w*|le moins|la moins|menor|más baj\w+)\b|"
        r"最低|最少|أدنى|أقل"
    ),
}


class Row(NamedTuple):
    """A row of a table, with its span in the document's text."""

    start: int
    end: int
    cells: tuple[str, ...]


class Table(NamedTuple):
    """A table. `caption` has the headings and the line above it."""

    head: Row | None
    rows: tuple[Row, ...]
    caption: str

    def name(self, column: int) -> str:
        """Return the name of a column, or "" if it has none."""
        return self.head.cells[column] if self.head and column < len(self.head.cells) else ""


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of one table that answer a question.

    `covered` is the weight (0 to 1) of the question's words in the rows and above the table.
    """

    chunk: ScoredChunk
    table: Table
    rows: tuple[Row, ...]
    column: int | None
    """The column that the question asks for, or None if it is unclear."""
    covered: float


ScoredRows = tuple[float, Found]
"""Rows of one table that have the same words of a question, with their score."""


# --- reading tables ---


def tables_of(document: Document) -> tuple[Table, ...]:
    """Return the Markdown tables of a document in order, or the table of a CSV or TSV file.

    A document of more than 200,000 characters has no tables.
    """
    if len(document.text) > _LONGEST:
        return ()
    return _tables(document.text, _SEPARATED.get(document.media_type, ""))


@lru_cache(maxsize=64)
def _tables(text: str, delimiters: str) -> tuple[Table, ...]:
    return tuple(_separated(text, delimiters) if delimiters else _of_markdown(text))


def _of_markdown(text: str) -> Iterator[Table]:
    before, rows, ruled = "", list[Row](), 0
    at = 0
    for line in [*text.splitlines(keepends=True), ""]:
        words = line.strip()
        start, at = at + len(line) - len(line.lstrip()), at + len(line)
        if words.startswith("|") and words.count("|") > 1:
            if _RULE.fullmatch(words):
                ruled = len(rows)
            else:
                cells = tuple(cell.strip() for cell in _CELL.split(words.strip("|")))
                rows.append(Row(start, start + len(words), cells))
            continue
        if rows:
            over = [*headings_above(text, rows[0].start), before]
            yield _as_table(rows, ruled, "\n".join(over))
            rows, ruled = [], 0
        before = words or before


def _as_table(rows: Sequence[Row], ruled: int, caption: str) -> Table:
    rows = [row for row in rows if any(row.cells)]  # tables of Word have an empty first row
    filled = [sum(map(bool, row.cells)) for row in rows[:3]]
    if len(filled) > 2 and filled[0] * _TITLE <= filled[1]:
        title = " ".join(filter(None, rows[0].cells))
        rows, ruled, caption = rows[1:], 0, f"{caption}\n{title}"
    if len(rows) > 1 and not (ruled == 0 and any(map(value_of, rows[0].cells))):
        return Table(rows[0], tuple(rows[1:]), caption)
    return Table(None, tuple(rows), caption)


def _separated(text: str, delimiters: str) -> Iterator[Table]:
    lines: list[Span] = []
    start = at = quotes = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        quotes += line.count('"')
        if quotes % 2 == 0:  # a quoted field may hold line ends
            if text[start:at].strip():
                lines.append((start, start + len(text[start:at].rstrip("\r\n"))))
            start = at
    delimiter = max(delimiters, key=lambda d: sum(text.count(d, *line) > 0 for line in lines))
    rows = [Row(*line, _fields(text[slice(*line)], delimiter)) for line in lines]
    width = max((len(row.cells) for row in rows), default=0)
    first = next((n for n, row in enumerate(rows) if len(row.cells) == width), 0)
    if width > 1:
        caption = "\n".join(text[row.start : row.end] for row in rows[:first])
        yield Table(rows[first], tuple(rows[first + 1 :]), caption)


def _fields(line: str, delimiter: str) -> tuple[str, ...]:
    try:
        fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:  # a field of more than 131,072 characters
        return (line,)
    return tuple(field.strip() for field in fields)


def value_of(cell: str) -> Decimal | None:
    """Return the only number of a cell, such as "£2,940" or "30 days net", or None.

    A date is no number.
    """
    numbers = [] if _DATE.search(cell) else _NUMBER.findall(cell)
    try:
        return read_number(cell) if len(numbers) == 1 else None
    except InvalidOperation:
        return None


# --- finding rows ---


def find_rows(question: str, words: Words, scored: Sequence[ScoredRows]) -> list[Found]:
    """Return the scored rows that a question names, best table first, or [].

    Rows that have the same words of the question belong together. For a comparison, rows of other
    tables follow. These tables have the same columns. Their rows have words of the question that
    the rows before them lack. For a count or a sum, equally good rows of such tables of the same
    document follow, too.
    """
    ranked = sorted(scored, key=lambda pair: -pair[0])
    if not ranked:
        return []
    (best, first), *others = ranked
    years = YEAR.findall(question)
    if not years:  # the latest of equal tables is valid
        same = [f for s, f in ranked if s > best - _EQUAL and f.table.head == first.table.head]
        first = max([first, *same], key=lambda f: max(YEAR.findall(f.table.caption), default=""))
    chosen, known = [first], _all_words(words, first)
    computes = operation(question) or asks_how_many(question)
    for score, found in others:
        new = _all_words(words, found) - known
        head, other = first.table.head, found.table.head
        is_like = head is not None and other is not None and head.cells == other.cells
        own = (f.chunk.document_id + str(YEAR.findall(f.table.caption)) for f in (first, found))
        is_sheet = computes and score > best - _EQUAL and len({*own}) == 1
        if is_like and (is_sheet or (new and score >= _LEAST_LIKE * best)):
            chosen.append(found)
            known |= new
    return [with_column(words, found) for found in chosen]


def scored_rows(
    question: str, words: Words, chunks: Sequence[ScoredChunk], document_of: DocumentOf
) -> list[ScoredRows]:
    """Return the rows of each table that have the same words of the question, with their score.

    If rows have a numbered name of the question, such as "Stage 3" or 3 in the column "Stage", or
    its only date, the other rows are left out. So are rows of other sheets than the named one.
    """
    found: list[ScoredRows] = []
    for chunk, document in with_tables(chunks, document_of):
        known = words.in_text(f"{document.title}\n{document.document_id}")
        others = other_sheets(question, document)
        for table in (table for table in tables_of(document) if table not in others):
            caption = above(document, table)
            around = words.in_text(caption)
            named = (label_words(question, cells) for cells in _with_names(table))
            labels = [label & words.asked for label in named]
            held = (words.in_text(" ".join(row.cells)) for row in table.rows)
            hits = [own | label for own, label in zip(held, labels, strict=True)]
            common = frozenset.intersection(*hits) if len(hits) > 1 else frozenset()
            groups: dict[frozenset[str], list[Row]] = {}
            for row, hit, label in zip(table.rows, hits, labels, strict=True):
                is_left = bool(label) or not any(labels)
                if is_left and hit - common - known and any(row.cells[1:]):  # a note fills one cell
                    groups.setdefault(hit, []).append(row)
            outdated = compiled(_NO_LONGER, re.IGNORECASE)
            is_asked = bool(words.asked.intersection(YEAR.findall(table.caption)))
            is_asked = is_asked or any(map(outdated.search, words.asked))
            holds = is_asked or not outdated.search(caption)
            for hit, rows in groups.items():
                covered = words.share(hit | around)
                whole = [max(map(words.covers, row.cells)) for row in rows]
                rows = [r for r, w in zip(rows, whole, strict=True) if w == 1 or max(whole) < 1]
                score = (1 if holds else _OUTDATED) * (covered + _WHOLE_CELL * max(whole))
                found.append((score, Found(chunk, table, tuple(rows), None, covered)))
    return found


def other_sheets(question: str, document: Document) -> list[Table]:
    """Return the tables of other sheets than a question names.

    They have the same columns as a table of the named sheet. The question has words of its caption
    that their captions lack.
    """
    alike: dict[tuple[str, ...], list[Table]] = {}
    for table in tables_of(document):
        alike.setdefault(table.head.cells if table.head else (), []).append(table)
    left: list[Table] = []
    for tables in (same for head, same in alike.items() if head and len(same) > 1):
        words = Words(question, [table.caption for table in tables])
        held = [words.in_text(table.caption) for table in tables]
        named = [own - frozenset.intersection(*held) for own in held]
        left += [table for table, own in zip(tables, named, strict=True) if any(named) and not own]
    return left


def above(document: Document, table: Table) -> str:
    """Return the document's title and id, the caption and the names of the columns."""
    names = table.head.cells if table.head else ()
    return "\n".join([document.title, document.document_id, table.caption, " ".join(names)])


def with_tables(
    chunks: Sequence[ScoredChunk], document_of: DocumentOf
) -> Iterator[tuple[ScoredChunk, Document]]:
    """Yield the documents of the first passages that have tables.

    Each document comes with the first of its passages that has a table.
    """
    seen: set[tuple[str, str]] = set()
    for chunk in chunks:
        key = chunk.corpus, chunk.document_id
        is_table = "|" in chunk.text or chunk.document_id.lower().endswith((".csv", ".tsv"))
        if is_table and key not in seen and len(seen) < _MOST_DOCUMENTS:
            seen.add(key)
            document = document_of(chunk)
            if document is not None:
                yield chunk, document


def _all_words(words: Words, found: Found) -> frozenset[str]:
    cells = (cell for row in found.rows for cell in row.cells)
    return words.in_text(" ".join([*cells, found.table.caption]))


def named_row(question: str, words: Words, scored: Sequence[ScoredRows]) -> list[Found]:
    """Return the scored rows that a question names by all words of the first cell, or [].

    The name has at least two words, or the first cell has a numbered name of the question. The
    other cells state a fact of the kind asked for.
    """
    asks_for_fact = _labels(question) or not states_asked(question, "")
    if operation(question) or not asks_for_fact:
        return []
    likely = []
    for score, found in scored:
        rows = tuple(row for row in found.rows if _is_named(question, words, found.table, row))
        if rows:
            likely.append((score, replace(found, rows=rows)))
    best = max(likely, key=itemgetter(0), default=None)
    return [with_column(words, best[1])] if best else []


def _is_named(question: str, words: Words, table: Table, row: Row) -> bool:
    """Return whether a question names a row, and its other cells state a fact of the kind.

    Any number may be an amount, because the cells of a price list often lack the currency.
    """
    name, *others = row.cells
    cells = (f"{cell} {table.name(n)}" for n, cell in enumerate(others, 1) if cell)
    is_name = len(words_of(name)) > 1 and words.covers(name) == 1
    is_name = is_name or bool(label_words(question, [f"{table.name(0)} {name}"]))
    is_amount = "amount" in kinds_asked(question) and any(map(value_of, others))
    return is_name and (is_amount or states_asked(question, " | ".join(cells)))


def _with_names(table: Table) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row, each after the name of its column (see `with_order`)."""
    columns = map(with_order, zip_longest(*(row.cells for row in table.rows), fillvalue=""))
    named = ([f"{table.name(n)} {cell}" for cell in cells] for n, cells in enumerate(columns))
    return zip(*named, strict=True)


@lru_cache(maxsize=256)
def _labels(question: str) -> list[tuple[re.Pattern[str], frozenset[str]]]:
    """Return the patterns and words of a question's dates and numbered names, such as "Stage 3"."""
    found = [(rf"\b{re.escape(label)}\b", label) for label in _LABEL.findall(question.casefold())]
    found += [(ways_to_write(day), question[start:end]) for start, end, day in days_asked(question)]
    return [(re.compile(pattern), words_of(text)) for pattern, text in found]


def label_words(question: str, cells: Sequence[str]) -> frozenset[str]:
    """Return the words of the dates and numbered names of a question that cells have."""
    text = " ".join(cells).casefold()
    held = (words for pattern, words in _labels(question) if pattern.search(text))
    return frozenset[str]().union(*held)


def with_column(words: Words, found: Found) -> Found:
    """Add the column whose name has the most words of the question, if only one has the most.

    A column is left out if one of its cells has a word of the question.
    """
    table = found.table
    if table.head is None:
        return found
    shares = [
        0.0
        if any(words.in_text(row.cells[n]) for row in found.rows if n < len(row.cells))
        else words.share(words.in_text(name))
        for n, name in enumerate(table.head.cells)
    ]
    if any(shares[1:]):  # the first column names the rows
        shares[0] = 0.0
    best = max(shares)
    return replace(found, column=shares.index(best)) if shares.count(best) == 1 else found


def operation(question: str) -> str | None:
    """Return the operation that a question asks for, such as `sum`, or None."""
    names = (n for n, words in _SUMS.items() if compiled(words, re.IGNORECASE).search(question))
    return next(names, None)


def asks_how_many(question: str) -> bool:
    """Return whether a question asks for a number of things."""
    return bool(compiled(_MANY, re.IGNORECASE).search(question))
