"""A user's filter in LanceDB's SQL -> one condition that stands by itself, or a clear error."""

import re

from rag_pipeline.errors import InputError

_PIECES = re.compile(
    r"""(?P<string>(?<!\w)'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)"""
    r"""|(?P<paren>[()])|(?P<refused>;|--|/\*|['"`$])"""
)
"""Literals and quoted names, which may hold anything; parentheses; what ends or hides a part."""


def filter_of(*parts: str | None) -> str | None:
    """Return one filter that keeps what all parts keep; None where no part is given.

    LanceDB reads a filter up to the end of its first expression and ignores what follows, so each
    part is put into parentheses. Raises InputError for a part that would leave them: one with a
    semicolon, a comment, an open literal, or a parenthesis too many.
    """
    given = [_alone(part) for part in parts if part is not None]
    return " AND ".join(given) if given else None


def as_written(where: str) -> str:
    """Return a filter without the parentheses that `filter_of` puts around a single part."""
    inner = where[1:-1]
    try:
        return as_written(inner) if where == _alone(inner) else where
    except InputError:
        return where


def _alone(where: str) -> str:
    if not where.strip():
        raise InputError("--where: the filter is empty; leave it out to search everything")
    depth = 0
    for piece in _PIECES.finditer(where):
        if piece["refused"]:
            raise InputError(
                f"--where {where!r}: {piece['refused']!r} at character {piece.start() + 1}: a "
                f"filter is one condition, without a second statement, comments or open quotes"
            )
        depth += {"(": 1, ")": -1}.get(piece["paren"] or "", 0)
        if depth < 0:
            break
    if depth:
        raise InputError(f"--where {where!r}: its parentheses do not match")
    return f"({where})"
