"""What several benchmarks share: options, a folder to build in, and printed tables."""

import argparse
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def options(what: str | None, *names: str, **settings: Any) -> argparse.Namespace:
    """Read the command line: arguments by `names`, and an option for each setting.

    A setting is the option's default, or its type where the default is None. False makes a flag, a
    tuple choices (the first is the default), and a list an option with several values.
    """
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in names:
        parser.add_argument(name)
    for name, given in settings.items():
        option = f"--{name.replace('_', '-')}"
        if given is False:
            parser.add_argument(option, action="store_true")
        elif isinstance(given, list):
            choices = given if isinstance(given[0], str) else None
            kind = type(given[0])
            parser.add_argument(option, nargs="*", default=given, type=kind, choices=choices)
        elif isinstance(given, tuple):
            parser.add_argument(option, choices=given, default=given[0])
        elif isinstance(given, type):
            parser.add_argument(option, type=given)
        else:
            parser.add_argument(option, type=type(given), default=given)
    return parser.parse_args()


@contextmanager
def working(
    what: str | None, sets: Collection[str] = (), **settings: Any
) -> Iterator[argparse.Namespace]:
    """Yield the options of a benchmark on data sets.

    `data` is the folder of the sets, `sets` names those to take, and `work` is the folder to build
    in: a temporary one unless it was named.
    """
    here = Path(__file__).parents[2] / "shared" / "data"
    data = Path(os.environ.get("RAG_PIPELINE_DATA", here))
    named = {"sets": list(sets)} if sets else {}
    arguments = options(what, data=data, work=Path, **named, **settings)
    with tempfile.TemporaryDirectory() as temporary:
        arguments.work = arguments.work or Path(temporary)
        arguments.work.mkdir(parents=True, exist_ok=True)
        yield arguments


def windows(measured: Sequence[T], count: int) -> Iterator[tuple[str, Sequence[T]]]:
    """Yield the measurements after the first, from 1, in so many parts with their numbers."""
    width = max(1, (len(measured) - 1) // count)
    for first in range(1, len(measured), width):
        part = measured[first : first + width]
        yield f"{first}-{first + len(part) - 1}", part


def heading(*cells: object) -> None:
    """Print the head of a Markdown table."""
    row(*cells)
    print(f"|{'---|' * len(cells)}")


def row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
