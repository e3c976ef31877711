"""A user's filter in LanceDB's SQL -> one isolated condition, or a clear error."""

import re
from contextlib import suppress

from rag_pipeline.errors import InputError

_PIECES = re.compile(
    r"""(?P<string>(?<!\w)'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)"""
    r"""|(?P<paren>[()])|(?P<refused>;|--|/\*|['"`$])"""
)
"""Literals and quoted names, which may hold any text; parentheses; refused characters."""
_DEEPEST = 20
"""Maximum depth of parentheses: with each level the time to parse some filters doubles."""
_MOST_OPERATORS = 50
"""Maximum operators without AND or OR between them: about 900 overflow the process's stack."""
_OPERATOR = re.compile(r"::|[-+*/%|&^~<>=!\[]|\b(?:IS|I?LIKE|IN|NOT|BETWEEN|AT|COLLATE)\b", re.I)
_JOINING = re.compile(r"\b(?:AND|OR)\b", re.I)
_BETWEEN = re.compile(r"\bBETWEEN\b", re.I)
_GROWING = re.compile(
    r"\b((?:array_|list_)?(?:repeat|resize)|[lr]pad|(?:regexp_)?replace|overlay)[\"`]?\s*\(", re.I
)
"""Functions that can make texts and lists of any size, and so exhaust memory."""


def filter_of(*parts: str | None) -> str | None:
    """Return the conjunction of filters; None if no part is given.

    LanceDB ignores any text after the first expression, so each part is put into parentheses.
    Raises InputError for a part that could leave them: one with a semicolon, a comment, an open
    literal, or a parenthesis too many.
    """
    given = [_alone(part) for part in parts if part is not None]
    return " AND ".join(given) if given else None


def as_written(where: str) -> str:
    """Return a filter without the parentheses that `filter_of` adds."""
    for _ in range(3):
        inner = where[1:-1]
        with suppress(InputError):
            if where == f"({inner})" == _alone(inner):
                where = inner
    return where


def _alone(where: str) -> str:
    if not where.strip():
        raise InputError("--where: the filter is empty; leave it out to search everything")
    depth, deepest = 0, 0
    for piece in _PIECES.finditer(where):
        if piece["refused"]:
            raise InputError(
                f"--where {where!r}: {piece['refused']!r} at character {piece.start() + 1}: a "
                f"filter is one condition, without a second statement, comments or open quotes"
            )
        depth += {"(": 1, ")": -1}.get(piece["paren"] or "", 0)
        deepest = max(deepest, depth)
        if depth < 0:
            break
    if depth:
        raise InputError(f"--where {where!r}: its parentheses do not match")
    _check_size(where, deepest)
    return f"({where})"


def _check_size(where: str, deepest: int) -> None:
    shown = where if len(where) <= 200 else f"{where[:200]}…"
    if deepest - (len(where) - len(where.lstrip("("))) > _DEEPEST:
        raise InputError(f"--where {shown!r}: more than {_DEEPEST} parentheses inside each other")
    outside = re.sub("'(?:[^']|'')*'", "''", where)
    terms = [*_JOINING.split(outside), " ".join(_BETWEEN.findall(outside))]
    if max(len(_OPERATOR.findall(term)) for term in terms) > _MOST_OPERATORS:
        raise InputError(
            f"--where {shown!r}: more than {_MOST_OPERATORS} operators without AND or OR between"
        )
    if growing := _GROWING.search(outside):
        raise InputError(
            f"--where {shown!r}: {growing[1]}() can make texts of any size; leave it out"
        )
