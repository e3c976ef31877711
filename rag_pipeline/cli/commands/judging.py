"""Commands that judge: leaderboard, costs, compare, why, explain, gate, report."""

from pathlib import Path
from typing import Annotated

import typer

from rag_pipeline.cli.console import print_json
from rag_pipeline.cli.find import find_corpus_file, open_corpus
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag

app = typer.Typer()


@app.command(short_help="Show the configurations, best first.")
def leaderboard(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
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
    board = open_corpus(corpus, named).board(sort)
    from rag_pipeline.cli.tables import show_leaderboard

    if sort is not None:
        board = board.sorted_on(sort)
    if as_json:
        print_json(board.record())
    else:
        show_leaderboard(board)


@app.command(short_help="Show what calls to models cost.")
def costs(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    by: Annotated[
        str, typer.Option(metavar="GROUP", help="asset, model, configuration or day.")
    ] = "asset",
    as_json: JsonFlag = False,
) -> None:
    """Show the tokens and the price of every call so far, and what is left of the budget.

    \b
    Examples:
      rag costs
      rag costs --by configuration contracts
      rag costs --by day --json
    """
    from rag_pipeline.cli.costs import show_costs

    show_costs(find_corpus_file(corpus, named), by, as_json)


@app.command(short_help="Tell whether A is better than B.")
def compare(
    one: Annotated[
        str, typer.Argument(metavar="A", help="Configuration, or release as release-000003.")
    ],
    other: Annotated[str, typer.Argument(metavar="B", help="What to compare it with.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    why: Annotated[
        bool, typer.Option("--why", help="Name for each query won or lost what did it.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare two configurations, query by query: is A better than B, or worse?

    Differences are A - B over the queries that both measured, with the 95 % interval and the p
    value of a randomisation test, adjusted (Holm) for the metrics shown.

    \b
    Examples:
      rag compare default plain
      rag compare default release-000003 --json
      rag compare release-000004 release-000003 --why
    """
    from rag_pipeline.cli.judge import show_comparison

    file = find_corpus_file(corpus, named)
    show_comparison(file, one, other, as_json)
    if why and not as_json:
        from rag_pipeline.cli.why import show_causes

        show_causes(file, one, other)


@app.command(short_help="Name the change that made a query better or worse.")
def why(
    query_id: Annotated[str, typer.Argument(metavar="QUERY_ID", help="The query's id.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    of: Annotated[
        str | None, typer.Option(metavar="NAME", help="Configuration or release [what is served].")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What to hold it against [the release before it]."),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many chunks count.")] = 5,
    as_json: JsonFlag = False,
) -> None:
    """Name the change that made a query better or worse between two releases or configurations.

    One thing at a time is taken from the one into the other, the document's old chunks or a weight,
    and the query is asked again of what the store holds. No model is called.

    \b
    Examples:
      rag why q017
      rag why q017 --of release-000004 --against release-000003
      rag why q017 contracts --of default --against plain
    """
    from rag_pipeline.cli.why import show_cause

    show_cause(find_corpus_file(corpus, named), query_id, of, against, k, as_json)


@app.command(short_help="Show why a query fails or not.")
def explain(
    query_id: Annotated[str, typer.Argument(metavar="QUERY_ID", help="The query's id.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
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

    show_explanation(find_corpus_file(corpus, named), query_id, configuration, k, as_json)


@app.command(short_help="May the best be released? Exit 0 or 3.")
def gate(
    corpus: CorpusArgument = None, named: CorpusOption = None, as_json: JsonFlag = False
) -> None:
    """Tell whether what was evaluated may be released: exit code 0 if so, 3 if not.

    The candidate is refused if it is significantly worse than what is served in a metric of
    `gate.metrics`, or if a blocking check fails. Changes nothing; for a CI, after `rag run`.

    \b
    Examples:
      rag gate contracts
      rag gate contracts --json
    """
    from rag_pipeline.cli.judge import show_gate

    if not show_gate(find_corpus_file(corpus, named), as_json):
        raise typer.Exit(3)


@app.command(short_help="Write the evaluation as one HTML page.")
def report(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File [CORPUS.html].")
    ] = None,
) -> None:
    """Write the evaluation as one HTML page that needs neither network nor scripts.

    \b
    Examples:
      rag report
      rag report contracts --output reports/contracts.html
    """
    from rag_pipeline.cli.judge import write_report
    from rag_pipeline.config import load_config

    file = find_corpus_file(corpus, named)
    target = output.expanduser() if output else Path(f"{load_config(file).corpus}.html")
    write_report(file, target)
