"""Parse and validate the files of data sets. Errors name the wrong value and its position."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from rag_pipeline.errors import InputError

NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
T = TypeVar("T")

_SHOWN_CHARACTERS = 80


class SourceRecord(BaseModel):
    """An object of a data set. Types are not coerced, and unused fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, or raise InputError if it can't be read."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a path may contain a NUL character
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: can't be read: {reason}") from error


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the bytes of each non-blank line in a file."""
    lines = read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def read_judgements(
    path: Path, names: Mapping[str, str], columns: tuple[int, int, int]
) -> dict[str, dict[str, int]]:
    """Return the grades above 0 in a file of judgements, by query id and document id.

    `columns` are the numbers (from 0) of the columns for query, document and grade. `names` maps
    the file's document names to document ids. Omit other documents. A first line without a grade is
    a header.
    """
    grades: dict[str, dict[str, int]] = {}
    for number, line in read_lines(path):
        fields = line.decode(errors="replace").split()
        try:
            query_id, name, given = (fields[column] for column in columns)
            grade = int(given)
        except (IndexError, ValueError):
            if number == 1:
                continue
            raise InputError(
                f"{path}: line {number}: {line[:_SHOWN_CHARACTERS]!r}: expected a query, a "
                f"document and a whole number as the grade"
            ) from None
        judged = grades.setdefault(query_id, {})
        if grade > 0 and name in names:
            judged[names[name]] = grade
    return grades


def parse(kind: type[T], data: bytes | str, where: str) -> T:
    """Parse JSON and validate it as `kind`.

    Raise InputError with `where`, the position in the JSON, the value and the expected type.
    """
    if isinstance(data, bytes):
        data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return TypeAdapter(kind).validate_json(data)
    except ValidationError as error:
        raise InputError(f"{where}: {_first(error)}") from None


def parse_file(kind: type[T], path: Path) -> T:
    """Parse a JSON file and validate it as `kind`. Raise InputError like `parse`."""
    return parse(kind, read_bytes(path), str(path))


def _first(error: ValidationError) -> str:
    first, count = error.errors(include_url=False)[0], error.error_count()
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"]).lstrip(".")
    message = f"{place}: {first['msg']}" if place else first["msg"]
    # For these two types, the input is the whole file or object.
    if first["type"] not in ("json_invalid", "missing"):
        value = repr(first["input"])
        shown = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
        message += f", got {shown}"
    return message + (f" (and {count - 1} more errors)" if count > 1 else "")
