"""The arguments that several commands share."""

from typing import Annotated

import typer

from rag_pipeline.config.finding import corpus_files


def names(incomplete: str) -> list[str]:
    """Return the corpora here whose names begin so, for the completion of shells."""
    return [name for _, name in corpus_files() if name.startswith(incomplete)]


CorpusArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="CORPUS",
        help="A corpus's name or file; may be left out where there is only one.",
        autocompletion=names,
    ),
]
CorpusOption = Annotated[
    str | None,
    typer.Option(
        "--corpus", "-c", metavar="CORPUS", help="The same as CORPUS.", autocompletion=names
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
