"""The files of one corpus's place in a store: a folder's way and a bucket's way are kinds of it.

Both read and list through Arrow's file systems. They differ in how a file is written, how one of
several writers wins, and how a whole folder is published.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from rag_pipeline.errors import StoreError
from rag_pipeline.store.errors import one_line
from rag_pipeline.store.hashes import Hashes

if TYPE_CHECKING:
    import lancedb


Lock = AbstractContextManager[object]
"""Holds a lock until its block ends."""


class Files(ABC):
    """Files by their path below one root; a folder's file list is `folders.FILES`."""

    shared: bool
    """Whether other machines write here too."""
    calls_folder: Path
    """This machine's folder of the calls that all corpora of the store share."""

    def __init__(self, files: pafs.FileSystem, root: str, url: str) -> None:
        """Take the root below which files stand, and the store's address for messages."""
        self.files = files
        self.root = root
        self.url = url

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None if there is none."""
        try:
            with self.files.open_input_stream(f"{self.root}/{path}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.url}: cannot read {path}: {one_line(error)}") from None

    def open_file(self, path: str) -> pa.NativeFile:
        """Open a file to read parts of it; raise FileNotFoundError if there is none."""
        return self.files.open_input_file(f"{self.root}/{path}")

    def remove_file(self, path: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError):
            self.files.delete_file(f"{self.root}/{path}")

    def remove_folder(self, path: str) -> None:
        """Delete a folder with all that is in it, or a file, if it is there."""
        with suppress(FileNotFoundError):
            try:
                self.files.delete_dir(f"{self.root}/{path}")
            except NotADirectoryError:
                self.remove_file(path)

    def list(self, path: str) -> Sequence[str]:
        """Return the names in a folder; none if there is no folder."""
        selector = pafs.FileSelector(f"{self.root}/{path}", allow_not_found=True)
        return [info.base_name for info in self.files.get_file_info(selector)]

    def sizes(self, path: str) -> dict[str, int]:
        """Return the bytes of a file, or of all files in a folder, by their paths."""
        root = f"{self.root}/"
        return {info.path.removeprefix(root): info.size or 0 for info in self._infos(path)}

    def modified(self, path: str) -> float:
        """Return when a file, or a folder or the newest in it, was written (Unix seconds)."""
        own = self.files.get_file_info(f"{self.root}/{path}")
        return max(info.mtime_ns or 0 for info in (own, *self._infos(path))) / 1e9

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder."""
        info = self.files.get_file_info(f"{self.root}/{path}")
        return bool(info.type != pafs.FileType.NotFound)

    @abstractmethod
    def connect(self) -> "lancedb.DBConnection":
        """Return the database of the tables."""

    @abstractmethod
    def hashes(self, paths: Iterable[str]) -> Hashes:
        """Return what tells each file from any other content; nothing of those that are gone."""

    @abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Write a file so that a reader sees the old content or the new, never a part."""

    @abstractmethod
    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """Return content and a tag that changes with it, None if there is no file."""

    @abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Write a file that is not there; return False, and change nothing, if it is."""

    @abstractmethod
    def replace(self, path: str, content: bytes, tag: str) -> bool:
        """Write over the file that has this tag; return False, and change nothing, otherwise."""

    @abstractmethod
    def try_lock(self, path: str, holder: Mapping[str, Any]) -> Lock | None:
        """Return what holds a lock until its block ends, or its process; None if another has it.

        `holder` is written to `path` as JSON, for those who come second.
        """

    @abstractmethod
    def leftovers(self) -> Sequence[str]:
        """Return the unfinished files and folders that a killed writer has left, or one at work."""

    @abstractmethod
    def new_folder(self, path: str) -> Path:
        """Return a new empty local folder to build in what is published at `path`."""

    @abstractmethod
    def publish(self, built: Path, path: str, listed: bytes) -> None:
        """Move a complete local folder to its place; keep what is there already."""

    @abstractmethod
    def has_folder(self, path: str) -> bool:
        """Return whether a published folder is complete."""

    @abstractmethod
    def local_folder(self, path: str) -> Path | None:
        """Return a published folder on this machine, None if there is none."""

    @abstractmethod
    def check_folder(self, path: str) -> None:
        """Raise StoreError unless all files of a published folder are there, as large as listed."""

    @abstractmethod
    def verify_folder(self, path: str) -> None:
        """Raise StoreError unless all files of a published folder are as listed, to the byte."""

    @abstractmethod
    def stale_copies(self, paths: Iterable[str], before: float) -> Sequence[Path]:
        """Return this machine's copies of other folders than these, last used before a time."""

    def _infos(self, path: str) -> "Sequence[pafs.FileInfo]":
        place = f"{self.root}/{path}"
        info = self.files.get_file_info(place)
        if info.type == pafs.FileType.File:
            return [info]
        selector = pafs.FileSelector(place, recursive=True, allow_not_found=True)
        infos = self.files.get_file_info(selector)
        return [i for i in infos if i.type == pafs.FileType.File]
