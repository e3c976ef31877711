"""Commands about the store: gc, doctor."""

from functools import partial
from typing import Annotated

import typer

from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, flag

app = typer.Typer()


@app.command(short_help="Free what the store no longer needs.")
def gc(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "List what would be deleted; delete nothing.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Delete from the store everything beyond the corpus file's `retention`.

    The served release, current results and everything that a kept release pins stay. Runs do the
    same; `rag gc` also returns the call cache's free space to the disk.

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
    repair: Annotated[bool, flag("--repair", "Repair the store.")] = False,
    full: Annotated[
        bool, flag("--full", "Read every byte of the store and compare it with its hash.")
    ] = False,
) -> None:
    """Check the installation, the corpus file and its store; say what to repair.

    With --repair, torn files that can be made again are removed, the newest whole release is
    served, and every loss is reported. With --full, corrupt bytes are found too, in tables,
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
