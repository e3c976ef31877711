"""What was found in each file, kept as git's index does: a file that has not changed is not opened.

A file is the same where size, both times and inode are. One that was changed so shortly before it
was read that a further change could leave all of them as they are ("racily clean") is read again.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rag_pipeline.calls.databases import open_database
from rag_pipeline.loading.records import Located

FORMAT = 2
"""Raised when files are taken apart in another way: what was kept is found anew."""
RACY_NS = 2_000_000_000
"""Age that a file's times must have when it is read: no file system's clock is coarser."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS files (root TEXT, relative TEXT, status TEXT, found TEXT, "
    "PRIMARY KEY (root, relative)) WITHOUT ROWID"
)


@dataclass(slots=True)
class SeenFiles:
    """What was found in the files below one folder, in a SQLite file on this machine.

    It may be lost, or not be writable, at any time: then files are read. `how` tells apart what
    different settings find in the same file.
    """

    path: Path
    root: str
    how: str = ""
    _known: dict[str, tuple[str, str]] | None = None
    _new: dict[str, tuple[str, str]] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)

    def get(self, relative: str, status: os.stat_result) -> list[Located] | None:
        """Return what is in a file that has this status; None where it must be read."""
        if self._known is None:
            self._known = self._read()
        self._used.add(relative)
        was, found = self._known.get(relative, ("", ""))
        if was != self._told(status, found):
            return None
        return [Located(*values) for values in json.loads(found)]

    def put(
        self, relative: str, status: os.stat_result, found: Sequence[Located], read_ns: int
    ) -> None:
        """Keep what is in a file that had this status before it was read, at `read_ns`."""
        if max(status.st_mtime_ns, status.st_ctime_ns) < read_ns - RACY_NS:
            kept = json.dumps(found, ensure_ascii=False)
            self._new[relative] = self._told(status, kept), kept

    def save(self) -> None:
        """Write what is new, and forget the files that were not asked for since it was opened.

        Does nothing where the folder is not there, or can't be written.
        """
        gone = (self._known or {}).keys() - self._used
        if not (self._new or gone) or not self.path.parent.is_dir():
            return
        rows = [(self.root, relative, *kept) for relative, kept in self._new.items()]
        with suppress(sqlite3.Error, OSError), closing(open_database(self.path)) as connection:
            connection.execute(_TABLE)
            with connection:
                connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)
                connection.executemany(
                    "DELETE FROM files WHERE root = ? AND relative = ?",
                    ((self.root, relative) for relative in gone),
                )
        self._known = {**(self._known or {}), **self._new}
        self._new.clear()

    def _read(self) -> dict[str, tuple[str, str]]:
        if not self.path.exists():
            return {}
        try:
            with closing(sqlite3.connect(self.path)) as connection:
                query = "SELECT relative, status, found FROM files WHERE root = ?"
                rows = connection.execute(query, (self.root,))
                return {relative: (was, found) for relative, was, found in rows}
        except sqlite3.Error:
            return {}

    def _told(self, status: os.stat_result, found: str) -> str:
        """Return what tells the file, and what was found in it, from any other."""
        told = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        digest = hashlib.blake2b(found.encode(), digest_size=8).hexdigest()
        return " ".join(map(str, (FORMAT, self.how, *told, digest)))
