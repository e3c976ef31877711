"""Which corpus file a command means when it is named by path, by name, or not at all."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from rag_pipeline.config import COMPONENT_TYPE
from rag_pipeline.errors import ConfigError

if TYPE_CHECKING:
    from rag_pipeline.corpus import Corpus

_PLACES = ("*.yaml", "*.yml", "*/defs/*/defs.yaml", "src/*/defs/*/defs.yaml")


def find_corpus_file(wanted: str | None = None) -> Path:
    """Return the corpus file of this path or name; the only one there is if none is given.

    Looks in the working directory and, as Dagster projects keep them, in `*/defs/*/defs.yaml`
    below it. Raises ConfigError naming what was found when that is none or more than one.
    """
    if wanted and (Path(wanted).suffix in (".yaml", ".yml") or os.sep in wanted):
        return Path(wanted)
    found = list(_corpora())
    if wanted:
        named = [(file, name) for file, name in found if name == wanted]
        if not named and Path(wanted).exists():
            return Path(wanted)
        if not named:
            raise ConfigError(
                f"no corpus is called {wanted!r} here; there are: {_listed(found) or 'none'}. "
                f"Name one of them, or a corpus file (.yaml)"
            )
        found = named
    if not found:
        raise ConfigError(
            f"no corpus file in {Path.cwd()}; name one with --corpus FILE, or write one with: "
            f"rag init NAME --documents DIR"
        )
    if len(found) > 1:
        raise ConfigError(f"which corpus? Choose one with --corpus: {_listed(found)}")
    return found[0][0]


def open_corpus(wanted: str | None = None) -> "Corpus":
    """Return the corpus that `find_corpus_file` finds."""
    from rag_pipeline.corpus import Corpus

    return Corpus.load(find_corpus_file(wanted))


def option_for(file: Path, corpus: str) -> str:
    """Return the shortest `-c …` that finds this file from here, "" if none is needed."""
    found = [(candidate.resolve(), name) for candidate, name in _corpora()]
    here = file.resolve()
    if [candidate for candidate, _ in found] == [here]:
        return ""
    if [candidate for candidate, name in found if name == corpus] == [here]:
        return f" -c {shlex.quote(corpus)}"
    return f" -c {shlex.quote(shown_path(file))}"


def shown_path(path: Path) -> str:
    """Return a path relative to the working directory if it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _listed(found: list[tuple[Path, str]]) -> str:
    repeated = {name for _, name in found if [n for _, n in found].count(name) > 1}
    return ", ".join(str(file) if name in repeated else f"{name} ({file})" for file, name in found)


def _corpora() -> Iterator[tuple[Path, str]]:
    """Yield the corpus files here with their names; those with mistakes in them, too."""
    for place in _PLACES:
        for file in sorted(Path().glob(place)):
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
