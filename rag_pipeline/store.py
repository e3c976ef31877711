"""Where everything that is built lives: one folder or s3:// prefix per corpus.

    <store>/<corpus>/tables/     LanceDB: documents, quarantine, chunks.*, vector_index.* …
    <store>/<corpus>/lexical/    immutable BM25 indexes, one folder per build
    <store>/<corpus>/evaluation/ queries, runs and scores as Parquet
    <store>/<corpus>/releases/   one manifest per release, and `current.json`
    <store>/calls.sqlite         the call cache, shared by all corpora (see `calls`)

State is per document: each row of a derived table says which document, content and fingerprint it
was made from, so what is stale can be read off the table itself.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import lancedb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rag_pipeline.errors import ConfigError, StoreError

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
        if self.exists() and not _same_columns(self.open().schema, self.schema):
            self._database.create_table(self.name, schema=self.schema, mode="overwrite")
        else:
            self._database.create_table(self.name, schema=self.schema, exist_ok=True)

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
            raise StoreError(f"{self._database.uri}: no table {what}: {_line(error)}") from None
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
                raise StoreError(f"{self.name}: cannot compact: {_line(error)}") from None


class Store:
    """One corpus's tables, files and manifests."""

    def __init__(self, url: str, corpus: str) -> None:
        self.url = url.rstrip("/")
        self.corpus = corpus
        try:
            if "://" in self.url:
                self._files, root = pafs.FileSystem.from_uri(self.url)
            else:
                Path(self.url).mkdir(parents=True, exist_ok=True)
                self._files, root = pafs.LocalFileSystem(), self.url
        except (OSError, pa.ArrowInvalid, ValueError) as error:
            raise ConfigError(f"store: {url}: {_line(error)}") from None
        self.is_local = isinstance(self._files, pafs.LocalFileSystem)
        self._root = f"{root}/{corpus}"

    @cached_property
    def _database(self) -> "lancedb.DBConnection":
        if self.is_local:
            return lancedb.connect(f"{self.url}/{self.corpus}/tables")
        return lancedb.connect(
            f"{self.url}/{self.corpus}/tables", storage_options=s3_storage_options()
        )

    def table(self, name: str, schema: pa.Schema) -> Table:
        """Return a handle on a table that may not exist yet."""
        return Table(self._database, name, schema)

    @property
    def calls_path(self) -> Path:
        """Return the call cache's file; on this machine when the store is a bucket."""
        if self.is_local:
            return Path(self.url) / "calls.sqlite"
        return _local_cache() / hashlib.sha256(self.url.encode()).hexdigest()[:16] / "calls.sqlite"

    # --- small files ---

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's content, None if there is none."""
        try:
            with self._files.open_input_stream(f"{self._root}/{path}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.url}: cannot read {path}: {_line(error)}") from None

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file so that a reader sees the old content or the new, never a part."""
        target = f"{self._root}/{path}"
        try:
            if not self.is_local:
                with self._files.open_output_stream(target) as stream:
                    stream.write(content)
                return
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=Path(target).parent, prefix=".tmp-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                Path(temporary).replace(target)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise StoreError(f"{self.url}: cannot write {path}: {_line(error)}") from None

    def read_json(self, path: str) -> Any:
        """Return a JSON file's value, None if there is no file."""
        content = self.read_bytes(path)
        try:
            return None if content is None else json.loads(content)
        except ValueError as error:
            raise StoreError(f"{self.url}/{self.corpus}/{path}: not JSON: {error}") from None

    def write_json(self, path: str, value: Any) -> None:
        """Write a JSON file atomically."""
        self.write_bytes(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())

    def read_parquet(self, path: str) -> pa.Table | None:
        """Return a Parquet file's table with its schema metadata, None if there is no file."""
        content = self.read_bytes(path)
        try:
            return None if content is None else pq.read_table(pa.BufferReader(content))
        except pa.ArrowInvalid as error:
            raise StoreError(
                f"{self.url}/{self.corpus}/{path}: not Parquet: {_line(error)}"
            ) from None

    def read_note(self, path: str) -> dict[str, Any]:
        """Return what `write_parquet` noted beside the rows, {} if there is no file."""
        content = self.read_bytes(path)
        if content is None:
            return {}
        try:
            metadata = pq.read_schema(pa.BufferReader(content)).metadata or {}
        except pa.ArrowInvalid:
            return {}
        note: dict[str, Any] = json.loads(metadata.get(b"note", b"{}"))
        return note

    def write_parquet(self, path: str, table: pa.Table, note: Mapping[str, Any]) -> None:
        """Write a table and a note about its origin as one file, atomically."""
        table = table.replace_schema_metadata({"note": json.dumps(dict(note))})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        self.write_bytes(path, sink.getvalue().to_pybytes())

    def list(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; [] if there is none."""
        selector = pafs.FileSelector(f"{self._root}/{path}", allow_not_found=True)
        names = [info.base_name for info in self._files.get_file_info(selector)]
        return sorted(n for n in names if not n.startswith(".tmp-"))

    # --- folders: lexical indexes ---

    def publish_folder(self, built: Path, path: str) -> None:
        """Move a complete local folder to its place in the store; keep what is there already."""
        if self.is_local:
            target = Path(self._root) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                built.rename(target)
            except OSError:
                if not target.is_dir():
                    raise
                shutil.rmtree(built)
            return
        for file in sorted(built.rglob("*")):
            if file.is_file():
                relative = file.relative_to(built).as_posix()
                with self._files.open_output_stream(f"{self._root}/{path}/{relative}") as stream:
                    stream.write(file.read_bytes())
        self.write_bytes(f"{path}/COMPLETE", b"")
        shutil.rmtree(built)

    def has_folder(self, path: str) -> bool:
        """Return whether a published folder is complete."""
        marker = path if self.is_local else f"{path}/COMPLETE"
        info = self._files.get_file_info(f"{self._root}/{marker}")
        return bool(info.type != pafs.FileType.NotFound)

    def local_folder(self, path: str) -> Path:
        """Return a published folder on this machine, fetched once when the store is a bucket."""
        if not self.has_folder(path):
            raise StoreError(f"{self.url}/{self.corpus}: no {path}; run `rag run` again")
        if self.is_local:
            return Path(self._root) / path
        key = hashlib.sha256(f"{self.url}/{self.corpus}/{path}".encode()).hexdigest()[:16]
        target = _local_cache() / "folders" / key
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            fetched = Path(tempfile.mkdtemp(dir=target.parent))
            pafs.copy_files(
                f"{self._root}/{path}",
                str(fetched),
                source_filesystem=self._files,
                destination_filesystem=pafs.LocalFileSystem(),
            )
            with suppress(OSError):  # another process was first
                fetched.rename(target)
        return target

    def building_folder(self, path: str) -> Path:
        """Return a new empty folder to build in, on the store's own disk when it is local."""
        if not self.is_local:
            return Path(tempfile.mkdtemp(prefix="rag-building-"))
        parent = (Path(self._root) / path).parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(dir=parent, prefix=".tmp-"))
        except OSError as error:
            raise StoreError(f"{self.url}: cannot write {path}: {_line(error)}") from None

    def remove_folder(self, path: str) -> None:
        """Delete a published folder."""
        with suppress(FileNotFoundError):
            self._files.delete_dir(f"{self._root}/{path}")


def s3_storage_options() -> dict[str, str]:
    """Return LanceDB's options for the endpoint that AWS's own variables name."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return {}
    return {
        "aws_endpoint": endpoint,
        "allow_http": str(endpoint.startswith("http://")).lower(),
        "aws_virtual_hosted_style_request": "false",
    }


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
            raise StoreError(f"{self._what}: cannot write: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _local_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "rag-pipeline"


def unique_count(column: pa.ChunkedArray) -> int:
    """Return the number of distinct values."""
    return int(pc.count_distinct(column).as_py())
