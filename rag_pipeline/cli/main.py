"""The commands of `rag`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rag_pipeline.cli.console import (
    command,
    console,
    counting,
    errors,
    make_legible,
    print_json,
    set_quiet,
)
from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.errors import CheckFailedError, ConfigError, InputError, RagPipelineError

if TYPE_CHECKING:
    from rag_pipeline.corpus import Corpus

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="""Turn raw documents into a searchable, evaluated and released RAG index.

    \b
    Start with:
      rag init my_docs --documents path/to/folder
      rag run
      rag search "a question"
    """,
    epilog="""CORPUS is a corpus file, or the name of a corpus whose file lies in the working
    directory or in */defs/*/defs.yaml below it. Where there is only one it may be left out; the
    variable RAG_CORPUS names one for all commands.

    \b
    Exit codes:
      0    done
      1    something failed: a store, a model, a command before the first run
      2    a mistake in the arguments or in a file; nothing was spent
      3    a check refused the data: what is served stays as it was
      130  stopped by Ctrl-C: the same command goes on from there
    """,
)

_CORPUS_HELP = "Corpus file, or a corpus's name; may be left out where there is only one."
CorpusArgument = Annotated[
    str | None, typer.Argument(metavar="FILE", envvar="RAG_CORPUS", help=_CORPUS_HELP)
]
CorpusOption = Annotated[
    str | None,
    typer.Option("--corpus", "-c", metavar="CORPUS", envvar="RAG_CORPUS", help=_CORPUS_HELP),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


def main() -> None:
    """Run the command line; a user's mistake ends in one message, not in a traceback."""
    make_legible()
    set_quiet(False)
    try:
        app(prog_name="rag")
    except (ConfigError, InputError) as error:
        _fail("error", str(error), 2)
    except CheckFailedError as error:
        _fail("refused", str(error), 3)
    except (RagPipelineError, OSError) as error:
        _fail("error", str(error), 1)
    except SystemExit as stop:
        if stop.code == 130:
            _fail("stopped", "what was done is kept; the same command goes on from there", 130)
        raise


def _fail(word: str, message: str, code: int) -> None:
    errors.print(f"[red]{word}:[/red] {escape(message)}")
    sys.exit(code)


@app.command(short_help="Write a commented corpus file.")
def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The corpus's name: letters, digits, '_', '-'.")
    ],
    documents: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder (or one file) with the documents.")
    ],
    queries: Annotated[
        Path | None, typer.Option(metavar="FILE", help="queries.jsonl to measure with.")
    ] = None,
    store: Annotated[
        str, typer.Option(metavar="DIR", help="Folder, or s3:// prefix, for what is built.")
    ] = "data/store",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write [NAME.yaml].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented corpus file with two configurations, `default` and `plain`.

    Paths are given as seen from the working directory.

    \b
    Examples:
      rag init contracts --documents contracts/
      rag init contracts --documents contracts/ --queries queries.jsonl --output conf/c.yaml
    """
    from rag_pipeline.cli.find import option_for
    from rag_pipeline.cli.template import write_corpus_file

    target = output or Path(f"{name}.yaml")
    write_corpus_file(name, documents, queries, store, target, force)
    shown = option_for(target.expanduser(), name).removeprefix(" -c")
    console.print(f"wrote {escape(str(target))}", soft_wrap=True)
    console.print(f"Next: {command(f'rag run{shown}')}", soft_wrap=True)


@app.command("import", short_help="Turn a public data set into a corpus.")
def import_(
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="legalbench-rag, chroma-chunking, anthropic-contextual or contractnli.",
        ),
    ],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The data set, as published.")],
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="Folder to write to.")],
    quiet: QuietFlag = False,
) -> None:
    """Turn a public data set into `documents/` and `queries.jsonl` (and `chunks.jsonl`).

    \b
    Example:
      rag import legalbench-rag ~/LegalBench-RAG data/legalbench
    """
    from rag_pipeline.cli.tables import show_import
    from rag_pipeline.importers import import_dataset

    set_quiet(quiet)
    with counting(f"import {format}", "documents") as progress:
        report = import_dataset(format, source.expanduser(), destination.expanduser(), progress)
    show_import(report, destination)


@app.command(short_help="Index, evaluate, release: what is stale.")
def run(
    file: CorpusArgument = None,
    configuration: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this configuration and what it needs."),
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Also write the results here.")
    ] = None,
    quiet: QuietFlag = False,
) -> None:
    """Bring everything up to date: index, evaluate, release. Does only what is stale.

    A run that was stopped goes on where it was; no text is embedded twice.

    \b
    Examples:
      rag run contracts.yaml
      rag run contracts.yaml --configuration plain --json results.json
    """
    from rag_pipeline.cli.run import run_corpus

    set_quiet(quiet)
    run_corpus(find_corpus_file(file), configuration, json_out)


@app.command(short_help="Show what `rag run` would do.")
def plan(file: CorpusArgument = None, as_json: JsonFlag = False) -> None:
    """Show what `rag run` would do, and do nothing.

    \b
    Example:
      rag plan contracts.yaml
    """
    from rag_pipeline.cli.plan import show_plan

    show_plan(find_corpus_file(file), as_json)


@app.command()
def search(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="The question or words to search for.")
    ],
    corpus: CorpusOption = None,
    k: Annotated[int, typer.Option("-k", metavar="N", help="How many chunks, 1 to 1000.")] = 5,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Filter in LanceDB's SQL, e.g. \"document_id LIKE 'policies/%'\" or "
            "\"json_get_string(metadata, 'suffix') = '.pdf'\".",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Search the release.

    \b
    Examples:
      rag search "notice period for termination" -k 3
      rag search "sick leave" --where "document_id LIKE 'policies/%'" --json
    """
    if not 1 <= k <= 1000:
        raise InputError(f"-k {k} is not in the range of 1 to 1000")
    found = _corpus(corpus).search(query, k=k, where=where)
    if as_json:
        from dataclasses import asdict

        print_json([{**asdict(chunk), "metadata": dict(chunk.metadata)} for chunk in found])
        return
    from rag_pipeline.cli.tables import show_chunks

    show_chunks(found)


@app.command(short_help="Show the configurations, best first.")
def leaderboard(
    corpus: CorpusOption = None,
    sort: Annotated[
        str | None, typer.Option(metavar="METRIC", help="Metric to sort by, e.g. nDCG@10.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show every evaluated configuration, best first.

    \b
    Example:
      rag leaderboard --sort nDCG@10
    """
    board = _corpus(corpus).leaderboard()
    from rag_pipeline.cli.tables import show_leaderboard, sorted_board

    board = sorted_board(board, sort)
    if as_json:
        print_json(board)
    else:
        show_leaderboard(board)


@app.command(short_help="List the releases, newest first.")
def releases(corpus: CorpusOption = None, as_json: JsonFlag = False) -> None:
    """List the releases, newest first; `*` marks the one that is served.

    \b
    Example:
      rag releases -c contracts
    """
    from dataclasses import asdict

    from rag_pipeline.cli.tables import show_releases
    from rag_pipeline.errors import NotReleasedError

    opened = _corpus(corpus)
    try:
        serving = opened.release().release_id
    except NotReleasedError:
        serving = ""
    history = opened.releases()
    if as_json:
        print_json([{**asdict(r), "serving": r.release_id == serving} for r in history])
    else:
        show_releases(history, serving)


@app.command(short_help="Serve an earlier release again.")
def rollback(
    release_id: Annotated[
        str | None,
        typer.Argument(metavar="RELEASE", help="What to serve [the one before the current]."),
    ] = None,
    corpus: CorpusOption = None,
) -> None:
    """Serve an earlier release again; what is rolled back is not released again by itself.

    \b
    Examples:
      rag rollback
      rag rollback release-000003 -c contracts
    """
    served = _corpus(corpus).roll_back(release_id)
    console.print(f"serving {served.release_id} ({served.configuration}, of {served.created})")


@app.command(short_help="Check installation, corpus and store.")
def doctor(corpus: CorpusOption = None) -> None:
    """Check the installation, the corpus file and its store; say what to mend.

    \b
    Example:
      rag doctor -c contracts.yaml
    """
    from rag_pipeline.cli.doctor import examine

    if not examine(corpus):
        raise typer.Exit(1)


def _corpus(name: str | None) -> "Corpus":
    from rag_pipeline.corpus import Corpus

    return Corpus.load(find_corpus_file(name))
