"""Find the corpus files of the working directory and their corpora's names."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from rag_pipeline.config.parsing import COMPONENT_TYPE

_PLACES = ("*.yaml", "*.yml", "*/defs/*/defs.yaml", "src/*/defs/*/defs.yaml")


def corpus_files(folder: Path = Path()) -> Iterator[tuple[Path, str]]:
    """Yield each corpus file with its corpus's name; files with mistakes in them, too.

    Looks in a folder, by default the working directory, and, as Dagster projects keep them, in
    `*/defs/*/defs.yaml` below it.
    """
    for place in _PLACES:
        for file in sorted(folder.glob(place)):
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if COMPONENT_TYPE in text:
                yield file, _name(text) or file.stem


def _name(text: str) -> str:
    try:
        return str(yaml.safe_load(text)["attributes"]["corpus"])
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, KeyError):
        return ""
