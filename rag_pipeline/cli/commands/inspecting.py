"""What became of the documents: show, quarantine."""

from typing import Annotated

import typer

from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag

app = typer.Typer()


@app.command(short_help="Print a document's text as it was read.")
def show(
    document: Annotated[str, typer.Argument(metavar="DOCUMENT", help="The document's id.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    page: Annotated[
        int | None, typer.Option("--page", metavar="N", help="This page of a PDF only, from 1.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print a document's text as the last run read it, and what is doubtful about it.

    \b
    Examples:
      rag show papers/bert.pdf
      rag show papers/bert.pdf contracts --page 3
    """
    from rag_pipeline.cli.documents import show_document

    show_document(find_corpus_file(corpus, named), document, page, as_json)


@app.command(short_help="List the documents that can't be used, and why.")
def quarantine(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Forget the refusals, so that the next run tries again.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List all documents in quarantine with the stage that refused them and the reason.

    A document is tried again by itself when its file or the settings that refused it change.

    \b
    Examples:
      rag quarantine
      rag quarantine contracts --retry
    """
    from rag_pipeline.cli.documents import show_quarantine

    show_quarantine(find_corpus_file(corpus, named), retry, as_json)
