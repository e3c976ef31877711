"""Read the wordings and word lists of the rules from `words.yaml`."""

from pathlib import Path
from typing import Any

from rag_pipeline.imports import load_yaml

_FILE: dict[str, Any] = load_yaml(Path(__file__).with_suffix(".yaml").read_bytes())
VALUES: dict[str, dict[str, list[str]]] = _FILE["values"]
WORDINGS: dict[str, dict[str, list[str]]] = _FILE["questions"]


def word_list(name: str) -> list[str]:
    """Return the words of a list."""
    return str(_FILE["lists"][name]).split()


def either(name: str) -> str:
    """Return a pattern of the words of a list."""
    return "|".join(word_list(name))
