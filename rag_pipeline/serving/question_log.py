"""What people ask a server -> a file of questions, for whoever wants to measure with them.

Off unless a file is named. Questions may hold what is private: only their owner can read the file.
"""

import json
import logging
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rag_pipeline.errors import ConfigError

_log = logging.getLogger(__name__)
_MOST_BYTES = 64 * 1024 * 1024
"""Size in bytes from which on nothing is added to a file."""


class QuestionLog:
    """A file to which questions are added, a JSON line each; without a file nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        """Raise ConfigError where the file can't be written."""
        self._path = path
        self._lock = threading.Lock()
        if path is not None:
            try:
                self._append(path, "")
            except OSError as error:
                raise ConfigError(
                    f"--log-questions {path}: cannot write it: {error.strerror}"
                ) from None

    def keep(self, query: str, datasets: Sequence[str] | None = None) -> None:
        """Add a question; one that can't be written is told in the log and not in the answer."""
        if self._path is None:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps({"time": now, "query": query, "datasets": list(datasets or ())})
        try:
            with self._lock:
                if self._path.exists() and self._path.stat().st_size > _MOST_BYTES:
                    return
                self._append(self._path, f"{line}\n")
        except OSError as error:
            _log.warning("%s: a question was not kept: %s", self._path, error.strerror)

    @staticmethod
    def _append(path: Path, text: str) -> None:
        # One write of a file opened for appending, so that lines of several servers don't mix.
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
