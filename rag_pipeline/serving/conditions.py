"""Turn Dify's `metadata_condition` into SQL. Source: Dify's External Knowledge API."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from rag_pipeline.errors import InputError
from rag_pipeline.store import quoted

_NEGATIVE = frozenset({"not contains", "is not", "not in", "empty", "≠"})
"""Operators that must hold for all names of a condition. Other operators must hold for one name."""
_COLUMNS = {"document_id": "document_id", "document_name": "document_id", "title": "title"}
"""Names with a column. Every other name is a key of the metadata."""
_DATES = {"before": "<", "after": ">"}
_NUMBERS = {"=": "=", "≠": "!=", ">": ">", "<": "<", "≥": ">=", "≤": "<="}
_SQL = {
    "contains": "contains({field}, {text})",
    "not contains": "NOT contains({field}, {text})",
    "start with": "starts_with({field}, {text})",
    "end with": "ends_with({field}, {text})",
    "is": "{field} = {text}",
    "is not": "{field} != {text}",
    "in": "{field} IN ({texts})",
    "not in": "{field} NOT IN ({texts})",
    "empty": "({field} IS NULL OR {field} = '')",
    "not empty": "({field} IS NOT NULL AND {field} != '')",
}
_OPERATORS = (*_SQL, *_NUMBERS, *_DATES)
_MOST = 100
"""Maximum number of conditions, and of values of a condition."""

Value = str | int | float | Annotated[list[str | int | float], Field(max_length=_MOST)] | None


class Condition(BaseModel):
    """A comparison of metadata fields. A missing field passes only the operator `empty`."""

    name: str | list[str] = Field(min_length=1)
    comparison_operator: str
    value: Value = None

    def sql(self) -> str:
        """Return the condition in SQL. Raise InputError for an unknown operator or a bad value."""
        operator, names = self.comparison_operator, self.name
        if operator not in _OPERATORS:
            raise self._refused(f"unknown operator; there are: {', '.join(_OPERATORS)}")
        each = [self._of(_field(n)) for n in ([names] if isinstance(names, str) else names)]
        return f"({(' AND ' if operator in _NEGATIVE else ' OR ').join(each)})"

    def _of(self, field: str) -> str:
        operator = self.comparison_operator
        if operator in _DATES:
            return self._dated(field)
        if operator in _NUMBERS:
            return f"TRY_CAST({field} AS DOUBLE) {_NUMBERS[operator]} {self._number()!r}"
        sql = _SQL[operator]
        texts = self._texts(one="{texts}" not in sql) if "{text" in sql else []
        text = ", ".join(map(quoted, texts))
        return sql.format(field=field, text=text, texts=text)

    def _dated(self, field: str) -> str:
        """Return a comparison of dates in SQL. Numbers mean seconds since 1970."""
        sign = _DATES[self.comparison_operator]
        seconds = None
        with suppress(InputError):
            seconds = self._number()
        try:
            if seconds is None:
                moment = datetime.fromisoformat(str(self.value))
            else:
                moment = datetime.fromtimestamp(seconds, UTC)
        except (ValueError, OverflowError, OSError):
            raise self._refused("needs a date such as 2025-12-31, or seconds") from None
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        dated = f"TRY_CAST({field} AS TIMESTAMP) {sign} TIMESTAMP '{moment.isoformat()}'"
        if seconds is None:
            return dated
        return f"({dated} OR TRY_CAST({field} AS DOUBLE) {sign} {seconds!r})"

    def _number(self) -> float:
        try:
            number = float(self.value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise self._refused("needs a number") from None
        if number - number != 0:  # infinite, or not a number
            raise self._refused("needs a finite number")
        return number

    def _texts(self, one: bool = False) -> list[str]:
        value = self.value
        if isinstance(value, list) and not one and value:
            return [str(v) for v in value]
        if value is None or isinstance(value, list):
            raise self._refused("needs a value" if one else "needs at least one value")
        text = str(value)
        return [text] if one else [part.strip() for part in text.split(",")]

    def _refused(self, why: str) -> InputError:
        return InputError(
            f"metadata_condition: {self.name!r} {self.comparison_operator!r} {self.value!r}: {why}"
        )


class MetadataCondition(BaseModel):
    """Dify's conditions, joined by `and` (the default) or `or`."""

    logical_operator: Literal["and", "or"] | None = None
    conditions: list[Condition] | None = None

    def where(self) -> str | None:
        """Return the filter in SQL, or None without conditions. Raise InputError for bad values."""
        if not self.conditions:
            return None
        count = sum(1 if isinstance(one.name, str) else len(one.name) for one in self.conditions)
        if count > _MOST:
            raise InputError(
                f"metadata_condition: {count} comparisons; at most {_MOST} are allowed"
            )
        joined = f" {(self.logical_operator or 'and').upper()} "
        return joined.join(condition.sql() for condition in self.conditions)


def _field(name: str) -> str:
    return _COLUMNS.get(name) or f"json_get_string(metadata, {quoted(name)})"
