"""The commands of `rag`."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rag_pipeline.cli.console import console, errors, set_quiet
from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.errors import CheckFailedError, ConfigError, InputError, RagPipelineError

if TYPE_CHECKING:
    from rag_pipeline.corpus import Corpus

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Turn raw documents into a searchable, evaluated and released RAG index.\n\n"
    "Start with: [bold]rag init my_docs --documents path/to/folder[/bold]",
)

CorpusOption = Annotated[
    str | None,
    typer.Option(
        "--corpus",
        "-c",
        envvar="RAG_CORPUS",
        help="Corpus file, or the name of one found below the working directory.",
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]


def main() -> None:
    """Run the command line; a user's mistake ends in one message, not in a traceback."""
    try:
        app(standalone_mode=True)
    except (ConfigError, InputError) as error:
        errors.print(f"[red]error:[/red] {escape(str(error))}")
        sys.exit(2)
    except CheckFailedError as error:
        errors.print(f"[red]refused:[/red] {escape(str(error))}")
        sys.exit(3)
    except RagPipelineError as error:
        errors.print(f"[red]error:[/red] {escape(str(error))}")
        sys.exit(1)
    except KeyboardInterrupt:
        errors.print("stopped; what was finished is kept, and the same command goes on from there")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The corpus's name: letters, digits, '_' and '-'.")],
    documents: Annotated[Path, typer.Option(help="Folder (or one file) with the documents.")],
    queries: Annotated[Path | None, typer.Option(help="queries.jsonl to measure with.")] = None,
    store: Annotated[
        str, typer.Option(help="Folder or s3:// prefix for what is built.")
    ] = "data/store",
    output: Annotated[Path | None, typer.Option(help="File to write [NAME.yaml].")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented corpus file with two configurations, `default` and `plain`.

    Example: [bold]rag init contracts --documents ~/contracts --queries ~/queries.jsonl[/bold]
    """
    from rag_pipeline.cli.template import write_corpus_file

    target = output or Path(f"{name}.yaml")
    write_corpus_file(name, documents, queries, store, target, force)
    console.print(f"wrote {target}; next: [bold]rag run {target}[/bold]")


@app.command("import")
def import_(
    format: Annotated[
        str,
        typer.Argument(
            help="legalbench-rag, chroma-chunking, anthropic-contextual or contractnli."
        ),
    ],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The data set, as published.")],
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="Folder to write to.")],
    quiet: QuietFlag = False,
) -> None:
    """Turn a public data set into `documents/` and `queries.jsonl` (and `chunks.jsonl`).

    Example: [bold]rag import legalbench-rag ~/LegalBench-RAG data/legalbench[/bold]
    """
    from rag_pipeline.cli.console import counting
    from rag_pipeline.importers import import_dataset

    set_quiet(quiet)
    with counting(f"import {format}", "items") as progress:
        report = import_dataset(format, source, destination, progress)
    console.print(
        f"{destination}: {report.documents} documents, {report.queries} queries"
        + (f", {report.chunks} chunks" if report.chunks else "")
    )
    if report.reanchored:
        console.print(f"  {report.reanchored} spans were found elsewhere than the set says")
    for reason in report.skipped[:20]:
        console.print(f"  skipped: {escape(reason)}")
    if len(report.skipped) > 20:
        console.print(f"  (and {len(report.skipped) - 20} more skipped)")


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The corpus file.")],
    configuration: Annotated[
        str | None, typer.Option(help="Only this configuration and what it needs.")
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Also write results as JSON.")
    ] = None,
    quiet: QuietFlag = False,
) -> None:
    """Bring everything up to date: index, evaluate, release. Does only what is stale.

    Examples: [bold]rag run contracts.yaml[/bold],
    [bold]rag run contracts.yaml --configuration plain --json results.json[/bold]
    """
    from rag_pipeline.cli.run import run_corpus

    set_quiet(quiet)
    run_corpus(file, configuration, json_out)


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The corpus file.")],
    as_json: JsonFlag = False,
) -> None:
    """Show what `rag run` would do, and do nothing.

    Example: [bold]rag plan contracts.yaml[/bold]
    """
    from rag_pipeline.cli.plan import show_plan

    show_plan(file, as_json)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="The question or words to search for.")],
    corpus: CorpusOption = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many chunks.")] = 5,
    where: Annotated[
        str | None,
        typer.Option(
            help="Filter in LanceDB's SQL, e.g. \"document_id LIKE 'policies/%'\" or "
            "\"json_get_string(metadata, 'suffix') = '.pdf'\"."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Search the release.

    Example: [bold]rag search "notice period for termination" -k 3[/bold]
    """
    found = _corpus(corpus).search(query, k=k, where=where)
    if as_json:
        from dataclasses import asdict

        _print_json([{**asdict(chunk), "metadata": dict(chunk.metadata)} for chunk in found])
        return
    from rag_pipeline.cli.tables import show_chunks

    show_chunks(found)


@app.command()
def leaderboard(
    corpus: CorpusOption = None,
    sort: Annotated[str | None, typer.Option(help="Metric to sort by.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show every evaluated configuration, best first.

    Example: [bold]rag leaderboard --sort nDCG@10[/bold]
    """
    board = _corpus(corpus).leaderboard()
    from rag_pipeline.cli.tables import show_leaderboard, sorted_board

    board = sorted_board(board, sort)
    if as_json:
        _print_json(board)
    else:
        show_leaderboard(board)


@app.command()
def releases(corpus: CorpusOption = None, as_json: JsonFlag = False) -> None:
    """List the releases, newest first; `*` marks the one that is served."""
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
        _print_json([{**asdict(r), "serving": r.release_id == serving} for r in history])
    else:
        show_releases(history, serving)


@app.command()
def rollback(
    release_id: Annotated[
        str | None, typer.Argument(help="The release to serve [the one before the current].")
    ] = None,
    corpus: CorpusOption = None,
) -> None:
    """Serve an earlier release again; what is rolled back is not released again by itself."""
    served = _corpus(corpus).roll_back(release_id)
    console.print(f"serving {served.release_id} ({served.configuration}, of {served.created})")


@app.command()
def doctor(corpus: CorpusOption = None) -> None:
    """Check the installation, the corpus file and its store; say what to mend."""
    from rag_pipeline.cli.doctor import examine

    if not examine(corpus):
        raise typer.Exit(1)


def _corpus(name: str | None) -> "Corpus":
    from rag_pipeline.corpus import Corpus

    return Corpus.load(find_corpus_file(name))


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))
