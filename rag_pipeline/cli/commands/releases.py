"""Commands about releases: releases, rollback, export, import-release."""

import os
from pathlib import Path
from typing import Annotated

import typer

from rag_pipeline.cli.console import console, print_json
from rag_pipeline.cli.find import find_corpus_file, open_corpus
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, argument, option

app = typer.Typer()


@app.command(short_help="List the releases, newest first.")
def releases(
    corpus: CorpusArgument = None, named: CorpusOption = None, as_json: JsonFlag = False
) -> None:
    """List the releases, newest first; `*` marks the served one.

    \b
    Example:
      rag releases contracts
    """
    from dataclasses import asdict, replace

    from rag_pipeline.cli.tables import show_releases
    from rag_pipeline.errors import NotReleasedError

    opened = open_corpus(corpus, named)
    try:
        serving = opened.release().release_id
    except NotReleasedError:
        serving = ""
    history = opened.releases()
    if as_json:
        records = [asdict(replace(r, files={})) for r in history]
        print_json([{**r, "serving": r["release_id"] == serving} for r in records])
    else:
        show_releases(history, serving)


@app.command(short_help="Serve an earlier release again.")
def rollback(
    release_id: Annotated[
        str | None, argument("RELEASE", "The release to serve [the previous one].")
    ] = None,
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
) -> None:
    """Serve an earlier release again; runs do not release the rolled-back build again.

    \b
    Examples:
      rag rollback
      rag rollback contracts
      rag rollback release-000003 contracts
    """
    if release_id and corpus is None and named is None and not release_id.startswith("release-"):
        release_id, corpus = None, release_id  # the one argument is a corpus
    served = open_corpus(corpus, named).roll_back(release_id)
    console.print(f"serving {served.release_id} ({served.configuration}, of {served.created})")


@app.command(short_help="Write a release into one file.")
def export(
    release_id: Annotated[str, argument("RELEASE", "Its id, or `current` for the served release.")],
    file: Annotated[Path, argument("FILE", "File to write, e.g. r.zip.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
) -> None:
    """Write a release into one file that another machine serves.

    \b
    Example:
      rag export current contracts.zip contracts
    """
    from rag_pipeline.cli.bundles import export_release

    export_release(find_corpus_file(corpus, named), release_id, file)


@app.command("import-release", short_help="Serve a release from such a file.")
def import_release(
    file: Annotated[Path, argument("FILE", "A file of `rag export`.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    store: Annotated[str, option("DIR", "Folder, or s3:// prefix, to import into.")] = "data/store",
) -> None:
    """Import a release from another machine, and serve it.

    Without a CORPUS, the corpus file is NAME.yaml, with the settings of the release; an existing
    file is used as it is.

    \b
    Example:
      rag import-release contracts.zip
    """
    from rag_pipeline.cli.bundles import import_bundle

    is_named = corpus or named or "RAG_CORPUS" in os.environ
    target = find_corpus_file(corpus, named) if is_named else None
    import_bundle(file, target, store)
