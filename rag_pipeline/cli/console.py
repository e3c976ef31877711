"""Where the command line writes: results to standard output, progress and errors beside it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

# Where nobody looks at a terminal, a table may be as wide as its content.
_WIDTH = None if sys.stdout.isatty() else 200
console = Console(highlight=False, soft_wrap=True, width=_WIDTH)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def set_quiet(quiet: bool) -> None:
    """Silence everything but results and errors."""
    console.quiet = quiet


def progress_bar() -> Progress:
    """Return a live progress display, shown on terminals only."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TaskProgressColumn(show_speed=True),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=console.quiet or not console.is_terminal,
    )


@contextmanager
def counting(description: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar; yields a function that takes how many are done and how many there are."""
    with progress_bar() as progress:
        task = progress.add_task(description, total=None, unit=unit)

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield update
