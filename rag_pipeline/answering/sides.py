"""Find the rows of tables that a comparison of two names asks for."""

import re
from collections.abc import Iterator, Sequence
from itertools import compress, product

import numpy as np

from rag_pipeline.answering.citing import in_document
from rag_pipeline.answering.intent import uncompared
from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.answering.reading import multilingual
from rag_pipeline.answering.tables import (
    DocumentOf,
    Row,
    Table,
    above,
    other_sheets,
    tables_of,
    with_tables,
)
from rag_pipeline.datamodels import Citation, Document, SearchResult

_LEAST_HELD = 0.5
"""Least weight of the question's other words that the rows and the text above them have."""

Rows = tuple[Table, Sequence[Row]]
"""A table, and its rows about one side."""


def rows_of_sides(
    found: SearchResult, sides: tuple[str, str], document_of: DocumentOf
) -> list[list[Citation]]:
    """Return for each side the row of a document's table, or no row if its sheet lacks it.

    The rows are the two with most of the question's other words. Return [] if no document's tables
    have both sides and at least half of these words, or, without such words, if a document is named
    after one side alone.
    """
    asked = uncompared(side_query(side_query(found.query, sides[0]), sides[1]))
    one_words, other_words = map(words_of, sides)
    names = [words_of(f"{chunk.title} {chunk.document_id}") for chunk in found.chunks]
    is_named = any(
        (one_words - other_words <= name) != (other_words - one_words <= name) for name in names
    )
    best, chosen = 0.0, list[list[Citation]]()
    for chunk, document in with_tables(found.chunks, document_of):
        for one, other in _of_sides(sides, document):
            rows = _best_rows(asked, one, other, found.token_weights is None)
            cells = (" ".join(row.cells) for row in rows if row)
            text = "\n".join([above(document, one[0]), above(document, other[0]), *cells])
            words = Words(asked, [text])
            held = words.held if words.asked else float(not is_named)
            if any(rows) and held >= _LEAST_HELD and held > best:
                best = held
                spans = [[(row.start, row.end)] if row else [] for row in rows]
                chosen = [[in_document(chunk, document, s) for s in own] for own in spans]
    return chosen


def _of_sides(sides: tuple[str, str], document: Document) -> Iterator[tuple[Rows, Rows]]:
    """Yield the rows about each side.

    The sides are the names of two sheets or of two columns, or they are in different rows.
    """
    tables = [table for table in tables_of(document) if table.rows]
    captions = _about(sides, [table.caption for table in tables])
    yield from product(*([(t, t.rows) for t in compress(tables, own)] for own in captions))
    for table in tables:
        if all(map(any, _about(sides, table.head.cells if table.head else ()))):
            yield (table, table.rows), (table, table.rows)
            continue
        named = _about(sides, [" ".join(row.cells) for row in table.rows])
        one, other = ([*compress(table.rows, own)] for own in named)
        if one and other:
            yield (table, one), (table, other)


def _best_rows(asked: str, one: Rows, other: Rows, by_meaning: bool) -> list[Row | None]:
    """Return for each side the only row with most words of a question, or [] if there is none.

    A side has no row if its row lacks words of the other side's row. If the columns of two sheets
    differ, it has the row whose first cell is most similar in meaning.
    """
    sides = one[1], other[1]
    words = Words(asked, [" ".join(row.cells) for rows in sides for row in rows])
    chosen: list[tuple[frozenset[str], Row | None]] = []
    for rows in sides:
        held = [words.in_text(" ".join(row.cells)) for row in rows]
        shares = list(map(words.share, held))
        likely = [n for n, share in enumerate(shares) if share == max(shares)]
        chosen.append((held[likely[0]], rows[likely[0]] if len(likely) == 1 else None))
    (said, first), (told, second) = chosen
    if said == told:
        return [first, second] if first and second else []
    known, rows = (first, other[1]) if told < said else (second, one[1])
    if known is None or not (told < said or said < told):
        return []
    same_columns = one[0].head and other[0].head and one[0].head.cells == other[0].head.cells
    embed = multilingual() if by_meaning and not same_columns else None
    alike = None
    if embed is not None:
        own, *others = embed([known.cells[0], *(row.cells[0] for row in rows)])
        alike = rows[int(np.argmax(np.array(others) @ own))]
    return [known, alike] if told < said else [alike, known]


def lacking(question: str, document: Document) -> frozenset[str]:
    """Return the words by which other sheets than the named one name a row that it lacks, or none.

    Question: "What does a gravel bike cost in Ulm?". Only the sheet `Lindau` has a gravel bike.
    """
    others = other_sheets(question, document)
    heads = [table.head.cells for table in others if table.head]
    alike = [t for t in tables_of(document) if t.head and t.head.cells in heads]
    names = [(t in others, row.cells[0]) for t in alike for row in t.rows]
    words = Words(question, [name for _, name in names])
    held = [words.in_text(name) for is_other, name in names if not is_other]
    said = (words.in_text(name) for is_other, name in names if is_other)
    return max((s for s in said if not any(s <= own for own in held)), key=len, default=frozenset())


def _about(sides: tuple[str, str], texts: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Return for each side which texts have all words of its name, and not those of the other."""
    names = [Words(side, texts) for side in sides]
    one, other = ([n.in_text(text) == n.asked != frozenset() for text in texts] for n in names)
    pairs = [*zip(one, other, strict=True)]
    return [a and not b for a, b in pairs], [b and not a for a, b in pairs]


def has_words(text: str, side: str) -> bool:
    """Return whether a text has all words of a name."""
    words = Words(side, [text])
    return bool(words.asked) and words.in_text(text) == words.asked


def side_query(query: str, other: str) -> str:
    """Return a comparing query without the other name."""
    return " ".join(re.sub(rf"\b{re.escape(other)}\b", " ", query).split())
