"""Commands about documents: show, quarantine."""

from typing import Annotated

import typer

from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, argument, flag, option

app = typer.Typer()


@app.command(short_help="Print a document's text as it was read.")
def show(
    document: Annotated[str, argument("DOCUMENT", "The document's id.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    page: Annotated[int | None, option("N", "Only this page of a PDF, from 1.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print a document's text as the last run read it, with warnings about its quality.

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
        bool, flag("--retry", "Empty the quarantine, so that the next run tries again.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List all documents in quarantine with the stage that refused them and the reason.

    A run tries a document again when its file or the settings that refused it change.

    \b
    Examples:
      rag quarantine
      rag quarantine contracts --retry
    """
    from rag_pipeline.cli.documents import show_quarantine

    show_quarantine(find_corpus_file(corpus, named), retry, as_json)
