"""Detect the languages of a folder of documents from a sample."""

from itertools import islice
from pathlib import Path

from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import ConfigError, RagPipelineError
from rag_pipeline.loading.languages import languages_of
from rag_pipeline.loading.sources import SourceFile, folder_of, list_files, scan

_SAMPLE = 40
"""Maximum number of files that are read, evenly spread over the sorted folder."""
_MIN_CHARACTERS = 200
_MAX_BYTES = 5_000_000
_PARSE_SECONDS = 20


def survey_languages(documents: Path) -> dict[str, float]:
    """Return the share (0 to 1) of each language in a folder, by ISO 639-1 code.

    Up to 40 files are read. Unreadable documents, and documents under 200 characters, are skipped.
    The result is {} if no language is found.
    """
    base = folder_of(documents)
    settings = DocumentsSource(path=str(base), max_bytes=_MAX_BYTES, parse_seconds=_PARSE_SECONDS)
    try:
        files = sorted(file for file in list_files(settings, documents) if not file.reason)
    except ConfigError:  # no files
        return {}
    step = max(1, len(files) // _SAMPLE)
    texts = []
    for file in files[::step][:_SAMPLE]:
        for source in islice(scan(settings, base, files=[file]), 3):
            try:
                text = source.load().text if isinstance(source, SourceFile) else ""
            except RagPipelineError:
                continue
            if len(text.strip()) >= _MIN_CHARACTERS:
                texts.append(text)
    return languages_of(texts)
