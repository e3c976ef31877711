"""Who is at work in a folder: a locked file each, which the operating system lets go at its end.

Unlike a process id, it tells the same in every container that has the folder.
"""

import fcntl
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4


def enlist(folder: Path) -> tuple[str, int]:
    """Return a new name that lives until its file handle is closed, and that handle."""
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid4().hex
    # It appears under its name when it is locked, or another would sweep it away.
    temporary = folder.with_name(f".tmp-{name}")
    handle = os.open(temporary, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_EX)
    temporary.rename(folder / name)
    return name, handle


def lives(folder: Path, name: str) -> bool:
    """Tell whether who has a name is still at work."""
    with suppress(FileNotFoundError), (folder / name).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@cache
def process_name(folder: Path) -> str:
    """Return this process's own name in a folder, which ends with it; sweep those that ended."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if not lives(folder, file.name):
            file.unlink(missing_ok=True)
    return enlist(folder)[0]


os.register_at_fork(after_in_child=process_name.cache_clear)
