"""Find corpus files and the names of their corpora."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from rag_pipeline.config.parsing import COMPONENT_TYPE

_PLACES = ("*.yaml", "*.yml", "*/defs/*/defs.yaml", "src/*/defs/*/defs.yaml")


def corpus_files(folder: Path = Path()) -> Iterator[tuple[Path, str]]:
    """Yield each corpus file of a folder, also an invalid one, with the name of its corpus.

    Looks in the folder and in Dagster's `*/defs/*/defs.yaml` below it.
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
