"""The questions that people ask a server -> a file, to measure with them later.

Off unless a file is named. Questions may be private: only the file's owner can read it.
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
"""A file of this size in bytes gets no more questions."""


class QuestionLog:
    """A file with a JSON line per question; without a file nothing is written."""

    def __init__(self, path: Path | None = None) -> None:
        """Raise ConfigError if the file cannot be written."""
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
        """Add a question; a failure is logged and does not fail the request."""
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
        # One write in append mode: lines of several servers do not mix.
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
