"""`rag expansion`: show and forget what the assistant has found outside the corpus."""

from typing import TYPE_CHECKING, Annotated

import typer

from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag

if TYPE_CHECKING:
    from rag_pipeline.assistant.expansion import ExpandedDocuments

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Show and forget what was found outside.",
)


@app.command("list", short_help="Show what was found outside.")
def show(
    corpus: CorpusArgument = None, named: CorpusOption = None, as_json: JsonFlag = False
) -> None:
    """Show the documents that were found outside, newest first, with their origins.

    \b
    Example:
      rag expansion list contracts
    """
    from dataclasses import asdict

    from rich import box
    from rich.table import Table

    from rag_pipeline.cli.console import console, print_json, visible

    kept = _documents(corpus, named).live()
    if as_json:
        print_json([asdict(one) for one in kept])
        return
    if not kept:
        console.print("nothing was found outside")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("document", "source", "place", "found", "for the question", "characters"):
        table.add_column(name, overflow="fold")
    for one in kept:
        table.add_row(
            visible(one.document_id),
            one.source,
            visible(one.place),
            one.time.removesuffix("+00:00").replace("T", " "),
            visible(one.query),
            f"{one.characters:,}",
        )
    console.print(table)


@app.command(short_help="Forget one document.")
def remove(
    document_id: Annotated[str, typer.Argument(metavar="ID", help="As `rag expansion list` says.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
) -> None:
    """Forget one document that was found outside; answers are made without it from now on.

    \b
    Example:
      rag expansion remove web/3f9a2c contracts
    """
    from rag_pipeline.cli.console import console, visible

    removed = _documents(corpus, named).remove(document_id)
    console.print(f"forgot {visible(removed.document_id)}, from {visible(removed.place)}")


@app.command(short_help="Forget everything that was found outside.")
def clear(corpus: CorpusArgument = None, named: CorpusOption = None) -> None:
    """Forget everything that was found outside, with the indexes made of it.

    \b
    Example:
      rag expansion clear contracts
    """
    from rag_pipeline.cli.console import console

    count = _documents(corpus, named).clear()
    console.print(f"forgot {count} document{'' if count == 1 else 's'}")


def _documents(corpus: str | None, named: str | None) -> "ExpandedDocuments":
    from rag_pipeline.assistant.expansion import ExpandedDocuments
    from rag_pipeline.config import load_config

    config = load_config(find_corpus_file(corpus, named))
    return ExpandedDocuments(config, config.assistant.expansion)
