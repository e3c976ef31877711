"""Define the commands about documents found outside the corpus: list, remove, clear."""

from typing import TYPE_CHECKING, Annotated

import typer

from rag_pipeline.cli.console import console, counted, new_table, print_json, visible
from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, argument

if TYPE_CHECKING:
    from rag_pipeline.assistant.expansion import ExpandedDocuments

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Show and delete documents found outside.\n\nExample: rag expansion list contracts",
)


@app.command("list", short_help="Show the documents found outside.")
def show(
    corpus: CorpusArgument = None, named: CorpusOption = None, as_json: JsonFlag = False
) -> None:
    """Show the documents that were found outside the corpus, and their origins, newest first.

    \b
    Example:
      rag expansion list contracts
    """
    from dataclasses import asdict

    kept = _documents(corpus, named).live()
    if as_json:
        print_json([asdict(one) for one in kept])
        return
    if not kept:
        console.print("nothing was found outside")
        return
    table = new_table("document", "source", "place", "found", "for the question", "characters")
    for one in kept:
        time = one.time.removesuffix("+00:00").replace("T", " ")
        texts = visible(one.document_id), one.source, visible(one.place), time, visible(one.query)
        table.add_row(*texts, f"{one.characters:,}")
    console.print(table)


@app.command(short_help="Delete one document.")
def remove(
    document_id: Annotated[str, argument("ID", "The id in `rag expansion list`.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
) -> None:
    """Delete one document that was found outside the corpus. Later answers do not use it.

    \b
    Example:
      rag expansion remove web/3f9a2c contracts
    """
    removed = _documents(corpus, named).remove(document_id)
    console.print(f"deleted {visible(removed.document_id)}, from {visible(removed.place)}")


@app.command(short_help="Delete everything found outside.")
def clear(corpus: CorpusArgument = None, named: CorpusOption = None) -> None:
    """Delete all documents that were found outside the corpus, and their indexes.

    \b
    Example:
      rag expansion clear contracts
    """
    count = _documents(corpus, named).clear()
    console.print(f"deleted {counted(count, 'document')}")


def _documents(corpus: str | None, named: str | None) -> "ExpandedDocuments":
    from rag_pipeline.assistant.expansion import ExpandedDocuments
    from rag_pipeline.config import load_config

    config = load_config(find_corpus_file(corpus, named))
    return ExpandedDocuments(config, config.assistant.expansion)
