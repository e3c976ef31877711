"""One corpus's place in the store: its tables, small files and published folders."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.store.tables import Table, one_line


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
            raise ConfigError(f"store: {url}: {one_line(error)}") from None
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
            raise StoreError(f"{self.url}: cannot read {path}: {one_line(error)}") from None

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
            raise StoreError(f"{self.url}: cannot write {path}: {one_line(error)}") from None

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
                f"{self.url}/{self.corpus}/{path}: not Parquet: {one_line(error)}"
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
            raise StoreError(f"{self.url}: cannot write {path}: {one_line(error)}") from None

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


def _local_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "rag-pipeline"
