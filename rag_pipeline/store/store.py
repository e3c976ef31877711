"""Open the store of one corpus: its tables, small files and published folders."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.store import folders, hashes
from rag_pipeline.store.bucket import BucketFiles
from rag_pipeline.store.files import Files
from rag_pipeline.store.hashes import Hashes
from rag_pipeline.store.lance import one_line
from rag_pipeline.store.states import StateCache, read_once
from rag_pipeline.store.tables import KEEP_VERSIONS, Table

SHARED_CALLS = ".calls"
"""The folder of a bucket for large answers, which all corpora share (see `calls.cache`)."""

_SEALED = ("checks/", "evaluation/", "hashes/", "outcomes/", "passed_checks/", "releases/")
"""Folders whose JSON files hold the hash of their content."""


class Freed(NamedTuple):
    """A removed part of a store: its kind, name, reason and size in bytes.

    A dry run also lists parts that stay for now, with the time in UTC of their removal.
    """

    what: str
    name: str
    why: str
    bytes: int
    kept_until: str = ""


class Store:
    """The tables, small files and published folders of one corpus."""

    def __init__(self, url: str, corpus: str, keep_versions: timedelta = KEEP_VERSIONS) -> None:
        self.url = url.rstrip("/")
        self.corpus = corpus
        self._keep_versions = keep_versions
        self._states = StateCache()
        kind = BucketFiles if "://" in self.url else Files
        try:
            self.files: Files = kind(self.url, corpus)
        except (OSError, pa.ArrowInvalid, ValueError) as error:
            raise ConfigError(f"store: {url}: {one_line(error)}") from None

    def table(self, name: str, schema: pa.Schema) -> Table:
        """Return a table, which may not exist yet."""
        return Table(self.files, name, schema, self._keep_versions, self._states)

    def tables(self) -> list[str]:
        """Return the names of all tables, sorted."""
        return [n.removesuffix(".lance") for n in self.list("tables") if n.endswith(".lance")]

    def drop_table(self, name: str) -> None:
        """Delete a table with all its versions, even if the table can't be read."""
        self.files.remove_folder(f"tables/{name}.lance")
        self.remove_file(_hashes_file(name))

    # --- hashes ---

    def hash_table(self, name: str) -> Hashes:
        """Record the hashes of a table's new files, drop deleted files, and return all hashes."""
        table, place = self.table(name, None), f"tables/{name}.lance"
        known = dict(self.hashes_of(name, table.identity))
        wanted = {f"{place}/{path}" for files in table.files().values() for path in files}
        new = wanted - known.keys()
        if new or known.keys() - wanted:
            known |= self.files.hashes(new)
            known = {path: known[path] for path in sorted(wanted & known.keys())}
            self.write_json(_hashes_file(name), {"identity": table.identity, "files": known})
        return known

    def hashes_of(self, name: str, identity: str | None = None) -> Hashes:
        """Return the recorded hashes of a table's files, or {} if there is no readable record.

        If `identity` is given, ignore the record of an earlier table with this name.
        """
        with suppress(StoreError):
            record = self.read_json(_hashes_file(name)) or {}
            if identity is None or record.get("identity") == identity:
                files: Hashes = record.get("files", {})
                return files
        return {}

    def changed_files(self, known: Hashes) -> list[str]:
        """Return the files that are missing or no longer match their hashes, sorted."""
        found = self.files.hashes(known)
        return sorted(path for path, was in known.items() if found.get(path) != was)

    def check_file(self, path: str) -> None:
        """Raise StoreError if a JSON file, Parquet file or HTML page is incomplete or altered."""
        content = self.read_bytes(path)
        if content is None:
            return
        if path.endswith(".json"):
            whole = hashes.holds(self._parsed(path, content))
        elif path.endswith(".html"):
            whole = hashes.page_holds(content)
        else:
            rows = self.read_parquet(path)
            assert rows is not None
            note = self._parsed(path, (rows.schema.metadata or {}).get(b"note", b"{}"))
            whole = hashes.SEAL not in note or note[hashes.SEAL] == hashes.rows_hash(rows, note)
        if not whole:
            raise StoreError(
                f"{self.address(path)}: its hash differs, so it was altered after it was written"
            )

    @property
    def calls_path(self) -> Path:
        """Return the path of this machine's database of calls, which is never in a bucket."""
        return self.files.calls_folder / "calls.sqlite"

    # --- small files ---

    def address(self, path: str) -> str:
        """Return a file's path or s3:// address, for messages."""
        return f"{self.url}/{self.corpus}/{path}"

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""
        return self.files.read(path)

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file atomically: a reader sees the old content or the new content."""
        self.files.write(path, content)

    def read_json(self, path: str) -> Any:
        """Return a JSON file's value, or None if the file does not exist."""
        return read_once((self.address(path), "json"), lambda: self._read_json(path))

    def _read_json(self, path: str) -> Any:
        content = self.read_bytes(path)
        return None if content is None else hashes.unsealed(self._parsed(path, content))

    def write_json(self, path: str, value: Any) -> None:
        """Write a JSON file atomically."""
        self.write_bytes(path, _json_bytes(path, value))

    def read_tagged_json(self, path: str) -> tuple[Any, str | None]:
        """Return a JSON file's value and tag, or (None, None) if the file does not exist."""
        found = self.files.read_tagged(path)
        if found is None:
            return None, None
        return hashes.unsealed(self._parsed(path, found[0])), found[1]

    def write_json_if(self, path: str, value: Any, tag: str | None) -> bool:
        """Write a JSON file if it still has this tag, or if `tag` is None and no file exists.

        Return whether the file was written.
        """
        content = _json_bytes(path, value)
        if tag is None:
            return self.files.create(path, content)
        return self.files.replace(path, content, tag)

    def _parsed(self, path: str, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{self.address(path)}: not JSON: {error}") from None

    def remove_file(self, path: str) -> None:
        """Delete a file if it exists."""
        self.files.remove_file(path)

    def read_parquet(self, path: str) -> pa.Table | None:
        """Return a Parquet file's table with its schema metadata, or None if there is no file."""
        content = self.read_bytes(path)
        try:
            return None if content is None else pq.ParquetFile(pa.BufferReader(content)).read()
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{self.address(path)}: not Parquet: {one_line(error)}") from None

    def read_note(self, path: str) -> dict[str, Any]:
        """Return the note that `write_parquet` stored in a file, or {} if there is none."""
        return read_once((self.address(path), "note"), lambda: self._read_note(path))

    def _read_note(self, path: str) -> dict[str, Any]:
        try:
            with self.files.open_file(path) as file:
                metadata = pq.read_schema(file).metadata or {}
            note: dict[str, Any] = hashes.unsealed(json.loads(metadata.get(b"note", b"{}")))
        except (FileNotFoundError, pa.ArrowException, ValueError, RecursionError):
            return {}
        except OSError as error:
            if self.files.exists(path) and "thrift" not in str(error):
                raise StoreError(f"{self.address(path)}: cannot read: {one_line(error)}") from None
            return {}
        return note

    def write_parquet(self, path: str, table: pa.Table, note: Mapping[str, Any]) -> None:
        """Write a table and a note about its origin as one file, atomically."""
        sealed = {**note, hashes.SEAL: hashes.rows_hash(table, note)}
        table = table.replace_schema_metadata({"note": json.dumps(sealed)})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        self.write_bytes(path, sink.getvalue().to_pybytes())

    def list(self, path: str) -> list[str]:
        """Return the sorted names in a folder, or [] if the folder does not exist."""
        return sorted(n for n in self.files.list(path) if not n.startswith(".tmp-"))

    # --- folders: lexical indexes ---

    def publish_folder(self, built: Path, path: str) -> None:
        """Move the complete local folder `built` to `path`, or delete `built` if `path` exists."""
        self.files.publish(built, path, folders.list_files(built))

    def local_folder(self, path: str) -> Path:
        """Return a published folder on this machine, or raise StoreError if it does not exist.

        A folder of a bucket is copied once. Each call compares the hashes of its files.
        """
        folder = self.files.local_folder(path)
        if folder is None:
            raise StoreError(f"{self.address(path)}: no such folder; run `rag run` again")
        return folder


def _hashes_file(table: str) -> str:
    return f"hashes/{table}.json"


def _json_bytes(path: str, value: Any) -> bytes:
    if path.startswith(_SEALED):
        value = hashes.seal(value)
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
