"""List the files of published folders with their SHA-256, and copy folders to this machine.

The list is written last and completes the folder. A copy moves to its path only if it matches the
list, so no reader sees a partial download. A damaged copy is deleted and downloaded again.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

import pyarrow as pa
import pyarrow.fs as pafs

from rag_pipeline.errors import StoreError
from rag_pipeline.store.hashes import Hashes
from rag_pipeline.store.lance import one_line

FILES = "FILES.json"
"""The file that lists a published folder: `{"files": {name: {"sha256": …, "bytes": …}}}`."""

_BLOCK = 1 << 20
_UNUSED_SECONDS = 30 * 24 * 3600


def list_files(folder: Path) -> bytes:
    """Return the content for a folder's `FILES.json`: the SHA-256 and size of each file."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    files = {
        name: {"sha256": sha256_of(folder / name), "bytes": (folder / name).stat().st_size}
        for name in names
        if name != FILES
    }
    return json.dumps({"files": files}, indent=1).encode()


def read_list(content: bytes, place: str) -> Hashes:
    """Return the entries of a `FILES.json` by file name.

    Raise StoreError if the content is torn or names a file outside its folder.
    """
    try:
        listed: Hashes = json.loads(content)["files"]
        for name, entry in listed.items():
            inside = PurePosixPath(name)
            if inside.is_absolute() or ".." in inside.parts or len(entry["sha256"]) != 64:
                raise ValueError(f"{name!r} is not a file of this folder")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{place}/{FILES}: cannot be read ({error}); delete the folder and run `rag run`"
        ) from None
    return listed


def fetch(files: "pafs.FileSystem", source: str, content: bytes, place: str, target: Path) -> Path:
    """Copy the folder `source` to `target`, unless `target` is a complete copy. Return `target`.

    `content` is the content of the folder's `FILES.json`. Several processes may call this function
    at the same time. After copying, delete the copies beside `target` that were not used for 30
    days. If a file is missing or differs from the list, raise a StoreError that names `place`.
    """
    listed = read_list(content, place)
    cache = target.parent
    if target.is_dir():
        if _is_whole(target, listed):
            with suppress(OSError):  # marks the copy as in use
                os.utime(target)
            return target
        shutil.rmtree(target, ignore_errors=True)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        fetched = Path(tempfile.mkdtemp(dir=cache, prefix=".tmp-"))
    except OSError as error:
        raise StoreError(f"{cache}: cannot keep a copy of {place}: {error.strerror}") from None
    try:
        for name, entry in listed.items():
            _copy(files, f"{source}/{name}", fetched / name, entry, f"{place}/{name}")
        try:
            fetched.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was first
                raise
    except FileNotFoundError as error:
        raise StoreError(f"{place}: a file is missing ({error}); run `rag run` again") from None
    except OSError as error:
        raise StoreError(f"{place}: cannot be copied to {cache}: {one_line(error)}") from None
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    _drop_unused(cache)
    return target


def _copy(
    files: "pafs.FileSystem", source: str, target: Path, entry: Mapping[str, Any], place: str
) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with files.open_input_stream(source) as stream, target.open("wb") as file:
        digest = copied(stream, file)
    if digest != entry["sha256"]:
        raise StoreError(
            f"{place}: its SHA-256 is {digest}, not {entry['sha256']} as in {FILES}; it is "
            f"incomplete or altered: delete the folder and run `rag run` again"
        )


def copied(source: IO[bytes] | pa.NativeFile, target: IO[bytes], most: int | None = None) -> str:
    """Copy a stream and return its SHA-256 in hex.

    Raise ValueError if the stream has more than `most` bytes. If `most` is None, there is no limit.
    """
    digest = hashlib.sha256()
    written = 0
    while block := source.read(_BLOCK):
        written += len(block)
        if most is not None and written > most:
            raise ValueError(f"more than the expected {most} bytes")
        digest.update(block)
        target.write(block)
    return digest.hexdigest()


def _is_whole(folder: Path, listed: Hashes) -> bool:
    with suppress(OSError):
        return read_list(list_files(folder), str(folder)) == listed
    return False


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's content in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _drop_unused(cache: Path) -> None:
    # The operating system keeps a deleted file while a process maps it.
    oldest = time.time() - _UNUSED_SECONDS
    for copy in cache.iterdir():
        with suppress(OSError):
            if copy.stat().st_mtime < oldest:
                shutil.rmtree(copy, ignore_errors=True)
