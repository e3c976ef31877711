"""Write local files atomically: a reader sees the old content or the new."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".tmp-"
"""Prefix of the names of unfinished files and folders."""


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
