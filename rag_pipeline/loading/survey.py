"""Detect the languages of a folder of documents from a sample."""

from itertools import islice
from pathlib import Path

from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.loading.folder import find_files
from rag_pipeline.loading.languages import languages_of
from rag_pipeline.loading.sources import SourceFile, scan_file

_SAMPLE = 40
"""Maximum number of files that are read, evenly spread over the sorted folder."""
_MIN_CHARACTERS = 200
_MAX_BYTES = 5_000_000
_PARSE_SECONDS = 20


def survey_languages(documents: Path) -> dict[str, float]:
    """Return the share of each language among the documents, by ISO 639-1 code; {} if unknown.

    Read up to 40 files. Skip unreadable documents and those under 200 characters.
    """
    base = documents if documents.is_dir() else documents.parent
    settings = DocumentsSource(path=str(base), max_bytes=_MAX_BYTES, parse_seconds=_PARSE_SECONDS)
    names = [documents.name]
    if documents.is_dir():
        found, _ = find_files(base, settings.include, settings.exclude)
        names = sorted(file.relative for file in found if not file.reason)
    step = max(1, len(names) // _SAMPLE)
    texts = []
    for name in names[::step][:_SAMPLE]:
        for source in islice(scan_file(base, name, settings), 3):
            try:
                text = source.load().text if isinstance(source, SourceFile) else ""
            except RagPipelineError:
                continue
            if len(text.strip()) >= _MIN_CHARACTERS:
                texts.append(text)
    return languages_of(texts)
