"""Store the files of one corpus below a local folder. For a bucket, see `bucket`.

A file is written under a temporary name and then moved to its path. If several writers compete, one
wins. `create` makes a hard link, which refuses an existing name. `replace` locks the folder, and
the lock ends with its process.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from rag_pipeline.errors import StoreError
from rag_pipeline.imports import import_lancedb
from rag_pipeline.store.folders import FILES, read_list
from rag_pipeline.store.hashes import Hashes
from rag_pipeline.store.lance import clear_errors, one_line

if TYPE_CHECKING:
    import lancedb

Lock = AbstractContextManager[object]
"""A context manager that holds a lock until its block ends."""
UNFINISHED = ".tmp-"
"""Prefix of the names of unfinished files and folders."""


class Files:
    """The files of a corpus below a local folder."""

    shared = False
    """Whether other machines also write here."""
    calls_folder: Path
    """This machine's folder for the calls of all corpora of the store."""

    def __init__(self, url: str, corpus: str) -> None:
        self.url = url
        self.files: pafs.FileSystem = pafs.LocalFileSystem()
        self.root = self.address = f"{url}/{corpus}"
        self.calls_folder = Path(url)
        self.calls_folder.mkdir(parents=True, exist_ok=True)

    @cached_property
    def database(self) -> "lancedb.DBConnection":
        """Return the LanceDB database of the tables, for writing."""
        connection: lancedb.DBConnection = import_lancedb().connect(
            f"{self.address}/tables", storage_options=self._lance_options()
        )
        return connection

    def open_table(self, name: str, version: int | None = None) -> Any:
        """Open a version of a table for reading, by default the newest version.

        pylance needs a third of LanceDB's processor time, and saves LanceDB's imports of 0.7
        seconds. Raise ValueError if the version does not exist.
        """
        import lance

        place, options = f"{self.address}/tables/{name}.lance", self._lance_options()
        return lance.dataset(place, version, storage_options=options, session=self._session)

    @cached_property
    def _session(self) -> Any:
        """Return the caches of index and file metadata that all opened tables share."""
        import lance

        return lance.Session()

    def _lance_options(self) -> dict[str, str] | None:
        return None

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""
        try:
            with self.files.open_input_stream(f"{self.root}/{path}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.url}: cannot read {path}: {one_line(error)}") from None

    def open_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access, or raise FileNotFoundError if it does not exist."""
        return self.files.open_input_file(f"{self.root}/{path}")

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """Return a file's content and its hash (the tag), or None if the file does not exist."""
        content = self.read(path)
        return None if content is None else (content, hashlib.sha256(content).hexdigest())

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        return bool(self.files.get_file_info(f"{self.root}/{path}").type != pafs.FileType.NotFound)

    def list(self, path: str) -> Sequence[str]:
        """Return the names in a folder, or [] if the folder does not exist."""
        selector = pafs.FileSelector(f"{self.root}/{path}", allow_not_found=True)
        return [info.base_name for info in self.files.get_file_info(selector)]

    def sizes(self, path: str) -> dict[str, int]:
        """Return the size in bytes of a file, or of each file below a folder, by path.

        Return {} if the path does not exist.
        """
        root = f"{self.root}/"
        return {info.path.removeprefix(root): info.size or 0 for info in self._infos(path)}

    def modified(self, path: str) -> float:
        """Return the Unix time when a file, or the newest file of a folder, was last written.

        Return 0 if the path does not exist.
        """
        own = self.files.get_file_info(f"{self.root}/{path}")
        return max(info.mtime_ns or 0 for info in (own, *self._infos(path))) / 1e9

    def _infos(self, path: str) -> Sequence[pafs.FileInfo]:
        place = f"{self.root}/{path}"
        info = self.files.get_file_info(place)
        if info.type == pafs.FileType.File:
            return [info]
        selector = pafs.FileSelector(place, recursive=True, allow_not_found=True)
        return [i for i in self.files.get_file_info(selector) if i.type == pafs.FileType.File]

    def hashes(self, paths: Iterable[str]) -> Hashes:
        """Return the size and SHA-256 of each existing file, by path."""
        found: dict[str, dict[str, Any]] = {}
        for path in paths:
            with suppress(FileNotFoundError), self._place(path).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                found[path] = {"bytes": file.tell(), "sha256": digest}
        return found

    def remove_file(self, path: str) -> None:
        """Delete a file if it exists."""
        with suppress(FileNotFoundError):
            self.files.delete_file(f"{self.root}/{path}")

    def remove_folder(self, path: str) -> None:
        """Delete a file, or a folder with all its files, if it exists."""
        with suppress(FileNotFoundError):
            try:
                self.files.delete_dir(f"{self.root}/{path}")
            except NotADirectoryError:
                self.remove_file(path)

    def write(self, path: str, content: bytes) -> None:
        """Write a file atomically: a reader sees the old content or the new content."""
        with self._written(path, content) as new:
            new.replace(self._place(path))

    def create(self, path: str, content: bytes) -> bool:
        """Write a file if it does not exist, and return whether it was written."""
        with self._written(path, content) as new:
            try:
                os.link(new, self._place(path))
            except FileExistsError:
                return False
        return True

    def replace(self, path: str, content: bytes, tag: str) -> bool:
        """Replace the file if it still has this tag, and return whether it was replaced."""
        target = self._place(path)
        with self._written(path, content) as new, locked(target.parent):
            found = self.read_tagged(path)
            if found is None or found[1] != tag:
                return False
            new.replace(target)
        return True

    def try_lock(self, path: str, holder: Mapping[str, Any]) -> Lock | None:
        """Return a lock, or None if another process holds it.

        The lock ends with its `with` block or its process. `holder` is written to `path` as JSON,
        so that other processes can name the holder.
        """
        with clear_errors(f"{self.address}/{path}"):
            place = self._place(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(place, os.O_CREAT | os.O_RDWR, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return None
            with suppress(OSError):  # on a full disk the lock holds without the holder's name
                os.truncate(handle, 0)
                os.write(handle, json.dumps(dict(holder)).encode())
        return _closing(handle)

    def leftovers(self) -> Sequence[str]:
        """Return the paths of unfinished files and folders. Their writers may still be running."""
        root = Path(self.root)
        return sorted(p.relative_to(root).as_posix() for p in root.glob(f"**/{UNFINISHED}*"))

    # --- published folders ---

    def new_folder(self, path: str) -> Path:
        """Return a new empty local folder for files that will be published at `path`."""
        with clear_errors(f"{self.address}/{path}"):
            parent = self._place(path).parent
            parent.mkdir(parents=True, exist_ok=True)
            folder = new_name(parent)
            folder.mkdir()
            return folder

    def publish(self, built: Path, path: str, listed: bytes) -> None:
        """Write `listed` into the complete local folder `built`, and move the folder to `path`.

        If a folder exists at `path`, delete `built` instead.
        """
        (built / FILES).write_bytes(listed)
        target = self._place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            built.rename(target)
        except OSError:
            if not target.is_dir():
                raise
            shutil.rmtree(built)

    def has_folder(self, path: str) -> bool:
        """Return whether a published folder is complete."""
        return self.exists(f"{path}/{FILES}")

    def local_folder(self, path: str) -> Path | None:
        """Return a published folder on this machine, or None if it does not exist.

        Raise StoreError if a file differs from the list.
        """
        if not self.has_folder(path):
            return None
        self.verify_folder(path)
        return self._place(path)

    def verify_folder(self, path: str, full: bool = True) -> None:
        """Raise StoreError if a file of a published folder is missing or has another size.

        If `full` is True, read each file, and raise StoreError also if its hash differs.
        """
        listed = self.read(f"{path}/{FILES}")
        if listed is None:
            raise StoreError(f"{self.url}: {path}/{FILES} is gone; run `rag run` again")
        sizes = self.sizes(path)
        for name, entry in read_list(listed, f"{self.address}/{path}").items():
            file = f"{path}/{name}"
            whole = sizes.get(file) == entry["bytes"]
            if not whole or (full and self._sha256(file) != entry["sha256"]):
                differs = "its hash" if whole else "its size"
                raise StoreError(
                    f"{self.address}/{file}: incomplete or altered: {differs} differs from the list"
                )

    def _sha256(self, path: str) -> str:
        with (
            clear_errors(f"{self.address}/{path}", "read"),
            self.files.open_input_stream(f"{self.root}/{path}") as stream,
        ):
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def stale_copies(self, paths: Iterable[str], before: float) -> Sequence[Path]:
        """Return [], because a local store needs no copies."""
        return []

    def _place(self, path: str) -> Path:
        return Path(self.root) / path

    @contextmanager
    def _written(self, path: str, content: bytes) -> Iterator[Path]:
        with clear_errors(f"{self.address}/{path}"):
            folder = self._place(path).parent
            folder.mkdir(parents=True, exist_ok=True)
            with written(folder, content) as new:
                yield new


@contextmanager
def _closing(handle: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.truncate(handle, 0)
        os.close(handle)


# --- whole files: a reader sees the old content or the new ---


def new_name(folder: Path) -> Path:
    """Return an unused path in a folder, for a new file or folder.

    `tempfile` would make the file unreadable for other users, such as a server's.
    """
    return folder / f"{UNFINISHED}{secrets.token_hex(8)}"


@contextmanager
def written(folder: Path, content: bytes) -> Iterator[Path]:
    """Write a file, and yield its temporary path. The block moves the file to its final path.

    Afterwards, delete the file if the block did not move it.
    """
    path = new_name(folder)
    try:
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder inside the block. Other threads and processes wait for the lock."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace_text(path: Path, text: str) -> None:
    """Replace the text of a user's file. If that fails, raise OSError and leave the file unchanged.

    If the path is a link, replace its target. The file keeps its permissions. Write the text into
    a special file, such as `/dev/stdout`.
    """
    target = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    with written(target.parent, text.encode()) as new:
        if target.exists():
            new.chmod(target.stat().st_mode & 0o7777)
        new.replace(target)
