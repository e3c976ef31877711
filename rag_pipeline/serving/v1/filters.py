"""Turn OpenAI's filters of attributes into SQL.

Source: OpenAI's API reference, `POST /v1/vector_stores/{id}/search`.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rag_pipeline.errors import InputError
from rag_pipeline.store import quoted

_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_LISTS = {"in": "IN", "nin": "NOT IN"}
_COLUMNS = {
    "document_id": "document_id",
    "file_id": "document_id",
    "filename": "document_id",
    "title": "title",
}
"""Keys with a column. Every other key is a key of the metadata."""
_MOST = 100
"""Maximum number of comparisons, and of values in a list."""

Scalar = str | float | bool


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Comparison(_Part):
    """A comparison of an attribute. A document without the attribute passes no comparison."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: str = Field(min_length=1, max_length=200)
    value: Scalar | list[Scalar]

    def sql(self) -> str:
        """Return the comparison in SQL. Raise InputError for a value that does not fit."""
        column = _COLUMNS.get(self.key)
        text = column or f"json_get_string(metadata, {quoted(self.key)})"
        value = self.value
        if self.type in _LISTS:
            if not isinstance(value, list) or not 0 < len(value) <= _MOST:
                raise self._refused(f"needs a list of 1 to {_MOST} values")
            numbers = [v for v in value if isinstance(v, float)]
            if numbers and len(numbers) < len(value):
                raise self._refused("mixes numbers with other values")
            field = _as_number(text) if numbers else text
            return f"{field} {_LISTS[self.type]} ({', '.join(map(_literal, value))})"
        if isinstance(value, list):
            raise self._refused("needs one value")
        if isinstance(value, bool) and self.type not in ("eq", "ne"):
            raise self._refused("compares true and false only by eq and ne")
        field = _as_number(text) if isinstance(value, float) else text
        return f"{field} {_SIGNS[self.type]} {_literal(value)}"

    def _refused(self, why: str) -> InputError:
        return InputError(f"filters: {self.key[:80]!r} {self.type}: {why}")


class Compound(_Part):
    """Filters that are joined by `and` or `or`."""

    type: Literal["and", "or"]
    filters: Annotated[list["Comparison | Compound"], Field(min_length=1, max_length=_MOST)]

    def sql(self) -> str:
        """Return the filters in SQL."""
        return f" {self.type.upper()} ".join(f"({one.sql()})" for one in self.filters)

    def count(self) -> int:
        """Return the number of comparisons."""
        return sum(one.count() if isinstance(one, Compound) else 1 for one in self.filters)


def where_of(filters: Comparison | Compound | None) -> str | None:
    """Return the filter in SQL, or None. Raise InputError for bad values or too many of them."""
    if isinstance(filters, Compound) and filters.count() > _MOST:
        raise InputError(f"filters: {filters.count()} comparisons; at most {_MOST} are allowed")
    return None if filters is None else filters.sql()


def _as_number(field: str) -> str:
    return f"TRY_CAST({field} AS DOUBLE)"


def _literal(value: Scalar) -> str:
    if isinstance(value, bool):
        return quoted(str(value).lower())
    if isinstance(value, str):
        return quoted(value)
    if value - value != 0:
        raise InputError(f"filters: {value!r} is not a finite number")
    return repr(value)
