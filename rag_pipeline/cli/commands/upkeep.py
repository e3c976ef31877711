"""Keep a store small and whole: gc, doctor."""

from functools import partial
from typing import Annotated

import typer

from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag

app = typer.Typer()


@app.command(short_help="Free what the store no longer needs.")
def gc(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be freed, and free nothing.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Free what the store no longer needs, by the corpus file's `retention`.

    What is served, current or pinned by a kept release stays. Runs do the same by themselves,
    except for giving the call cache's free space back to the disk.

    \b
    Examples:
      rag gc --dry-run
      rag gc contracts
    """
    from rag_pipeline.cli.gc import free

    free(find_corpus_file(corpus, named), dry_run, as_json)


@app.command(short_help="Check installation, corpus and store.")
def doctor(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what is wrong in the store.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Read every byte of the store, held against its hash.")
    ] = False,
) -> None:
    """Check the installation, the corpus file and its store; say what to mend.

    With --repair, remove from the store what is torn and can be made again, and serve the newest
    whole release; what is lost is said. With --full, find what has rotted on disk, too: tables,
    indexes, results and the call cache. Stop running builds before.

    \b
    Examples:
      rag doctor contracts
      rag doctor contracts --repair
      rag doctor contracts --full --repair
    """
    from rag_pipeline.cli.doctor import examine

    if not examine(partial(find_corpus_file, corpus, named), repair, full):
        raise typer.Exit(1)
