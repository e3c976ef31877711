"""Assemble the commands of `rag` in the order of its help, and turn errors into exit codes."""

import importlib.metadata
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from threading import Timer
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from rag_pipeline.cli.commands import asking, building, evaluating, releases
from rag_pipeline.cli.console import make_legible, say_error, set_quiet, set_verbose
from rag_pipeline.errors import (
    BudgetError,
    CheckFailedError,
    ConfigError,
    InputError,
    RagPipelineError,
    UnexpectedError,
)
from rag_pipeline.imports import COMMANDS, load_group, origin, warn_once
from rag_pipeline.orchestration.secrets import load_secrets


class _Commands(TyperGroup):
    """The commands of `rag`, with those of the entry points in the group `rag_pipeline.commands`.

    Only help and unknown commands load the entry points, because loading is slow.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return [*own, *self._further(own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        further = None if own else self._further(self.commands).get(cmd_name)
        return own if further is None else typer.main.get_command(further)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.Abort:  # Ctrl-C at a prompt
            raise KeyboardInterrupt from None

    def _further(self, own: Collection[str]) -> Mapping[str, typer.Typer]:
        further = load_group(COMMANDS, typer.Typer)
        for name in further.keys() & own:
            warn_once(f"{origin(COMMANDS, name)}: {name!r} is a command of rag; rename it")
        return {name: app for name, app in further.items() if name not in own}


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="""Turn raw documents into a searchable, evaluated and released RAG index.

    \b
    Start with the sample corpus, or with your documents:
      rag demo
      rag init my_docs --documents path/to/folder
      rag questions
      rag run
      rag ask "a question"
    """,
    epilog="""CORPUS is the last argument of every command: a corpus file, or the name of a corpus
    with a file in the working directory or in */defs/*/defs.yaml below it. It is optional if there
    is only one corpus. The variable RAG_CORPUS names one for all commands.

    \b
    Exit codes:
      0    done
      1    an error: a store, a model, a command before the first run
      2    a mistake in the arguments or in a file; nothing was spent
      3    a check refused the data, or the budget the calls; the release stays
      130  stopped by Ctrl-C: the same command continues
    """,
)

for topic in (building, asking, evaluating, releases):
    app.add_typer(topic.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rag_pipeline {importlib.metadata.version('rag_pipeline')}")
        raise typer.Exit


@app.callback()
def _before_each_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print tracebacks, too.")] = False,
) -> None:
    set_verbose(verbose)
    load_secrets()


def main() -> None:
    """Run the command line. Expected errors end it with one message and no traceback."""
    # Lance warns about normal operations. Its errors become errors of this package.
    os.environ.setdefault("LANCEDB_LOG", "error")
    make_legible()
    set_quiet(False)
    set_verbose(False)
    shown = sys.unraisablehook
    sys.unraisablehook = partial(_press_again, shown)
    try:
        app(prog_name="rag")
    except (ConfigError, InputError) as error:
        _fail("error", str(error), 2)
    except (CheckFailedError, BudgetError) as error:
        _fail("refused", str(error), 3)
    except UnexpectedError as error:
        _fail("error", f"{error}; `rag --verbose …` prints the traceback", 1)
    except (RagPipelineError, OSError) as error:
        _fail("error", str(error), 1)
    except ModuleNotFoundError as error:  # an environment of deploy/search.txt
        _fail("error", f"{error.name} is missing; install all requirements of rag_pipeline", 1)
    except SystemExit as stop:
        if stop.code == 130:
            _fail("stopped", "finished work is kept; the same command continues", 130)
        raise
    finally:
        sys.unraisablehook = shown


def _press_again(shown: Callable[[Any], object], lost: Any) -> None:
    """Repeat a Ctrl-C that Python lost, because it came within a callback of a weak reference."""
    if lost.exc_type.__name__ in ("KeyboardInterrupt", "DagsterExecutionInterruptedError"):
        Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        shown(lost)


def _fail(word: str, message: str, code: int) -> None:
    message = re.sub(r"\[Errno -?\d+\] ", "", message)
    say_error(f"[red]{word}:[/red] {escape(message)}")
    sys.exit(code)
