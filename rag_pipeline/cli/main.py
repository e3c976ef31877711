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
from rag_pipeline.cli.expansion import app as expansion
from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, QuietFlag
from rag_pipeline.errors import (
    BudgetError,
    CheckFailedError,
    ConfigError,
    InputError,
    RagPipelineError,
)

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
      3    a check refused the data, or the budget more calls: what is served stays as it was
      130  stopped by Ctrl-C: the same command goes on from there
    """,
)

app.add_typer(expansion, name="expansion")


def main() -> None:
    """Run the command line; a user's mistake ends in one message, not in a traceback."""
    make_legible()
    set_quiet(False)
    try:
        app(prog_name="rag")
    except (ConfigError, InputError) as error:
        _fail("error", str(error), 2)
    except (CheckFailedError, BudgetError) as error:
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


@app.command(short_help="Answer a question from the release, with sources.")
def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know.")],
    corpus: CorpusOption = None,
    document: Annotated[
        str | None, typer.Option("--document", "-d", metavar="ID", help="Ask one document only.")
    ] = None,
    instructions: Annotated[
        str, typer.Option(metavar="TEXT", help="Guidance for the chat model, if one is set.")
    ] = "",
    trace: Annotated[bool, typer.Option("--trace", help="Show what each stage did.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Answer a question from the release, with sources.

    Without a chat model (`assistant.chat` in the corpus file) the answer is made of verbatim
    sentences; each source is checked against its document.

    \b
    Examples:
      rag ask "How long does confidentiality last under the Acme NDA?"
      rag ask "Compare the notice periods" --trace
      rag ask "When is a doctor's note needed?" -d policy/leave.md --json
    """
    from rag_pipeline.assistant import open_assistant
    from rag_pipeline.cli.answers import as_record, show_answer

    assistant = open_assistant([_corpus(corpus)])
    made = assistant.ask(question, document_id=document, instructions=instructions)
    if as_json:
        print_json(as_record(made))
    else:
        show_answer(made, trace)


@app.command(short_help="Improve the prompts of the assistant's model.")
def optimize(
    corpus: CorpusOption = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="EntityF1 or AnswerPresence.")
    ] = "EntityF1",
    trials: Annotated[int, typer.Option(metavar="N", help="How many sets of examples.")] = 3,
    seed: Annotated[int, typer.Option(metavar="N", help="Chooses queries and examples.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Give the prompts of the assistant's model examples that worked, and keep what scores best.

    Needs `assistant.chat` in the corpus file. A third of the queries gives examples, a third
    chooses among the trials, and on the last third the result must not be worse than what is in
    use. Each result is a numbered file in the store.

    \b
    Examples:
      rag optimize
      rag optimize -c contracts --metric AnswerPresence --trials 5
    """
    from rag_pipeline.cli.optimize import optimize as optimize_corpus

    optimize_corpus(_corpus(corpus), metric, trials, seed, as_json)


@app.command(short_help="Serve the release to assistants, by MCP and HTTP.")
def serve(
    corpora: Annotated[
        list[str] | None,
        typer.Argument(metavar="CORPUS...", help="Corpora to serve; one or more."),
    ] = None,
    transport: Annotated[
        str, typer.Option(metavar="http|stdio", help="How clients connect.")
    ] = "http",
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="Port to listen on.")] = 9003,
    token_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable with the bearer token.")
    ] = "RAG_TOKEN",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Backend that requests may choose by header."),
    ] = None,
) -> None:
    """Serve releases to assistants: MCP tools, a page to ask on, and a Dify knowledge base.

    A newer release is picked up without a restart. Beyond loopback a bearer token is required,
    read from the environment variable RAG_TOKEN.

    \b
    Examples:
      rag serve contracts
      rag serve contracts policies --port 9003
      rag serve contracts --transport stdio
      RAG_TOKEN=... rag serve contracts --host 0.0.0.0
    """
    from rag_pipeline.serving import ServerSettings, serve_http, serve_stdio

    if transport not in ("http", "stdio"):
        raise InputError(f"--transport {transport!r} is not one of: http, stdio")
    opened = [_corpus(name) for name in corpora] if corpora else [_corpus(None)]
    settings = ServerSettings.from_environment(host, port, token_env, allow_host or [])
    if transport == "stdio":
        serve_stdio(opened, settings)
    else:
        serve_http(opened, settings)


@app.command(short_help="Show the configurations, best first.")
def leaderboard(
    corpus: CorpusOption = None,
    sort: Annotated[
        str | None, typer.Option(metavar="METRIC", help="Metric to sort by, e.g. nDCG@10.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show every evaluated configuration, best first.

    Each is compared with the baseline and with what is served: better, worse, or cannot tell.

    \b
    Example:
      rag leaderboard --sort nDCG@10
    """
    board = _corpus(corpus).leaderboard(sort)
    from rag_pipeline.cli.tables import show_leaderboard, sorted_board

    board = sorted_board(board, sort)
    if as_json:
        print_json(board)
    else:
        show_leaderboard(board)


@app.command(short_help="Show what calls to models cost.")
def costs(
    corpus: CorpusOption = None,
    by: Annotated[
        str, typer.Option(metavar="GROUP", help="asset, model, configuration or day.")
    ] = "asset",
    as_json: JsonFlag = False,
) -> None:
    """Show the tokens and the price of every call so far, and what is left of the budget.

    \b
    Examples:
      rag costs
      rag costs --by configuration -c contracts
      rag costs --by day --json
    """
    from rag_pipeline.cli.costs import show_costs

    show_costs(find_corpus_file(corpus), by, as_json)


@app.command(short_help="Tell whether A is better than B.")
def compare(
    one: Annotated[
        str, typer.Argument(metavar="A", help="Configuration, or release as release-000003.")
    ],
    other: Annotated[str, typer.Argument(metavar="B", help="What to compare it with.")],
    corpus: CorpusOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare two configurations, query by query: is A better than B, or worse?

    Differences are A - B over the queries that both measured, with the 95 % interval of a paired
    bootstrap and the p value of a randomisation test, adjusted (Holm) for the metrics shown.

    \b
    Examples:
      rag compare default plain
      rag compare default release-000003 --json
    """
    from rag_pipeline.cli.judge import show_comparison

    show_comparison(find_corpus_file(corpus), one, other, as_json)


@app.command(short_help="Show why a query fails or not.")
def explain(
    query_id: Annotated[str, typer.Argument(metavar="QUERY_ID", help="The query's id.")],
    corpus: CorpusOption = None,
    configuration: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose passages to show [the served, else the best]."),
    ] = None,
    k: Annotated[
        int, typer.Option("-k", metavar="N", help="How many chunks count: 1 to 10, or 20.")
    ] = 5,
    as_json: JsonFlag = False,
) -> None:
    """Show what became of one query: the gold text, what was retrieved instead, and why.

    \b
    Examples:
      rag explain q017
      rag explain q017 --configuration plain -k 10
    """
    from rag_pipeline.cli.judge import show_explanation

    show_explanation(find_corpus_file(corpus), query_id, configuration, k, as_json)


@app.command(short_help="May the best be released? Exit 0 or 3.")
def gate(file: CorpusArgument = None, as_json: JsonFlag = False) -> None:
    """Tell whether what was evaluated may be released: exit code 0 if so, 3 if not.

    The candidate is refused if it is significantly worse than what is served in a metric of
    `gate.metrics`, or if a blocking check fails. Changes nothing; for a CI, after `rag run`.

    \b
    Examples:
      rag gate contracts.yaml
      rag gate contracts.yaml --json
    """
    from rag_pipeline.cli.judge import show_gate

    if not show_gate(find_corpus_file(file), as_json):
        raise typer.Exit(3)


@app.command(short_help="Write the evaluation as one HTML page.")
def report(
    corpus: CorpusOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File [CORPUS.html].")
    ] = None,
) -> None:
    """Write the evaluation as one HTML page that needs neither network nor scripts.

    \b
    Examples:
      rag report
      rag report -c contracts --output reports/contracts.html
    """
    from rag_pipeline.cli.judge import write_report
    from rag_pipeline.config import load_config

    file = find_corpus_file(corpus)
    target = output.expanduser() if output else Path(f"{load_config(file).corpus}.html")
    write_report(file, target)


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


@app.command(short_help="Write a release into one file.")
def export(
    release_id: Annotated[
        str, typer.Argument(metavar="RELEASE", help="Its id, or `current` for what is served.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, e.g. r.zip.")],
    corpus: CorpusOption = None,
) -> None:
    """Write a release into one file that another machine serves.

    \b
    Example:
      rag export current contracts.zip -c contracts
    """
    from rag_pipeline.cli.bundles import export_release

    export_release(find_corpus_file(corpus), release_id, file)


@app.command("import-release", short_help="Serve a release from such a file.")
def import_release(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `rag export` has written.")],
    corpus: CorpusOption = None,
    store: Annotated[
        str, typer.Option(metavar="DIR", help="Folder, or s3:// prefix, to import into.")
    ] = "data/store",
) -> None:
    """Take in a release that was exported elsewhere, and serve it.

    Without a CORPUS, writes the corpus file NAME.yaml from what the release says of itself, or
    takes the one that is there.

    \b
    Example:
      rag import-release contracts.zip
      rag search "notice period" -c contracts
    """
    from rag_pipeline.cli.bundles import import_bundle

    import_bundle(file, Path(find_corpus_file(corpus)) if corpus else None, store)


@app.command(short_help="Free what the store no longer needs.")
def gc(
    corpus: CorpusOption = None,
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
      rag gc -c contracts
    """
    from rag_pipeline.cli.gc import free

    free(find_corpus_file(corpus), dry_run, as_json)


@app.command(short_help="Check installation, corpus and store.")
def doctor(
    corpus: CorpusOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what is wrong in the store.")
    ] = False,
) -> None:
    """Check the installation, the corpus file and its store; say what to mend.

    With --repair, remove from the store what is torn and can be made again, and serve the newest
    whole release; what is lost is said. Stop running builds before.

    \b
    Examples:
      rag doctor -c contracts.yaml
      rag doctor -c contracts.yaml --repair
    """
    from rag_pipeline.cli.doctor import examine

    if not examine(corpus, repair):
        raise typer.Exit(1)


def _corpus(name: str | None) -> "Corpus":
    from rag_pipeline.corpus import Corpus

    return Corpus.load(find_corpus_file(name))
