"""Write filters in LanceDB's SQL, and read the files and indexes of Lance datasets."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_IDS_PER_FILTER = 500


def quoted(value: str) -> str:
    """Return a value as a string literal of LanceDB's SQL."""
    return "'" + value.replace("'", "''") + "'"


def id_filter(column: str, values: Iterable[str]) -> str:
    """Return the SQL condition `column IN (values)`."""
    return f"{column} IN ({', '.join(quoted(v) for v in values)})"


def id_filters(document_ids: Sequence[str]) -> Iterator[str]:
    """Yield SQL conditions that together select these documents, each with at most 500 ids."""
    for first in range(0, len(document_ids), _IDS_PER_FILTER):
        yield id_filter("document_id", document_ids[first : first + _IDS_PER_FILTER])


def table_name(lance: Any) -> str:
    """Return the name of the table that a Lance dataset belongs to."""
    return str(lance.uri).rstrip("/").rpartition("/")[2].removesuffix(".lance")


def data_files(lance: Any) -> dict[int, tuple[str, ...]]:
    """Return the data files of each fragment of a Lance dataset, by the fragment's id.

    The data files of a fragment never change.
    """
    return {
        fragment.fragment_id: tuple(file.path for file in fragment.data_files())
        for fragment in lance.get_fragments()
    }


def indexes(lance: Any) -> list[dict[str, Any]]:
    """Return the statistics of each index of a Lance dataset, with its `name`."""
    names = index_names(lance).values()
    return [{**lance.stats.index_stats(name), "name": name} for name in names]


def index_names(lance: Any) -> dict[str, str]:
    """Return the names of a Lance dataset's indexes by their first columns."""
    return {index.field_names[0]: index.name for index in lance.describe_indices()}
