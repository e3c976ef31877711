"""Find the corpus file that a command names by path or name, or else the only corpus file."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rag_pipeline.cli.console import did_you_mean
from rag_pipeline.errors import ConfigError
from rag_pipeline.imports import start_pyarrow

if TYPE_CHECKING:
    from rag_pipeline.corpus import Corpus


def find_corpus_file(wanted: str | None = None, option: str | None = None, hint: str = "") -> Path:
    """Return the corpus file with the given path or name, or else the only corpus file.

    The name comes from the argument, the option `--corpus` or RAG_CORPUS. `hint` is appended to the
    error for an unknown name. Raise ConfigError with the found corpora if no corpus or several
    corpora match, or if argument and option differ.
    """
    if wanted and option and wanted != option:
        raise ConfigError(f"two corpora are named: {wanted} and --corpus {option}; name one")
    wanted = wanted or option or os.environ.get("RAG_CORPUS")
    if wanted and (Path(wanted).suffix in (".yaml", ".yml") or os.sep in wanted):
        return Path(wanted)
    from rag_pipeline.config.parsing import corpus_files

    found = list(corpus_files())
    if wanted:
        named = [(file, name) for file, name in found if name == wanted]
        if not named and Path(wanted).exists():
            return Path(wanted)
        below = [] if named else [file for file, name in _one_folder_below() if name == wanted]
        if below:
            raise ConfigError(
                f"no corpus is called {wanted!r} here. Name a file below this folder: "
                f"{', '.join(map(str, below))}"
            )
        if not named and not found:
            raise ConfigError(
                f"no corpus is called {wanted!r} here: {Path.cwd()} has no corpus file. Name a "
                f"corpus file (.yaml), or change to its folder{hint}"
            )
        if not named:
            near = did_you_mean(wanted, [name for _, name in found])
            there = f"{near} There" if near else "; there"
            raise ConfigError(
                f"no corpus is called {wanted!r} here{there} are: "
                f"{_listed(found)}. Name one of them, or a corpus file (.yaml){hint}"
            )
        found = named
    if not found:
        below = [file for file, _ in _one_folder_below()]
        remedy = f"one of these: {', '.join(map(str, below))}" if below else "a FILE"
        raise ConfigError(
            f"no corpus file in {Path.cwd()}; name {remedy}, or write one with: "
            f"{program()} init NAME --documents DIR"
        )
    if len(found) > 1 and wanted:
        raise ConfigError(f"several corpus files are called {wanted!r}; name one: {_listed(found)}")
    if len(found) > 1:
        raise ConfigError(f"which corpus? Name one at the end of the command: {_listed(found)}")
    return found[0][0]


def _one_folder_below() -> list[tuple[Path, str]]:
    from rag_pipeline.config.parsing import corpus_files

    return [pair for folder in sorted(Path().glob("*/")) for pair in corpus_files(folder)]


def open_corpus(wanted: str | None = None, option: str | None = None) -> "Corpus":
    """Return the corpus of the file that `find_corpus_file` finds."""
    start_pyarrow()
    from rag_pipeline.corpus import Corpus

    return Corpus.load(find_corpus_file(wanted, option))


def rag(*arguments: str, file: Path | None = None, corpus: str = "") -> str:
    """Return a command line of `rag` that works in the working directory.

    The command line ends with the shortest argument that names the corpus file, if one is needed.
    """
    named = [] if file is None else _shortest(file, corpus)
    return shlex.join((program(), *arguments, *named))


def program() -> str:
    """Return `rag` if the shell finds this program by that name, or else its path."""
    called, found = Path(sys.argv[0]), shutil.which("rag")
    is_elsewhere = called.name == "rag" and called.exists() and called.parent != Path()
    if is_elsewhere and not (found and Path(found).samefile(called)):
        return str(called)
    return "rag"


def shown_path(path: Path) -> str:
    """Return a path relative to the working directory, unless the path itself is shorter."""
    with suppress(ValueError):  # on another drive
        return min(os.path.relpath(path.resolve()), str(path), key=len)
    return str(path)


def _shortest(file: Path, corpus: str) -> list[str]:
    from rag_pipeline.config.parsing import corpus_files

    found = [(candidate.resolve(), name) for candidate, name in corpus_files()]
    here = file.resolve()
    if [candidate for candidate, _ in found] == [here] and "RAG_CORPUS" not in os.environ:
        return []
    if [candidate for candidate, name in found if name == corpus] == [here]:
        return [corpus]
    shown = shown_path(file)
    is_path = Path(shown).suffix in (".yaml", ".yml") or os.sep in shown
    return [shown if is_path else f".{os.sep}{shown}"]


def _listed(found: Sequence[tuple[Path, str]]) -> str:
    names = [name for _, name in found]
    return ", ".join(str(f) if names.count(n) > 1 else f"{n} ({f})" for f, n in found)
