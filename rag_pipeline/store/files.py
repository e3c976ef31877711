"""One corpus's place in the store: its tables, small files and published folders."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rag_pipeline.calls.sharing import cache_folder
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.store import folders
from rag_pipeline.store.conditional import BucketFiles, ConditionalFiles, FolderFiles
from rag_pipeline.store.s3 import (
    arrow_files,
    clear_s3_errors,
    lance_options,
    s3_client,
    split_url,
)
from rag_pipeline.store.states import StateCache
from rag_pipeline.store.tables import KEEP_VERSIONS, Table, one_line

SHARED_CALLS = ".calls"
"""The folder of a bucket's store, beside the corpora, that all of them share (see `sharing`)."""


class Store:
    """One corpus's tables, files and manifests."""

    def __init__(self, url: str, corpus: str, keep_versions: timedelta = KEEP_VERSIONS) -> None:
        self.url = url.rstrip("/")
        self.corpus = corpus
        self._keep_versions = keep_versions
        self._states = StateCache()
        self._conditional: ConditionalFiles
        self.is_local = "://" not in self.url
        try:
            if self.is_local:
                Path(self.url).mkdir(parents=True, exist_ok=True)
                self._files, self._root = pafs.LocalFileSystem(), f"{self.url}/{corpus}"
                self._conditional = FolderFiles(Path(self._root))
            else:
                bucket, prefix = split_url(self.url)
                inside = f"{prefix}/{corpus}".lstrip("/")
                self._files, self._root = arrow_files(), f"{bucket}/{inside}"
                self._conditional = BucketFiles(bucket, inside)
        except (OSError, pa.ArrowInvalid, ValueError) as error:
            raise ConfigError(f"store: {url}: {one_line(error)}") from None

    @cached_property
    def _database(self) -> "lancedb.DBConnection":
        if self.is_local:
            return lancedb.connect(f"{self.url}/{self.corpus}/tables")
        return lancedb.connect(f"{self.url}/{self.corpus}/tables", storage_options=lance_options())

    def table(self, name: str, schema: pa.Schema) -> Table:
        """Return a handle on a table that may not exist yet."""
        return Table(self._database, name, schema, self._keep_versions, self._states)

    def tables(self) -> list[str]:
        """Return the names of all tables, sorted."""
        return [n.removesuffix(".lance") for n in self.list("tables") if n.endswith(".lance")]

    def drop_table(self, name: str) -> None:
        """Delete a table with all its versions, readable or not."""
        self.remove_folder(f"tables/{name}.lance")

    @property
    def calls_path(self) -> Path:
        """Return the call cache's file; on this machine when the store is a bucket."""
        if self.is_local:
            return Path(self.url) / "calls.sqlite"
        return cache_folder() / _digest(self.url) / "calls.sqlite"

    # --- small files ---

    def address(self, path: str) -> str:
        """Return where a file stands, for people: a path or an s3:// address."""
        return f"{self.url}/{self.corpus}/{path}"

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
        if not self.is_local:
            # Not by Arrow: three requests an object, and where they fail its stream is closed,
            # with all retries, while it holds the interpreter lock.
            with clear_s3_errors(self.address(path)):
                s3_client().put_object(**self._object(path), Body=content)
            return
        target = f"{self._root}/{path}"
        try:
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

    def _object(self, path: str) -> dict[str, str]:
        bucket, _, key = f"{self._root}/{path}".partition("/")
        return {"Bucket": bucket, "Key": key}

    def read_json(self, path: str) -> Any:
        """Return a JSON file's value, None if there is no file."""
        content = self.read_bytes(path)
        try:
            return None if content is None else json.loads(content)
        except ValueError as error:
            raise StoreError(f"{self.url}/{self.corpus}/{path}: not JSON: {error}") from None

    def write_json(self, path: str, value: Any) -> None:
        """Write a JSON file atomically."""
        self.write_bytes(path, _json_bytes(value))

    def read_tagged_json(self, path: str) -> tuple[Any, str | None]:
        """Return a JSON file's value and its tag for `write_json_if`; (None, None) without one."""
        try:
            found = self._conditional.read(path)
        except OSError as error:
            raise StoreError(f"{self.url}: cannot read {path}: {one_line(error)}") from None
        if found is None:
            return None, None
        try:
            return json.loads(found[0]), found[1]
        except ValueError as error:
            raise StoreError(f"{self.url}/{self.corpus}/{path}: not JSON: {error}") from None

    def write_json_if(self, path: str, value: Any, tag: str | None) -> bool:
        """Write a JSON file if it still has this tag, or with None if there is none.

        Returns False, and changes nothing, when another writer was first.
        """
        content = _json_bytes(value)
        try:
            if tag is None:
                return self._conditional.create(path, content)
            return self._conditional.replace(path, content, tag)
        except OSError as error:
            raise StoreError(f"{self.url}: cannot write {path}: {one_line(error)}") from None

    def remove_file(self, path: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError):
            self._files.delete_file(f"{self._root}/{path}")

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

    def size(self, path: str) -> int:
        """Return the bytes of a file or of all files in a folder."""
        return sum(info.size or 0 for info in self._infos(path))

    def modified(self, path: str) -> float:
        """Return when a file, or a folder or the newest in it, was written (Unix seconds)."""
        own = self._files.get_file_info(f"{self._root}/{path}")
        return max(info.mtime_ns or 0 for info in (own, *self._infos(path))) / 1e9

    def leftovers(self) -> Sequence[str]:
        """Return the unfinished files and folders that a killed writer has left, or one at work.

        On a bucket there are none: what is written there appears when it is whole.
        """
        if not self.is_local:
            return []
        root = Path(self._root)
        found = root.glob("**/.tmp-*")
        return sorted(p.relative_to(root).as_posix() for p in found)

    def _infos(self, path: str) -> "Sequence[pafs.FileInfo]":
        place = f"{self._root}/{path}"
        info = self._files.get_file_info(place)
        if info.type == pafs.FileType.File:
            return [info]
        selector = pafs.FileSelector(place, recursive=True, allow_not_found=True)
        infos = self._files.get_file_info(selector)
        return [i for i in infos if i.type == pafs.FileType.File]

    # --- folders: lexical indexes ---

    def publish_folder(self, built: Path, path: str) -> None:
        """Move a complete local folder to its place in the store; keep what is there already."""
        listed = folders.list_files(built)
        if self.is_local:
            (built / folders.FILES).write_bytes(listed)
            target = Path(self._root) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                built.rename(target)
            except OSError:
                if not target.is_dir():
                    raise
                shutil.rmtree(built)
            return
        if self.has_folder(path):
            shutil.rmtree(built)
            return
        for file in sorted(p for p in built.rglob("*") if p.is_file()):
            name = f"{path}/{file.relative_to(built).as_posix()}"
            with clear_s3_errors(self.address(name)):
                s3_client().upload_file(str(file), *self._object(name).values())
        self.write_bytes(f"{path}/{folders.FILES}", listed)
        shutil.rmtree(built)

    def has_folder(self, path: str) -> bool:
        """Return whether a published folder is complete."""
        marker = path if self.is_local else f"{path}/{folders.FILES}"
        info = self._files.get_file_info(f"{self._root}/{marker}")
        return bool(info.type != pafs.FileType.NotFound)

    def local_folder(self, path: str) -> Path:
        """Return a published folder on this machine.

        A folder of a bucket is copied once, and its copy held against the SHA-256 of every file
        each time.
        """
        place = f"{self.url}/{self.corpus}/{path}"
        if self.is_local:
            if not self.has_folder(path):
                raise StoreError(f"{self.url}/{self.corpus}: no {path}; run `rag run` again")
            return Path(self._root) / path
        listed = self.read_bytes(f"{path}/{folders.FILES}")
        if listed is None:
            raise StoreError(f"{self.url}/{self.corpus}: no {path}; run `rag run` again")
        target = self._copies / self._copy_name(path, listed)
        return folders.fetch(self._files, f"{self._root}/{path}", listed, place, target)

    def check_folder(self, path: str) -> None:
        """Raise StoreError unless all files of a bucket's folder are there, as large as listed.

        A whole copy on this machine says nothing of what others will find in the bucket.
        """
        listed = None if self.is_local else self.read_bytes(f"{path}/{folders.FILES}")
        if listed is None:
            return
        root = f"{self._root}/{path}/"
        sizes = {info.path.removeprefix(root): info.size for info in self._infos(path)}
        for name, entry in folders.read_list(listed, self.address(path)).items():
            if sizes.get(name) != entry["bytes"]:
                raise StoreError(
                    f"{self.address(f'{path}/{name}')}: torn: {sizes.get(name, 'no')} bytes, and "
                    f"{folders.FILES} says {entry['bytes']}"
                )

    def stale_copies(self, paths: Iterable[str], before: float) -> Sequence[Path]:
        """Return this machine's copies of the corpus's folders, but of those at these paths.

        Only those last used before a time (Unix seconds).
        """
        wanted = set()
        for path in paths:
            listed = self.read_bytes(f"{path}/{folders.FILES}")
            if listed is not None:
                wanted.add(self._copy_name(path, listed))
        mine = f"{_digest(self.address(''))}-*"
        found = [copy for copy in sorted(self._copies.glob(mine)) if copy.name not in wanted]
        return [copy for copy in found if copy.stat().st_mtime <= before]

    @property
    def _copies(self) -> Path:
        return cache_folder() / "folders"

    def _copy_name(self, path: str, listed: bytes) -> str:
        # The list's own hash is part of it: a folder that was built again is another copy.
        content = hashlib.sha256(listed).hexdigest()
        return f"{_digest(self.address(''))}-{_digest(path + content)}"

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
        """Delete a folder, or a file."""
        with suppress(FileNotFoundError):
            try:
                self._files.delete_dir(f"{self._root}/{path}")
            except NotADirectoryError:
                self.remove_file(path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
