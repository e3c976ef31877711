"""Implement `rag compare` and `rag explain`, which show the evaluation query by query."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from rich.markup import escape

from rag_pipeline import release
from rag_pipeline.cli.console import (
    console,
    counted,
    cut,
    did_you_mean,
    indented,
    new_table,
    print_json,
    say,
    show_next,
    visible,
)
from rag_pipeline.cli.find import rag
from rag_pipeline.cli.passages import source_of
from rag_pipeline.cli.tables import coloured_verdict
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, InputError, NotReleasedError, StoreError, count_shown
from rag_pipeline.evaluation.comparison import (
    Reference,
    compare,
    measured_metrics,
    pairs,
    shown_metrics,
)
from rag_pipeline.evaluation.explanation import Diagnosis, diagnose
from rag_pipeline.evaluation.leaderboard import load_leaderboard, origin
from rag_pipeline.evaluation.retrieval_metrics import METRICS, short_name
from rag_pipeline.evaluation.runs import count_synthetic, load_groups, load_queries, why_left_out
from rag_pipeline.evaluation.scores import explanation, read_scores
from rag_pipeline.evaluation.significance import Comparison
from rag_pipeline.loading.queries import UNANSWERABLE
from rag_pipeline.release.gate import kept_scores
from rag_pipeline.search.excerpt import excerpt
from rag_pipeline.workspace import Workspace

_SNIPPET = 200
_PASSAGES = 3
_QUERIES = 5
_WIDE_ENOUGH = 90
"""Minimum width of a terminal, in characters, for intervals with a decimal."""


def show_comparison(file: Path, one: str, other: str, as_json: bool) -> None:
    """Print a comparison of two configurations or releases, query by query."""
    workspace = Workspace(load_config(file))
    first, second = (resolve(workspace, name) for name in (one, other))
    wanted = [m for m in shown_metrics(workspace.config) if m in first.scores or m in second.scores]
    found = compare(first.scores, second.scores, wanted, groups=load_groups(workspace))
    asked = {query_id for own in first.scores.values() for query_id in own}
    synthetic = count_synthetic(workspace, asked)
    if as_json:
        rows = {metric: asdict(comparison) for metric, comparison in found.items()}
        print_json({"a": one, "b": other, "synthetic": synthetic, "metrics": rows})
        return
    if synthetic:
        unanswerable = sum(UNANSWERABLE in q.tags for q in load_queries(workspace))
        console.print(f"[yellow]{origin(synthetic, len(asked), unanswerable)}[/yellow]")
    _show_differences(first, second, found)
    (metric,) = measured_metrics([workspace.config.serve_metric], [first.scores, second.scores])
    if changed := _show_changed(workspace, first, second, metric):
        show_next(rag("explain", changed[-1], file=file, corpus=workspace.config.corpus))


def show_explanation(
    file: Path, query_id: str, configuration: str | None, k: int, as_json: bool
) -> None:
    """Print a query's rank in every configuration, and its passages in one configuration.

    The default of `configuration` is the served configuration, or else the best.
    """
    if f"AnswerPresence@{k}" not in METRICS:
        raise InputError(f"-k {k} is not one of: 1 to 10, 20")
    workspace = Workspace(load_config(file))
    evaluated = load_leaderboard(workspace).names()
    text_of_query(workspace, query_id)
    chosen = configuration or _serving(workspace, evaluated)
    workspace.config.configuration(chosen)
    if chosen not in evaluated:
        raise StoreError(f"{workspace.config.corpus}: {chosen} has not been evaluated yet")
    found = {name: diagnose(workspace, name, [query_id], k)[0] for name in evaluated}
    if as_json:
        records = {name: {**asdict(d), "why": d.why} for name, d in found.items()}
        for name in records.keys() - {chosen}:
            records[name]["retrieved"] = ()
        print_json(records)
        return
    _show_diagnosis(found[chosen])
    table = new_table("configuration", "first answer at", "", numbers={"first answer at"})
    for name, diagnosis in found.items():
        rank = "–" if diagnosis.rank is None else str(diagnosis.rank)
        table.add_row(f"{escape(name)}{'*' * (name == chosen)}", rank, diagnosis.reason)
    console.print(table)


def text_of_query(workspace: Workspace, query_id: str) -> str:
    """Return a query's text. Raise InputError if the query is unknown or left out."""
    known = {q.query_id: q.query for q in load_queries(workspace)}
    if query_id in known:
        return known[query_id]
    if why := why_left_out(workspace, query_id):
        raise InputError(f"query {query_id!r} is left out and not measured: {'; '.join(why)}")
    some = "".join(f"\n  {i}  {cut(text, 60)}" for i, text in islice(known.items(), _QUERIES))
    near = did_you_mean(query_id, known)
    there = f"; there are {counted(len(known), 'query')}" + ", such as" * bool(known)
    raise InputError(f"no query {query_id!r}{near}{there}{some}")


def resolve(workspace: Workspace, name: str) -> Reference:
    """Return the current scores of a configuration, or the stored scores of a release.

    Raise ConfigError if the name is unknown. Raise StoreError if there are no scores.
    """
    config = workspace.config
    if name in config.all_configurations:
        if scores := read_scores(workspace, name):
            return Reference(name, name, scores)
        again = f"run: rag run {config.where}"
        raise StoreError(f"{config.corpus}: {name} has not been evaluated yet; {again}")
    releases = {r.release_id: r.configuration for r in release.history(workspace)}
    if name not in releases:
        known = ", ".join([*config.all_configurations, *sorted(releases)])
        raise ConfigError(f"{config.where}: no configuration or release {name!r}; known: {known}")
    if kept := kept_scores(workspace, name):
        return Reference(name, releases[name], kept)
    raise StoreError(f"{config.corpus}: {name} has no scores on any of the current queries")


def _show_differences(one: Reference, other: Reference, found: dict[str, Comparison]) -> None:
    console.print(f"[bold]A[/bold] {escape(one.label)}\n[bold]B[/bold] {escape(other.label)}")
    if all(difference.n <= 1 for difference in found.values()):
        console.print("One question can't tell A from B; to make more: rag questions")
        return
    table = new_table()
    table.pad_edge = False
    table.add_column("metric", no_wrap=True)
    roomy = console.width >= _WIDE_ENOUGH
    digits = 1 if roomy else 0
    missing = any(difference.missing for difference in found.values())
    measured = sorted({difference.n for difference in found.values()})
    counted = missing or len(measured) > 1
    shows_p = roomy or not counted
    for name in ("A", "B", "A - B", "95 %", *(["p"] * shows_p), *(["n"] * counted)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("A is", no_wrap=True)
    for metric, difference in found.items():
        sides = [
            (a, b)
            for a, b in pairs(one.scores, other.scores, metric)
            if a is not None and b is not None
        ]
        means = [sum(side) / len(sides) for side in zip(*sides, strict=True)]
        low, high, p = difference.low, difference.high, difference.p_holm
        both = difference.n + difference.missing
        table.add_row(
            short_name(metric),
            *([f"{100 * mean:.1f}" for mean in means] or ["–", "–"]),
            "–" if difference.mean is None else f"{100 * difference.mean:+.1f}",
            "–"
            if low is None or high is None
            else f"{100 * low:+.{digits}f} to {100 * high:+.{digits}f}",
            *(["–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"] * shows_p),
            *([f"{difference.n}{f' of {both}' if both > difference.n else ''}"] * counted),
            coloured_verdict(difference.verdict),
        )
    console.print(table)
    # Queries about the same document are one unit in intervals and p values.
    groups = max((c.groups for c in found.values() if c.groups), default=None)
    unit = f" Intervals and verdicts rest on {groups} documents or groups." if groups else ""
    console.print(
        f"In percent. AP@k, Answer Presence@k: the share of queries with an answer in the first k. "
        f"{explanation(found)} "
        f"cannot tell: the difference may be chance. p and verdicts are adjusted (Holm) for these "
        f"{len(found)} metrics, intervals are not: one without 0 may still be chance. "
        f"n{'' if counted else f' = {measured[0]}'}: queries of both.{unit}",
        style="dim",
    )


def _show_changed(workspace: Workspace, one: Reference, other: Reference, metric: str) -> list[str]:
    """Print the queries that A answers better or worse than B, largest differences first.

    Return the first query that A wins, if any, and the first query that A loses, if any.
    """
    firsts = []
    texts = {q.query_id: q.query for q in load_queries(workspace)}
    mine, theirs = (side.scores.get(metric, {}) for side in (one, other))
    both = {q: (mine[q], theirs[q]) for q in mine if q in theirs and q in texts}
    diffs = {q: a - b for q, (a, b) in both.items() if a is not None and b is not None}
    for word, sign in (("A wins", 1), ("A loses", -1)):
        some = sorted((q for q, d in diffs.items() if sign * d > 0), key=lambda q: -sign * diffs[q])
        if not some:
            continue
        firsts.append(some[0])
        console.print(f"{word} {len(some)} quer{'y' if len(some) == 1 else 'ies'} at {metric}:")
        most = count_shown(some, _QUERIES)
        for query_id in some[:most]:
            text = visible(cut(texts[query_id], _SNIPPET))
            say(indented(f"{visible(query_id)}  {text}", "  "))
        if len(some) > most:
            console.print(f"  (and {len(some) - most} more)")
    return firsts


def _serving(workspace: Workspace, evaluated: Sequence[str]) -> str:
    if not evaluated:
        raise StoreError(f"{workspace.config.corpus}: no configuration has been evaluated yet")
    try:
        served = release.current(workspace).configuration
    except NotReleasedError:
        served = ""
    return served if served in evaluated else evaluated[0]


def _show_diagnosis(found: Diagnosis) -> None:
    query = found.query
    say(f"[bold]{visible(query.query_id)}[/bold]  {visible(query.query)}")
    if query.answer:
        say(f"answer: {visible(query.answer)}")
    for gold in found.gold:
        console.print(f"gold: [cyan]{visible(source_of(gold))}[/cyan]")
        text = "(the document is gone)" if gold.text is None else gold.text
        say(indented(visible(excerpt(text, query.query, _SNIPPET).text)))
    console.print(f"\n{escape(found.configuration)}: [bold]{found.reason}[/bold]: {found.why}")
    answering = [p for p in found.retrieved[_PASSAGES:] if p.answers][:1]
    judged = found.judgement.contexts if found.judgement else ()
    for passage in [*found.retrieved[:_PASSAGES], *answering]:
        mark = "[green]answers[/green]" if passage.answers else "[dim]does not answer[/dim]"
        mark = "[dim]not judged[/dim]" if passage.answers is None else mark
        source = visible(source_of(passage))
        say(f"[bold]{passage.rank}.[/bold] [cyan]{source}[/cyan]  {mark}")
        say(indented(visible(excerpt(passage.text, query.query, _SNIPPET).text)))
        if passage.rank <= len(judged) and (label := judged[passage.rank - 1]).reason:
            told = f"judged {label.level}{', used' * label.used}: {label.reason}"
            say(indented(f"[dim]{visible(told)}[/dim]"))
    if found.judgement and found.judgement.overall:
        say(f"the judge: {visible(found.judgement.overall)}")
