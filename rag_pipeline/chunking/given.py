"""Read chunks from a `chunks.jsonl` that another program wrote."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from rag_pipeline.config import CorpusFile
from rag_pipeline.config.chunkings import ChunkingSettings, Models
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.errors import ConfigError
from rag_pipeline.loading.parsing import SourceRecord, parse, read_lines


class GivenChunking(ChunkingSettings):
    """Chunking by the spans in `path`, by default `chunks.jsonl` beside the queries."""

    any_document = False
    method: Literal["given"]
    path: str | None = None

    def spans(self, document: Document, models: Models) -> Sequence[Span]:
        """Return the document's spans in the file, unchanged."""
        return self._read(models.config).get(document.document_id, ())

    def covers(self, config: CorpusFile, document_id: str) -> bool:
        """Return whether the file has spans of a document."""
        return document_id in self._read(config)

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return a list with the SHA-256 of the file."""
        return [hashlib.sha256(self.file(config).read_bytes()).hexdigest()]

    def check(self, config: CorpusFile) -> None:
        """Raise ConfigError if the file is missing, and InputError if it can't be read."""
        self._read(config)

    def _read(self, config: CorpusFile) -> Mapping[str, Sequence[Span]]:
        path = self.file(config)
        stat = path.stat()
        return _spans_in(path, stat.st_mtime_ns, stat.st_size)

    def file(self, config: CorpusFile) -> Path:
        """Return the path of the file, or raise ConfigError if the file is missing."""
        if self.path:
            path = config.path(self.path)
        elif config.queries_path:
            path = config.queries_path.parent / "chunks.jsonl"
        else:
            raise ConfigError("path: required, because the corpus has no `queries` file")
        if not path.is_file():
            raise ConfigError(f"path: no such file with the spans of a `given` chunking: {path}")
        return path


class _Line(SourceRecord):
    document_id: str = Field(min_length=1)
    start: int
    end: int


@lru_cache(maxsize=2)
def _spans_in(path: Path, changed: int, size: int) -> Mapping[str, Sequence[Span]]:
    return read_given_chunks(path)


def read_given_chunks(path: Path) -> dict[str, list[Span]]:
    """Return the spans in a file by document_id.

    Each line is `{"document_id", "start", "end"}`, with offsets in code points. Other keys are
    ignored. Raise InputError with file, line, field and value. `chunk` compares the spans with the
    text, so a wrong span affects only its document.
    """
    spans: dict[str, list[Span]] = {}
    for number, line in read_lines(path):
        row = parse(_Line, line, f"{path}:{number}")
        spans.setdefault(row.document_id, []).append((row.start, row.end))
    return spans
