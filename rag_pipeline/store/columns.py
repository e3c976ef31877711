"""Schemas of stored tables: the stamp of their format, and how far their columns may differ."""

from uuid import uuid4

import pyarrow as pa

FORMAT = 1
"""Format of tables, raised when older code would misread what newer code has written; 0 is a table
from before formats were recorded, which differs from 1 in nothing else."""

_FORMAT, _IDENTITY = b"rag_pipeline.format", b"rag_pipeline.identity"


def stamp() -> dict[str, str]:
    """Return the metadata of a new table: this format, and an identity of its own."""
    return {_FORMAT.decode(): str(FORMAT), _IDENTITY.decode(): uuid4().hex}


def format_of(schema: pa.Schema) -> int:
    """Return the format of a stored table."""
    return int((schema.metadata or {}).get(_FORMAT, b"0"))


def identity_of(schema: pa.Schema) -> str | None:
    """Return what a table was given when it was created; None for those of long ago."""
    identity = (schema.metadata or {}).get(_IDENTITY)
    return None if identity is None else identity.decode()


def added_columns(stored: pa.Schema, wanted: pa.Schema) -> list[pa.Field]:
    """Return the columns at the end of the wanted ones that the stored ones lack, if nullable."""
    added = [wanted.field(place) for place in range(len(stored.names), len(wanted.names))]
    fits = stored.names == wanted.names[: len(stored.names)]
    return added if fits and all(field.nullable for field in added) else []


def same_columns(stored: pa.Schema, wanted: pa.Schema) -> bool:
    """Tell whether two schemas have the same columns, and vectors of the same width."""
    # JSON columns come back as binary with an extension name, so only the vector's width counts.
    if stored.names != wanted.names:
        return False
    if "vector" not in wanted.names:
        return True
    return bool(stored.field("vector").type == wanted.field("vector").type)
