"""Declare arguments and options of commands, including the shared ones."""

from typing import Annotated, Any

import typer

MADE_QUESTIONS = 150
"""Maximum number of questions that `rag questions` makes by default."""


def argument(metavar: str, help: str, **more: Any) -> Any:
    """Declare a positional argument."""
    return typer.Argument(metavar=metavar, help=help, **more)


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Declare an option with a value. If `names` is empty, the parameter gives the name."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(name: str, help: str, *short: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(name, *short, help=help)


def names(incomplete: str) -> list[str]:
    """Return the names of corpora that begin with `incomplete`, for shell completion."""
    from rag_pipeline.config.parsing import corpus_files

    return [name for _, name in corpus_files() if name.startswith(incomplete)]


_CORPUS_HELP = "A corpus's name or file; optional if there is only one."
CorpusArgument = Annotated[str | None, argument("CORPUS", _CORPUS_HELP, autocompletion=names)]
CorpusOption = Annotated[
    str | None, option("CORPUS", "The same as CORPUS.", "--corpus", "-c", autocompletion=names)
]
JsonFlag = Annotated[bool, flag("--json", "Print JSON instead of a table.")]
QuietFlag = Annotated[bool, flag("--quiet", "Print errors only.", "-q")]
