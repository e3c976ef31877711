"""Write people's questions and judgements to files, for later measurements.

The operator must name the files. Only the owner can read a file, because questions may be private.
"""

import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_pipeline.errors import ConfigError

_log = logging.getLogger(__name__)
_MOST_BYTES = 64 * 1024 * 1024
"""A file of this size in bytes gets no more lines."""


class KeptLines:
    """A file with a JSON line per record. Servers and threads may share it."""

    def __init__(self, path: Path, option: str, durable: bool = False) -> None:
        """Raise ConfigError, with the name of `option`, if the file cannot be written.

        If `durable` is True, a record is on disk before `add` returns.
        """
        self._path = path
        self._durable = durable
        self._lock = threading.Lock()
        try:
            self._append("")
        except OSError as error:
            raise ConfigError(f"{option} {path}: cannot write it: {error.strerror}") from None

    def add(self, record: Mapping[str, Any]) -> bool:
        """Add a record with the time, or return False if the file is full. May raise OSError."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            if self._path.exists() and self._path.stat().st_size > _MOST_BYTES:
                return False
            self._append(f"{json.dumps({'time': now, **record})}\n")
        return True

    def _append(self, text: str) -> None:
        # One write in append mode, because lines of several servers must not mix.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, text.encode())
            if self._durable:
                os.fsync(handle)
        finally:
            os.close(handle)


class QuestionLog:
    """A file with a JSON line per question. If `path` is None, nothing is written."""

    def __init__(self, path: Path | None = None) -> None:
        """Raise ConfigError if the file cannot be written."""
        self._lines = None if path is None else KeptLines(path, "--log-questions")

    def keep(self, query: str, datasets: Sequence[str] | None = None) -> None:
        """Add a question. If that fails, log the failure and raise nothing."""
        if self._lines is None:
            return
        try:
            self._lines.add({"query": query, "datasets": list(datasets or ())})
        except OSError as error:
            _log.warning("%s: cannot write a question: %s", error.filename, error.strerror)
