"""A store in a local folder.

A file is written beside its place and moved there. A hard link, which refuses a name that exists,
and a lock on the folder, which a process that is killed lets go of, let one of several writers win.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from rag_pipeline.errors import StoreError
from rag_pipeline.imports import import_lancedb
from rag_pipeline.store.errors import one_line
from rag_pipeline.store.files import Files, Lock
from rag_pipeline.store.folders import FILES, read_list
from rag_pipeline.store.hashes import FileHash, Hashes
from rag_pipeline.store.whole import UNFINISHED, locked, new_name, written

if TYPE_CHECKING:
    import lancedb


class FolderFiles(Files):
    """Files of a corpus below a local folder."""

    shared = False

    def __init__(self, url: str, corpus: str) -> None:
        Path(url).mkdir(parents=True, exist_ok=True)
        super().__init__(pafs.LocalFileSystem(), f"{url}/{corpus}", url)
        self.calls_folder = Path(url)

    def connect(self) -> "lancedb.DBConnection":
        """Return the database of the tables."""
        connection: lancedb.DBConnection = import_lancedb().connect(f"{self.root}/tables")
        return connection

    def write(self, path: str, content: bytes) -> None:
        """Write a file so that a reader sees the old content or the new, never a part."""
        target = self._place(path)
        with self._written(path, content) as new:
            new.replace(target)

    def hashes(self, paths: Iterable[str]) -> Hashes:
        """Return the size and SHA-256 of each file."""
        found: dict[str, FileHash] = {}
        for path in paths:
            with suppress(FileNotFoundError), self._place(path).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                found[path] = {"bytes": file.tell(), "sha256": digest}
        return found

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """Return content and tag, None if there is no file."""
        content = self.read(path)
        return None if content is None else (content, hashlib.sha256(content).hexdigest())

    def create(self, path: str, content: bytes) -> bool:
        """Write a file that is not there."""
        with self._written(path, content) as new:
            try:
                os.link(new, self._place(path))
            except FileExistsError:
                return False
        return True

    def replace(self, path: str, content: bytes, tag: str) -> bool:
        """Write over the file that has this tag."""
        target = self._place(path)
        with self._written(path, content) as new, locked(target.parent):
            found = self.read_tagged(path)
            if found is None or found[1] != tag:
                return False
            new.replace(target)
        return True

    def try_lock(self, path: str, holder: Mapping[str, Any]) -> Lock | None:
        """Lock a file, which the operating system lets go of when the process ends."""
        with self._clear_errors(path):
            place = self._place(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(place, os.O_CREAT | os.O_RDWR, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return None
            with suppress(OSError):  # on a full disk it holds without saying for whom
                os.truncate(handle, 0)
                os.write(handle, json.dumps(dict(holder)).encode())
        return _closing(handle)

    def leftovers(self) -> Sequence[str]:
        """Return the unfinished files and folders that a killed writer has left, or one at work."""
        root = Path(self.root)
        return sorted(p.relative_to(root).as_posix() for p in root.glob(f"**/{UNFINISHED}*"))

    def new_folder(self, path: str) -> Path:
        """Return a new empty folder on the store's own disk."""
        with self._clear_errors(path):
            parent = self._place(path).parent
            parent.mkdir(parents=True, exist_ok=True)
            folder = new_name(parent)
            folder.mkdir()
            return folder

    def publish(self, built: Path, path: str, listed: bytes) -> None:
        """Move a complete folder to its place; keep what is there already."""
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
        """Return whether a published folder is there: it is moved there as a whole."""
        return self.exists(path)

    def local_folder(self, path: str) -> Path | None:
        """Return a published folder, None if there is none."""
        return self._place(path) if self.has_folder(path) else None

    def check_folder(self, path: str) -> None:
        """Do nothing: a folder is moved to its place as a whole, and readers look there."""

    def verify_folder(self, path: str) -> None:
        """Raise StoreError unless all files of a published folder have the SHA-256 as listed."""
        listed = self.read(f"{path}/{FILES}")
        if listed is None:
            raise StoreError(f"{self.url}: {path}/{FILES} is gone")
        known = read_list(listed, f"{self.root}/{path}")
        for name, entry in known.items():
            if self.hashes([f"{path}/{name}"]).get(f"{path}/{name}") != entry:
                raise StoreError(f"{self.root}/{path}/{name}: altered: its hash is not as listed")

    def stale_copies(self, paths: Iterable[str], before: float) -> Sequence[Path]:
        """Return none: nothing is copied."""
        return []

    def _place(self, path: str) -> Path:
        return Path(self.root) / path

    @contextmanager
    def _written(self, path: str, content: bytes) -> Iterator[Path]:
        with self._clear_errors(path):
            folder = self._place(path).parent
            folder.mkdir(parents=True, exist_ok=True)
            with written(folder, content) as new:
                yield new

    @contextmanager
    def _clear_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self.url}: cannot write {path}: {one_line(error)}") from None


@contextmanager
def _closing(handle: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.truncate(handle, 0)
        os.close(handle)
