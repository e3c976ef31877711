"""LanceDB tables whose rows belong to documents."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import lancedb
import pyarrow as pa

from rag_pipeline.errors import StoreError

KEEP_VERSIONS = timedelta(days=7)
_IDS_PER_FILTER = 500


class DocumentState(NamedTuple):
    """What a document's rows in a table were made from, and how many there are."""

    content_hash: str
    fingerprint: str
    rows: int


class Table:
    """A LanceDB table whose rows belong to documents."""

    def __init__(self, database: "lancedb.DBConnection", name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._database = database

    def ensure(self) -> None:
        """Create the table; start it afresh when its columns have changed (a new dimension)."""
        if not self.exists():
            try:
                self._database.create_table(self.name, schema=self.schema)
            except ValueError:  # another process was first
                self.open()
        elif not _same_columns(self.open().schema, self.schema):
            self._database.create_table(self.name, schema=self.schema, mode="overwrite")

    def exists(self) -> bool:
        """Return whether the table has been created."""
        try:
            self._database.open_table(self.name)
        except (ValueError, FileNotFoundError):
            return False
        return True

    def open(self, version: int | None = None) -> "lancedb.table.Table":
        """Open the newest or one pinned version."""
        try:
            table = self._database.open_table(self.name)
            if version is not None:
                table.checkout(version)
        except (ValueError, RuntimeError, FileNotFoundError) as error:
            what = self.name if version is None else f"{self.name} at version {version}"
            raise StoreError(f"{self._database.uri}: no table {what}: {one_line(error)}") from None
        return table

    @property
    def version(self) -> int:
        """Return the newest version's number."""
        return int(self.open().version)

    def count(self) -> int:
        """Return the number of rows, 0 if there is no table."""
        return int(self.open().count_rows()) if self.exists() else 0

    def state(self, version: int | None = None) -> dict[str, DocumentState]:
        """Return what each document's rows were made from.

        A document with rows of more than one origin is returned with an empty fingerprint, so
        that it counts as stale.
        """
        if not self.exists():
            return {}
        columns = ["document_id", "content_hash", "fingerprint"]
        rows = self.open(version).search().select(columns).to_arrow()
        groups = rows.group_by(columns, use_threads=False).aggregate([([], "count_all")])
        state: dict[str, DocumentState] = {}
        for row in groups.to_pylist():
            name = row["document_id"]
            if name in state:
                state[name] = DocumentState("", "", state[name].rows + row["count_all"])
            else:
                state[name] = DocumentState(
                    row["content_hash"], row["fingerprint"], row["count_all"]
                )
        return state

    def read(
        self,
        columns: Sequence[str],
        document_ids: Sequence[str] | None = None,
        version: int | None = None,
        batch_rows: int = 4096,
    ) -> Iterator[pa.RecordBatch]:
        """Stream some columns, of all documents or of these."""
        if not self.exists():
            return
        table = self.open(version)
        filters = [None] if document_ids is None else list(_id_filters(document_ids))
        for where in filters:
            query = table.search().select(list(columns))
            if where is not None:
                query = query.where(where)
            yield from query.to_batches(batch_rows)

    def replace(self, document_ids: Sequence[str], batches: Iterable[pa.RecordBatch]) -> int:
        """Put these rows in the place of all that the documents had; return the row count.

        The rows are added in one commit, so after a crash a document has all its rows or none.
        """
        rows = pa.Table.from_batches(list(batches), self.schema)
        with _clear_errors(self.name):
            self.drop(document_ids)
            if rows.num_rows:
                self.open().add(rows)
        return int(rows.num_rows)

    def drop(self, document_ids: Sequence[str]) -> None:
        """Delete all rows of these documents."""
        if not document_ids:
            return
        table = self.open()
        for where in _id_filters(document_ids):
            if table.count_rows(where):
                table.delete(where)

    def compact(self) -> None:
        """Merge small fragments and drop versions older than a week that no release pins."""
        table = self.open()
        try:
            table.optimize(cleanup_older_than=KEEP_VERSIONS)
        except (RuntimeError, ValueError, OSError) as error:
            # Lance refuses clean-up while a release's tag is among the old versions; the data
            # itself has been compacted by then, and what is pinned must stay.
            if "tagged version" not in str(error):
                raise StoreError(f"{self.name}: cannot compact: {one_line(error)}") from None


def state_digest(state: Mapping[str, DocumentState]) -> str:
    """Hash what a table holds: documents, contents, fingerprints and row counts."""
    digest = hashlib.sha256()
    for document_id in sorted(state):
        digest.update(repr((document_id, *state[document_id])).encode())
    return digest.hexdigest()[:16]


def quoted(value: str) -> str:
    """Return a string literal of LanceDB's SQL."""
    return "'" + value.replace("'", "''") + "'"


def id_filter(column: str, values: Iterable[str]) -> str:
    """Return the SQL that keeps rows whose column is one of the values."""
    return f"{column} IN ({', '.join(quoted(v) for v in values)})"


def _id_filters(document_ids: Sequence[str]) -> Iterator[str]:
    for first in range(0, len(document_ids), _IDS_PER_FILTER):
        yield id_filter("document_id", document_ids[first : first + _IDS_PER_FILTER])


def _same_columns(stored: pa.Schema, wanted: pa.Schema) -> bool:
    # JSON columns come back as binary with an extension name, so only the vector's width counts.
    if stored.names != wanted.names:
        return False
    if "vector" not in wanted.names:
        return True
    return bool(stored.field("vector").type == wanted.field("vector").type)


class _clear_errors:  # noqa: N801 - reads as a verb where it is used
    """Turn LanceDB's many exceptions for a full disk or a lost store into one StoreError."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError | RuntimeError) and not isinstance(error, StoreError):
            raise StoreError(f"{self._what}: cannot write: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, cut at 300 characters."""
    return " ".join(str(error).split())[:300]
