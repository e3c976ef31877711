"""Build SQL for LanceDB, clarify its errors, list the files of datasets, and merge their parts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rag_pipeline.errors import StoreError

MAX_FRAGMENTS = 16
"""Number of fragments above which small fragments are merged."""
MAX_DELETED = 0.2
"""Share of deleted rows (0 to 1) above which a table is rewritten without them."""
MAX_UNINDEXED = 0.05
"""Maximum share of rows (0 to 1) outside an index. Each search scans these rows."""
_IDS_PER_FILTER = 500
_SOURCE_LINE = re.compile(r",? /\S+\.rs:\d+:\d+")
_PANICS = ("PanicException", "RustPanic")
"""Names of Rust's error classes, which can't be imported."""


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
    return [{**lance.stats.index_stats(name), "name": name} for name in index_names(lance).values()]


def index_names(lance: Any) -> dict[str, str]:
    """Return the names of a Lance dataset's indexes by their first columns."""
    return {index.field_names[0]: index.name for index in lance.describe_indices()}


def merge(lance: Any) -> None:
    """Merge the parts of a dataset's indexes, and then its fragments, if there are too many."""
    stats, rows = lance.stats.dataset_stats(), int(lance.count_rows())
    deleted = int(stats["num_deleted_rows"])
    worn = stats["num_fragments"] > MAX_FRAGMENTS or deleted > MAX_DELETED * (deleted + rows)
    for index in indexes(lance):
        added = index["num_indexed_rows"] < (1 - MAX_UNINDEXED) * rows
        if worn or added or index["num_indices"] > 1:
            # All parts become one, because Lance never merges fragments of different parts.
            # `retrain` and LanceDB's `optimize` reduce the index to a single partition.
            lance.optimize.optimize_indices(
                num_indices_to_merge=index["num_indices"], index_names=[index["name"]]
            )
    if worn:
        lance.optimize.compact_files()


@contextmanager
def clear_errors(what: str, verb: str = "write") -> Iterator[None]:
    """Turn LanceDB's and Arrow's errors inside the block into a StoreError.

    The message names the table or file `what` and the failed action `verb`.
    """
    try:
        yield
    except BaseException as error:
        if not is_of_store(error):
            raise
        cure = "; `rag doctor --full --repair` and `rag run` repair it" if verb == "search" else ""
        raise StoreError(f"{what}: cannot {verb}: {one_line(error)}{cure}") from error


def is_of_store(error: BaseException) -> bool:
    """Return whether LanceDB and Arrow raise errors of this type about the store."""
    if type(error).__name__ in _PANICS:
        return True
    kinds = OSError | RuntimeError | ValueError
    return isinstance(error, kinds) and not isinstance(error, StoreError)


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, without Lance's source lines.

    A message of more than 300 characters keeps its start (the place) and end (the server's reply).
    """
    message = " ".join(_SOURCE_LINE.sub("", str(error)).split())
    return message if len(message) <= 300 else f"{message[:169]} … {message[-128:]}"
