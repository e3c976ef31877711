"""Print results to standard output and errors to standard error."""

import codecs
import difflib
import io
import json
import os
import re
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from rag_pipeline.errors import counted as counted

_WIDE = 200
_PLAIN = str.maketrans({"–": "-", "—": "-", "…": "...", "✓": "+", "→": ">", "·": "-", "‘": "'"})


def _width() -> int | None:
    # Without a terminal, prose is hardly wrapped.
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDE


console = Console(highlight=False, emoji=False, width=_width())
errors = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
LOGGED_EVERY = 10
"""Seconds between two lines about work in progress, without a terminal."""
_verbose = False


def set_quiet(quiet: bool) -> None:
    """Set whether only errors are printed."""
    console.quiet = quiet


def set_verbose(verbose: bool) -> None:
    """Set whether `say_error` also prints the traceback of the handled exception."""
    global _verbose
    _verbose = verbose


def say_error(markup: str) -> None:
    """Print markup to standard error, after the traceback if the command is verbose."""
    if _verbose:
        errors.print(traceback.format_exc(), markup=False)
    errors.print(markup)


def make_legible() -> None:
    """Make the standard streams replace characters that their encoding lacks by similar ASCII."""
    codecs.register_error("legible", _legible)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="legible")


def _legible(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end].translate(_PLAIN)
    return wrong.encode("ascii", "backslashreplace").decode(), error.end


@contextmanager
def outside_capture() -> Iterator[None]:
    """Print to the terminal even while Dagster captures standard output."""
    try:
        copy = os.dup(sys.stdout.fileno())
    except (OSError, ValueError):  # standard output is not a file
        yield
        return
    with os.fdopen(copy, "w", encoding=sys.stdout.encoding, errors="legible") as terminal:
        before, console.file = console.file, terminal
        try:
            yield
        finally:
            console.file = before


def print_json(value: Any) -> None:
    """Print a value as JSON. Escape non-ASCII characters if the terminal's encoding lacks one."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=1)
    sys.stdout.write(text + "\n")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message with up to 3 known names that `name` may mean, or ""."""
    folded = {one: one.casefold() for one in known}
    words = re.findall(r"\w+", name.casefold())
    near = [one for one, low in folded.items() if words and all(word in low for word in words)]
    best = [] if near else difflib.get_close_matches(name.casefold(), folded.values(), 1)
    near += [one for one, low in folded.items() if low in best]
    return f"; did you mean {' or '.join(map(repr, near[:3]))}?" if near else ""


def command(text: str) -> str:
    """Return a command in bold, as rich markup."""
    return f"[bold]{escape(text)}[/bold]"


def say(markup: str) -> None:
    """Print markup without line breaks, so that users can copy its paths and commands."""
    console.print(markup, soft_wrap=True)


def tell(markup: str) -> None:
    """Print prose, wrapped at words on a terminal. In a pipe, a line stays whole."""
    console.print(markup, soft_wrap=not (console.is_terminal or "COLUMNS" in os.environ))


def show_next(*lines: str | tuple[str, str]) -> None:
    """Print the commands that users usually run next. A tuple adds a command's purpose."""
    for number, given in enumerate(lines):
        line, purpose = given if isinstance(given, tuple) else (given, "")
        told = f"  [dim]# {escape(purpose)}[/dim]" if purpose else ""
        say(f"{'      ' if number else 'Next: '}{command(line)}{told}")


def new_table(*names: str, title: str | None = None, numbers: Collection[str] = ()) -> Table:
    """Return an empty table with these columns. The columns `numbers` are right-aligned."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.min_width = min(len(title or ""), console.width)  # or the title wraps
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name in numbers else "left")
    return table


def megabytes(size: int) -> str:
    """Return a size in bytes as text in MB."""
    return f"{size / 1e6:,.1f} MB"


def cut(text: str, length: int) -> str:
    """Return a text on one line of at most `length` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 1]}…"


def visible(text: str) -> str:
    """Return untrusted text as markup on one line, with escaped control characters.

    Unescaped control characters of a document could change the user's terminal.
    """
    line = " ".join(text.split())
    return escape("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line))


def indented(text: str, indent: str = "   ") -> str:
    """Indent a text and wrap it to the terminal's width. Without a terminal, don't wrap."""
    width = console.width if console.is_terminal or "COLUMNS" in os.environ else sys.maxsize
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


class _Count(ProgressColumn):
    """A column with the number done, the total if known, the unit and the rate per second."""

    def render(self, task: Task) -> Text:
        if not task.completed and task.total is None:
            return Text("")
        total = "" if task.total is None else f"/{task.total:,.0f}"
        speed = task.finished_speed or task.speed or 0.0
        rate = f"  {speed:,.{0 if speed >= 10 else 1}f}/s" if speed else ""
        return Text(f"{task.completed:,.0f}{total} {task.fields['unit']}{rate}")


def progress_bar() -> Progress:
    """Return a live progress display, which is invisible without a terminal."""
    name = Column(no_wrap=True, overflow="ellipsis", min_width=12)
    return Progress(
        SpinnerColumn("line" if console.options.ascii_only else "dots"),
        TextColumn("{task.description}", table_column=name),
        BarColumn(bar_width=18),
        _Count(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[also]}", table_column=Column(no_wrap=True), style="dim"),
        TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
        console=console,
        transient=True,
        disable=console.quiet or not console.is_terminal,
    )


def working(what: str) -> AbstractContextManager[object]:
    """Show a spinner with the name of the work. Without a terminal, print the name."""
    if not (console.quiet or console.is_terminal):
        errors.print(f"  {what}", markup=False)
    return console.status(what)


@contextmanager
def counting(description: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar. Yield a function that takes the number done and the total.

    Without a terminal, a line at the start and every 10 s on standard error replaces the bar.
    """
    told = time.monotonic() - LOGGED_EVERY
    with progress_bar() as progress:
        task = progress.add_task(description, total=None, unit=unit, also="")

        def update(done: int, total: int) -> None:
            nonlocal told
            progress.update(task, completed=done, total=total)
            if progress.disable and not console.quiet and time.monotonic() - told >= LOGGED_EVERY:
                told = time.monotonic()
                errors.print(f"  {description}: {done:,} of {total:,} {unit}", markup=False)

        yield update
