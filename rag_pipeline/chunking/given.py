"""Spans of chunks that another program cut, read from a `chunks.jsonl`."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from rag_pipeline.config import CorpusFile
from rag_pipeline.config.chunkings import ChunkingSettings, Models
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.errors import ConfigError, InputError


class GivenChunking(ChunkingSettings):
    """Spans that another program cut, read from a `chunks.jsonl`, by default beside the queries."""

    any_document = False
    method: Literal["given"]
    path: str | None = None

    def spans(self, document: Document, models: Models) -> Sequence[Span]:
        """Return the document's spans, untrimmed."""
        return self._read(models.config).get(document.document_id, ())

    def covers(self, config: CorpusFile, document_id: str) -> bool:
        """Return whether the file has spans of a document."""
        return document_id in self._read(config)

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the hash of the file."""
        return [hashlib.sha256(self.file(config).read_bytes()).hexdigest()]

    def check(self, config: CorpusFile) -> None:
        """Raise ConfigError or InputError if the file is missing or can't be read."""
        self._read(config)

    def _read(self, config: CorpusFile) -> Mapping[str, Sequence[Span]]:
        path = self.file(config)
        stat = path.stat()
        return _read_once(path, stat.st_mtime_ns, stat.st_size)

    def file(self, config: CorpusFile) -> Path:
        """Return the file of the spans; raise ConfigError if it is missing."""
        if self.path:
            path = config.path(self.path)
        elif config.queries_path:
            path = config.queries_path.parent / "chunks.jsonl"
        else:
            raise ConfigError("path: needed, as there is no `queries` file to look beside")
        if not path.is_file():
            raise ConfigError(f"no such file: {path} (a `given` chunking reads its spans from it)")
        return path


@lru_cache(maxsize=2)
def _read_once(path: Path, changed: int, size: int) -> Mapping[str, Sequence[Span]]:
    return read_given_chunks(path)


def read_given_chunks(path: Path) -> dict[str, list[Span]]:
    """Read a line `{"document_id", "start", "end"}` for each span, offsets in code points.

    Ignores other keys. Raises InputError with file, line, field and value. `chunk` checks whether a
    span fits its document, so that one wrong span costs one document.
    """
    spans: dict[str, list[Span]] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    document_id, span = _parse(line, f"{path}:{number}")
                    spans.setdefault(document_id, []).append(span)
    except OSError as error:
        raise InputError(f"{path}: given chunks can't be read: {error.strerror}") from error
    return spans


def _parse(line: bytes, place: str) -> tuple[str, Span]:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not a line of JSON: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f"{place}: expected an object, got {_shown(row)}")
    document_id = _field(row, "document_id", str, place)
    return document_id, (_field(row, "start", int, place), _field(row, "end", int, place))


def _field(row: dict[str, Any], name: str, kind: type, place: str) -> Any:
    if name not in row:
        raise InputError(f"{place}: {name} is missing; there are: {', '.join(row) or 'no fields'}")
    value = row[name]
    # A bool is an int to Python, but not an offset.
    if not isinstance(value, kind) or isinstance(value, bool) or value == "":
        wanted = "an integer" if kind is int else "a non-empty string"
        raise InputError(f"{place}: {name} must be {wanted}, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
