"""Files of a local folder that are written whole: a reader sees the old content or the new."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".tmp-"
"""What the name of a file or folder begins with that is not yet in its place."""


def new_name(folder: Path) -> Path:
    """Return the path of a file or folder to build in a folder; there is nothing yet.

    Not by `tempfile`, which closes what it makes to all other users: what a nightly run has built,
    a server under an account of its own reads, as far as the umask lets it.
    """
    return folder / f"{UNFINISHED}{secrets.token_hex(8)}"


@contextmanager
def written(folder: Path, content: bytes) -> Iterator[Path]:
    """Write a new file in a folder for the block to move to its place; it is removed otherwise."""
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
    """Let no other process or thread into its block for this folder meanwhile."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace_text(path: Path, text: str) -> None:
    """Write a person's file whole, or raise OSError and leave it as it was.

    A link stays, and what it leads to is replaced; the file keeps its permissions. What is no
    regular file, such as `/dev/stdout`, is written to.
    """
    target = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    with written(target.parent, text.encode()) as new:
        if target.exists():
            new.chmod(target.stat().st_mode & 0o7777)
        new.replace(target)
