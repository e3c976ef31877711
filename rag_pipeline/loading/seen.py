"""Record the documents in each file, so that an unchanged file is not opened again.

As in Git's index, a file is unchanged if its size, modification time, change time and inode are the
same. A file that changed just before it was read is read again, because a further change may leave
these values equal ("racily clean").
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rag_pipeline.loading.records import Located

FORMAT = 3
"""The version of the record. With a new version, every file is read again."""
RACY_NS = 2_000_000_000
"""Minimum age of a file's times when the file is read, in ns. File systems have finer clocks."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS files (root TEXT, relative TEXT, status TEXT, found TEXT, "
    "PRIMARY KEY (root, relative)) WITHOUT ROWID"
)


@dataclass(slots=True)
class SeenFiles:
    """A record of the documents in the files below a folder, in a SQLite file of this machine.

    If the record is lost or not writable, files are read again. `how` identifies the settings that
    affect the documents of a file.
    """

    path: Path
    root: str
    how: str = ""
    _known: dict[str, tuple[str, str]] | None = None
    _new: dict[str, tuple[str, str]] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)

    def get(self, relative: str, status: os.stat_result) -> list[Located] | None:
        """Return the recorded documents of a file, or None if the file is new or has changed."""
        if self._known is None:
            self._known = self._read()
        self._used.add(relative)
        was, found = self._known.get(relative, ("", ""))
        if was != self._identity(status, found):
            return None
        return [Located(*values) for values in json.loads(found)]

    def put(
        self, relative: str, status: os.stat_result, found: Sequence[Located], read_ns: int
    ) -> None:
        """Record the documents of a file that had this status before it was read at `read_ns`.

        Do nothing if the file changed less than `RACY_NS` before `read_ns`.
        """
        if max(status.st_mtime_ns, status.st_ctime_ns) < read_ns - RACY_NS:
            kept = json.dumps(found, ensure_ascii=False)
            self._new[relative] = self._identity(status, kept), kept

    def save(self) -> None:
        """Write new entries, and drop the entries of files that were not looked up.

        Do nothing if the record's folder is missing or not writable.
        """
        gone = (self._known or {}).keys() - self._used
        if not (self._new or gone) or not self.path.parent.is_dir():
            return
        from rag_pipeline.calls.database import connect_sqlite

        rows = [(self.root, relative, *kept) for relative, kept in self._new.items()]
        with suppress(sqlite3.Error, OSError), closing(connect_sqlite(self.path)) as connection:
            connection.execute(_TABLE)
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)
                delete = "DELETE FROM files WHERE root = ? AND relative = ?"
                connection.executemany(delete, ((self.root, relative) for relative in gone))
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

    def _identity(self, status: os.stat_result, found: str) -> str:
        """Return a string that changes if the file, its documents or the settings change."""
        state = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        digest = hashlib.blake2b(found.encode(), digest_size=8).hexdigest()
        return " ".join(map(str, (FORMAT, self.how, *state, digest)))
