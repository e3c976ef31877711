"""Parse and validate the files of a data set. An error names the wrong value and its position."""

from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from rag_pipeline.errors import InputError

NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
T = TypeVar("T")

_SHOWN_CHARACTERS = 80


class SourceRecord(BaseModel):
    """Validate an object of a data set. Types are not coerced, and unused fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, or raise InputError if it can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error


def parse(kind: type[T], data: bytes | str, where: str) -> T:
    """Parse JSON, or raise InputError with `where`, the path, the value and the expected type."""
    if isinstance(data, bytes):
        data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return TypeAdapter(kind).validate_json(data)
    except ValidationError as error:
        raise InputError(f"{where}: {_first(error)}") from None


def parse_file(kind: type[T], path: Path) -> T:
    """Parse a JSON file, or raise InputError like `parse`."""
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
