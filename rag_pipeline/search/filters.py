"""Translate a user's filter in SQL into a condition for LanceDB.

sqlglot parses the filter. The condition contains only comparisons of known columns, metadata and
constants, so no other function, subquery or statement reaches LanceDB.
"""

import re
from typing import Any

from rag_pipeline.errors import InputError
from rag_pipeline.store import quoted

COLUMNS = ("chunk_id", "document_id", "title", "text", "context", "start", "end", "metadata")
_METADATA = ("json_get_string", "json_get_int", "json_get_float", "json_get_bool")
_TESTS = {"startswith": "starts_with", "endswith": "ends_with", "contains": "contains"}
_PLAIN = ("lower", "upper", "length")
_FUNCTIONS = ", ".join((*_METADATA, *_PLAIN, *_TESTS.values(), "cast", "try_cast"))
_COMPARISONS = {"eq": "=", "neq": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_TYPES = {
    "INT": "BIGINT",
    "BIGINT": "BIGINT",
    "FLOAT": "DOUBLE",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
}
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?", re.IGNORECASE)
_DEEPEST = 20
"""Maximum depth of nesting. LanceDB's time to parse some filters doubles with each level."""
_LONGEST = 200_000
"""Maximum number of characters. Some filters of 50,000 comparisons overflow LanceDB's stack."""
_TOO_DEEP = f"conditions are nested more than {_DEEPEST} levels deep"


def parse_filter(where: str) -> str:
    """Return a user's filter as a condition for LanceDB.

    A filter joins comparisons of columns, metadata and constants with AND, OR and NOT. Raises
    InputError for any other filter.
    """
    from sqlglot import parse_one
    from sqlglot.errors import SqlglotError

    shown = repr(where if len(where) <= 200 else f"{where[:200]}…")
    if not where.strip():
        raise InputError("--where: the filter is empty; leave it out to search all documents")
    if len(where) > _LONGEST:
        raise InputError(
            f"--where: the filter has {len(where):,} characters; shorten it to {_LONGEST:,}"
        )
    try:
        return _condition(parse_one(where), 0)
    except InputError as error:
        raise InputError(f"--where {shown}: {error}") from None
    except RecursionError:
        raise InputError(f"--where {shown}: {_TOO_DEEP}") from None
    except (SqlglotError, ValueError):
        raise InputError(
            f"--where {shown}: this is not a condition, such as document_id LIKE 'policies/%'"
        ) from None


def conjunction(*conditions: str | None) -> str | None:
    """Join conditions of `parse_filter` or `id_filter` with AND. Return None if all are None."""
    return " AND ".join(c for c in conditions if c is not None) or None


def _condition(node: Any, depth: int) -> str:
    if depth > _DEEPEST:
        raise InputError(_TOO_DEEP)
    key, this = node.key, node.this
    if key == "paren":
        return _condition(this, depth)
    if key in ("and", "or"):
        parts = [_condition(part, depth + 1) for part in node.flatten()]
        return f"({f' {key.upper()} '.join(parts)})"
    if key == "not":
        return f"(NOT {_condition(this, depth + 1)})"
    if key == "is" and node.expression.key in ("null", "boolean"):
        negated = "NOT " if node.args.get("negate") else ""
        return f"({_value(this, depth)} IS {negated}{node.expression.sql()})"
    if key == "between":
        low, high = _value(node.args["low"], depth), _value(node.args["high"], depth)
        return f"({_value(this, depth)} BETWEEN {low} AND {high})"
    if key == "in" and node.expressions:
        values = ", ".join(_value(value, depth) for value in node.expressions)
        return f"({_value(this, depth)} IN ({values}))"
    if key in ("like", "ilike"):
        operator = f"NOT {key.upper()}" if node.args.get("negate") else key.upper()
        return f"({_value(this, depth)} {operator} {_value(node.expression, depth)})"
    if key in _TESTS:
        return f"{_TESTS[key]}({_value(this, depth)}, {_value(node.expression, depth)})"
    if key in _COMPARISONS:
        return f"({_value(this, depth)} {_COMPARISONS[key]} {_value(node.expression, depth)})"
    return _value(node, depth)


def _value(node: Any, depth: int) -> str:
    if depth > _DEEPEST:
        raise InputError(_TOO_DEEP)
    key = node.key
    if key == "paren":
        return _value(node.this, depth + 1)
    if key == "column":
        return _column(node)
    if key == "literal" and node.is_string:
        return quoted(node.name)
    if key == "literal" and _NUMBER.fullmatch(node.name):
        return str(node.name)
    if key == "neg" and node.this.key == "literal":
        return f"-{_value(node.this, depth)}"
    if key in ("boolean", "null"):
        return str(node.sql())
    if key in ("cast", "trycast") and node.to.this.name in _TYPES:
        kind = "CAST" if key == "cast" else "TRY_CAST"
        return f"{kind}({_value(node.this, depth + 1)} AS {_TYPES[node.to.this.name]})"
    if key in _PLAIN:
        return f"{key}({_value(node.this, depth + 1)})"
    if key == "anonymous" and node.name.lower() in _METADATA:
        return _of_metadata(node)
    raise InputError(f"{node.sql()[:60]!r} is not allowed; use only: {_FUNCTIONS}")


def _column(node: Any) -> str:
    name = node.name.lower()
    if node.args.get("table") or name not in COLUMNS:
        raise InputError(
            f"no column {node.sql()[:60]!r}; columns: {', '.join(COLUMNS)} "
            f"(as in json_get_string(metadata, 'folder') = 'policies')"
        )
    return f"`{name}`"


def _of_metadata(node: Any) -> str:
    name = node.name.lower()
    column, *keys = node.expressions
    if column.name.lower() == "metadata" and len(keys) == 1 and keys[0].is_string:
        return f"{name}(`metadata`, {quoted(keys[0].name)})"
    raise InputError(f"{name} needs the column and a key: {name}(metadata, 'folder')")
