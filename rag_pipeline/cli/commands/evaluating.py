"""Define the commands about evaluation: leaderboard, costs, compare, why, explain, gate, report."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rag_pipeline.cli.console import counted, print_json, say, visible
from rag_pipeline.cli.find import find_corpus_file, open_corpus
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, argument, flag, option

app = typer.Typer()

QueryId = Annotated[str, argument("QUERY_ID", "The query's id.")]


@app.command(short_help="Show the configurations, best first.")
def leaderboard(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    sort: Annotated[str | None, option("METRIC", "Metric to sort by, e.g. nDCG@10.")] = None,
    trec: Annotated[Path | None, option("FOLDER", "Also write the runs for trec_eval.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show every evaluated configuration, best first.

    Each configuration is compared with the baseline and with the release. The verdict is better,
    worse, or cannot tell.

    \b
    Examples:
      rag leaderboard --sort nDCG@10
      rag leaderboard --trec runs
    """
    opened = open_corpus(corpus, named)
    board = opened.board(sort)
    if trec is not None:
        from rag_pipeline.evaluation.trec_files import write_trec_files

        write_trec_files(opened.workspace, trec.expanduser())
    from rag_pipeline.cli.tables import show_leaderboard

    if sort is not None:
        board = board.sorted_on(sort)
    if as_json:
        print_json(board.record())
    else:
        show_leaderboard(board)


@app.command(short_help="Show the costs of calls to models.")
def costs(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    by: Annotated[str, option("GROUP", "asset, model, configuration or day.")] = "asset",
    as_json: JsonFlag = False,
) -> None:
    """Show the tokens and the cost of all calls so far, and the rest of the budget.

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
    one: Annotated[str, argument("A", "A configuration, or a release such as release-000003.")],
    other: Annotated[str, argument("B", "The configuration or release to compare it with.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    why: Annotated[bool, flag("--why", "Name the cause of each query won or lost.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare two configurations query by query, and tell whether A is better or worse than B.

    Differences are A - B over the queries that both have, with their 95 % interval. The p value is
    from a randomisation test, adjusted (Holm) for the shown metrics.

    \b
    Examples:
      rag compare default plain
      rag compare default release-000003 --json
      rag compare release-000004 release-000003 --why
    """
    from rag_pipeline.cli.comparing import show_comparison

    file = find_corpus_file(corpus, named)
    show_comparison(file, one, other, as_json)
    if why and not as_json:
        from rag_pipeline.cli.why import show_causes

        show_causes(file, one, other)


@app.command(short_help="Name the change that made a query better or worse.")
def why(
    query_id: QueryId,
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    of: Annotated[str | None, option("NAME", "Configuration or release [the served].")] = None,
    against: Annotated[
        str | None, option("NAME", "Configuration or release to compare with [the previous].")
    ] = None,
    k: Annotated[int, option("N", "How many chunks count.", "-k", "--k", min=1)] = 5,
    as_json: JsonFlag = False,
) -> None:
    """Name the change that made a query better or worse between two releases or configurations.

    The search is repeated with one difference at a time, such as the document's old chunks or a
    weight. No model is called.

    \b
    Examples:
      rag why q017
      rag why q017 --of release-000004 --against release-000003
      rag why q017 contracts --of default --against plain
    """
    from rag_pipeline.cli.why import show_cause

    show_cause(find_corpus_file(corpus, named), query_id, of, against, k, as_json)


@app.command(short_help="Show why a query fails or succeeds.")
def explain(
    query_id: QueryId,
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    configuration: Annotated[
        str | None, option("NAME", "Show its passages [the served configuration, else the best].")
    ] = None,
    k: Annotated[int, option("N", "How many chunks count: 1 to 10, or 20.", "-k", "--k")] = 5,
    as_json: JsonFlag = False,
) -> None:
    """Show one query's gold text and ranking, and why the query fails or succeeds.

    \b
    Examples:
      rag explain q017
      rag explain q017 --configuration plain -k 10
    """
    from rag_pipeline.cli.comparing import show_explanation

    show_explanation(find_corpus_file(corpus, named), query_id, configuration, k, as_json)


@app.command(short_help="May the best be released? Exit 0 or 3.")
def gate(
    corpus: CorpusArgument = None, named: CorpusOption = None, as_json: JsonFlag = False
) -> None:
    """Tell whether the candidate may be released. The exit code is 0 for yes and 3 for no.

    The candidate is refused if it is significantly worse than the release in a metric of
    `gate.metrics`, or if a blocking check fails. The command changes nothing. Use it in CI, after
    `rag run`.

    \b
    Examples:
      rag gate contracts
      rag gate contracts --json
    """
    from dataclasses import asdict

    from rag_pipeline.release.candidate import gate_decision

    decision = gate_decision(open_corpus(corpus, named).workspace)
    if as_json:
        print_json(asdict(decision))
    else:
        word = "[green]allowed[/green]" if decision.allowed else "[red]refused[/red]"
        say(f"{word}: {escape(decision.candidate)}")
        if decision.against:
            against = f"against {escape(decision.against)}"
            say(f"  {against}, on {decision.common} of {counted(decision.queries, 'query')}")
        for reason in decision.reasons:
            say(f"  {visible(reason)}")
    if not decision.allowed:
        raise typer.Exit(3)


@app.command(short_help="Write the evaluation as one HTML page.")
def report(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    output: Annotated[Path | None, option("FILE", "File [CORPUS.html].", "--output", "-o")] = None,
) -> None:
    """Write the evaluation as one HTML page that needs no network and no scripts.

    \b
    Examples:
      rag report
      rag report contracts --output reports/contracts.html
    """
    from rag_pipeline.pipeline.template import check_target, write_file
    from rag_pipeline.report import collect, render

    opened = open_corpus(corpus, named)
    target = output.expanduser() if output else Path(f"{opened.name}.html")
    check_target("--output", target)
    write_file("--output", target, render(collect(opened.workspace)))
    say(f"wrote {escape(str(target))}")
