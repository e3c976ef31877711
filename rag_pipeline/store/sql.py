"""Values and documents -> conditions in LanceDB's SQL."""

from collections.abc import Iterable, Iterator, Sequence

_IDS_PER_FILTER = 500


def quoted(value: str) -> str:
    """Return a string literal of LanceDB's SQL."""
    return "'" + value.replace("'", "''") + "'"


def id_filter(column: str, values: Iterable[str]) -> str:
    """Return the SQL that keeps rows whose column is one of the values."""
    return f"{column} IN ({', '.join(quoted(v) for v in values)})"


def id_filters(document_ids: Sequence[str]) -> Iterator[str]:
    """Yield filters that together keep the rows of these documents, 500 of them at a time."""
    for first in range(0, len(document_ids), _IDS_PER_FILTER):
        yield id_filter("document_id", document_ids[first : first + _IDS_PER_FILTER])
