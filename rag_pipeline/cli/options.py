"""The arguments that several commands share."""

from typing import Annotated

import typer

CORPUS_HELP = "Corpus file, or a corpus's name; may be left out where there is only one."
CorpusArgument = Annotated[
    str | None, typer.Argument(metavar="FILE", envvar="RAG_CORPUS", help=CORPUS_HELP)
]
CorpusOption = Annotated[
    str | None,
    typer.Option("--corpus", "-c", metavar="CORPUS", envvar="RAG_CORPUS", help=CORPUS_HELP),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
