"""Count, add or compare the cells of the rows that a question asks for."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import mean

from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.answering.tables import (
    MOST_ROWS,
    YEAR,
    DocumentOf,
    Found,
    Row,
    Table,
    above,
    asks_how_many,
    operation,
    other_sheets,
    tables_of,
    value_of,
    with_column,
    with_tables,
)
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.imports import compiled

_BETWEEN = (
    r"\b(?:rise|rose|grow|grew|fall|fell|drop\w*|increase\w*|decrease\w*|change[ds]?|more|less|"
    r"difference|steig\w*|stieg\w*|gestiegen|sink\w*|gesunken|verändert|mehr|weniger|unterschied)\b"
)
_WORD = re.compile(r"\w+")
_REDUCE: Mapping[str, Callable[..., Decimal]]
_REDUCE = {"sum": sum, "average": mean, "highest": max, "lowest": min}
_WHICH = r"\b(?:which|what|welche\w?|quel(?:le)?s?) (?:(?:of|the|our|von|den) )*(\w+)"
_MOST = r"\b(?:most|fewest|meisten|wenigsten|le (?:plus|moins) d[e'’])(?! \w+ive\b)"
_NEAR_LIMIT = 4
"""Number of words after "below" or "above" that may name a column."""
_BE = r"(?:is|are|was|were|sind|waren|lieg\w+|lag\w*|sont) "
_THEIR = r"(?= (?:their|its|ihr|sein|leur|son|sa))"
# "Under" and "over" alone have other meanings: "under which number", "informed over the price".
_BELOW, _ABOVE = (
    rf"\b(?:below|{_BE}(?:under|unter|sous)|(?:under|unter|sous){_THEIR}|"
    r"(?:less|fewer|lower) than|weniger als|inférieure?s? à|debajo de|menos que)\b|低于|أقل من",
    rf"\b(?:above|exceed\w*|{_BE}(?:over|über)|(?:over|über){_THEIR}|"
    r"(?:more|higher) than|mehr als|au-dessus de|supérieure?s? à|encima de|más que)\b|高于|أكثر من",
)
_NO_LIMIT = (
    r"\b(?:not|nicht|kein\w*|pas|no)\b|n[’']t\b|"
    r"\n(?:(?:an?|eine?[mnr]?|une?|una)\b|wh|welch|quel)"
)
"""Matches a denied comparison, or below the question a limit of one unit or an asked limit."""


def said(question: str, found: Sequence[Found]) -> tuple[str, Sequence[Found]]:
    """Return a number computed from the rows, or else the cells asked for, or else "".

    Sums, averages and extremes are computed from the column that the question asks for, or else
    from the first column that has only numbers. "Which hall had the most" sums the rows of each
    hall. A count is the number of rows. The second value has the rows to quote.
    """
    rows = [(one.table, row) for one in found for row in one.rows]
    first = found[0]
    column = _numeric_column(first) if first.column is None else first.column
    name = first.table.name(column) if column is not None else ""
    values = [_cell_value(row, column) for _, row in rows]
    numbers = [value for value in values if value is not None]
    computed = operation(question)
    if computed and numbers and len(numbers) == len(rows) > 1:
        is_extreme = asks_for_extreme(question)
        names = [r.cells[n] for f in found for n in [_entity(question, f.table)] for r in f.rows]
        adds = is_extreme and len({*names}) < len(names) and compiled(_MOST, re.I).search(question)
        totals: defaultdict[object, Decimal] = defaultdict(Decimal)
        what, keys = ("sums", names) if adds else ("rows", range(len(rows)))
        for key, number in zip(keys, numbers, strict=True):
            totals[key] += number
        done = _REDUCE[computed](totals.values())
        held = [n for n, key in enumerate(keys) if totals[key] == done]
        which = f" ({', '.join(dict.fromkeys(names[n] for n in held))})" if is_extreme else ""
        if is_extreme and len(rows) > MOST_ROWS:  # quote the rows with the extreme
            kept = {rows[n][1] for n in held}
            found = [replace(f, rows=tuple(row for row in f.rows if row in kept)) for f in found]
        shown = f"{computed} of {len(totals)} {what}: {_shown(done)}{which}"
        return f"{name or computed}, {shown}", found
    if asks_how_many(question) and _counts_rows(found):
        return f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}", found
    if first.column is None:
        return "", found
    cells = [row.cells[first.column] for _, row in rows if first.column < len(row.cells)]
    is_change = len(numbers) == len(cells) == 2 and compiled(_BETWEEN, re.IGNORECASE)
    if is_change and is_change.search(question) and name:
        less = _shown(abs(numbers[0] - numbers[1]))
        return f"{name}: {' and '.join(cells)}, difference {less}", found
    return f"{name}: {'; '.join(cells)}" if name and all(cells) else "", found


def _entity(question: str, table: Table) -> int:
    """Return the column that a question such as "which hall" names, or else the first one."""
    asked = compiled(_WHICH, re.IGNORECASE).search(question)
    names = table.head.cells[: min(len(row.cells) for row in table.rows)] if table.head else ()
    words = Words(asked[1] if asked else "", names)
    return next((n for n, name in enumerate(names) if words.in_text(name)), 0)


def with_all_rows(
    question: str, chunks: Sequence[ScoredChunk], document_of: DocumentOf, words: Words
) -> list[Found]:
    """Return all rows of the first passages' best table, for a sum, average or extreme.

    Return [] if the question asks for none of these, or if no table has a column with numbers. Also
    return [] if the question names a single row: "the highest wind for Stage 1" is in that row.
    """
    if operation(question) is None:
        return []
    tables = [
        (words.share(words.in_text(above(document, t))), -n, chunk, t)
        for chunk, document in with_tables(chunks, document_of)
        for n, t in enumerate(tables_of(document))
        if t.head is not None
    ]
    for share, _, chunk, table in sorted(tables, key=lambda one: one[:2], reverse=True):
        every = Found(chunk, table, table.rows, None, share)
        found = with_column(words, every)
        if _numeric_column(found) is None:  # the question names the column of names
            width = range(1, len(table.rows[0].cells))
            columns = (replace(every, column=n) for n in width if words.in_text(table.name(n)))
            found = next((one for one in columns if _numeric_column(one) is not None), every)
        is_short = len(table.rows) <= MOST_ROWS or (found.column and asks_for_extreme(question))
        if share and is_short and _numeric_column(found) is not None:
            asked = {*_WORD.findall(question.casefold())}
            cells = (_WORD.findall(row.cells[0].casefold()) for row in table.rows)
            named = [cell for cell in cells if cell and asked.issuperset(cell)]
            return [] if len(named) == 1 else [found]
    return []


def rows_beyond(
    question: str, chunks: Sequence[ScoredChunk], document_of: DocumentOf
) -> list[Found]:
    """Return the rows of a document's tables with a number below or above their limit, or [].

    The question names the column of the limits, as in "Which articles are below their minimum?".
    """
    for words, sign in ((_BELOW, -1), (_ABOVE, 1)):
        match = compiled(words, re.IGNORECASE).search(question)
        limit = " ".join(question[match.end() :].split()[:_NEAR_LIMIT]) if match else ""
        is_other = compiled(_NO_LIMIT, re.IGNORECASE).search(f"{question}\n{limit}")
        if limit and not is_other and not any(map(str.isdigit, limit)):
            for chunk, document in with_tables(chunks, document_of):
                others = other_sheets(question, document)
                tables = (table for table in tables_of(document) if table not in others)
                beyond = ((table, _beyond(table, limit, sign)) for table in tables)
                if found := [Found(chunk, t, rows, None, 1.0) for t, rows in beyond if rows]:
                    return found
    return []


def _beyond(table: Table, limit: str, sign: int) -> tuple[Row, ...]:
    """Return the rows whose number is below the limit if `sign` is -1, or above it if it is 1.

    The number is in the nearest other column of numbers, first to the left. Years do not count.
    """
    width = len(table.head.cells) if table.head else 0
    columns = [[_cell_value(row, n) for row in table.rows] for n in range(width)]
    most = [n for n in range(1, width) if 2 * columns[n].count(None) < len(table.rows)]
    numeric = [n for n in most if not all(v is None or YEAR.fullmatch(f"{v}") for v in columns[n])]
    asked = words_of(limit)
    named = [n for n in numeric if (name := words_of(table.name(n))) and name <= asked]
    if len(named) != 1 or len(numeric) < 2:
        return ()
    own, *_ = sorted({*numeric} - {*named}, key=lambda n: (abs(n - named[0]), n))
    pairs = zip(table.rows, columns[own], columns[named[0]], strict=True)
    beyond = (row for row, a, b in pairs if a is not None and b is not None and (a - b) * sign > 0)
    return tuple(beyond)


def asks_for_extreme(question: str) -> bool:
    """Return whether a question asks for the highest or lowest number of several rows."""
    return operation(question) in ("highest", "lowest")


def _counts_rows(tables: Sequence[Found]) -> bool:
    """Return whether "how many" asks for rows, not for a number in a row."""
    found, rows = tables[0], sum(len(one.rows) for one in tables)
    if rows == 1 and _numeric_column(found) is not None:
        return False
    return not found.column or not all(_cell_value(row, found.column) for row in found.rows)


def _numeric_column(found: Found) -> int | None:
    """Return the first column that has only numbers, or None.

    If the question asks for a column, only this column counts. A column of years is chosen last.
    """
    rows = found.rows
    width = min((len(row.cells) for row in rows), default=0)
    columns = range(1, width) if found.column is None else [found.column]
    numeric = [n for n in columns if all(_cell_value(row, n) is not None for row in rows)]
    numeric.sort(key=lambda n: all(YEAR.fullmatch(row.cells[n]) for row in rows))
    return numeric[0] if numeric else None


def _cell_value(row: Row, column: int | None) -> Decimal | None:
    return None if column is None or column >= len(row.cells) else value_of(row.cells[column])


def _shown(number: Decimal | int) -> str:
    return f"{round(Decimal(number), 2).normalize():f}"
