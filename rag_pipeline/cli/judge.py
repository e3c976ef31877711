"""`rag compare`, `rag explain`, `rag gate`, `rag report`: what the evaluation says, and why."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from rag_pipeline import release
from rag_pipeline.cli.console import (
    console,
    did_you_mean,
    indented,
    print_json,
    say,
    show_next,
    visible,
)
from rag_pipeline.cli.find import rag
from rag_pipeline.cli.tables import source_of
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, InputError, NotReleasedError, StoreError
from rag_pipeline.evaluation.comparison import (
    Reference,
    compare,
    measured_metrics,
    pairs,
    shown_metrics,
)
from rag_pipeline.evaluation.explanation import Diagnosis, diagnose
from rag_pipeline.evaluation.leaderboard import load_leaderboard, origin
from rag_pipeline.evaluation.retrieval_metrics import METRICS
from rag_pipeline.evaluation.runs import (
    count_synthetic,
    load_groups,
    load_queries,
    why_left_out,
)
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.evaluation.significance import Comparison
from rag_pipeline.pipeline.template import check_target, write_file
from rag_pipeline.release.gate import kept_scores
from rag_pipeline.report import collect, render
from rag_pipeline.workspace import Workspace

_SNIPPET = 200
_PASSAGES = 3
_QUERIES = 5
_VERDICTS = {"better": "[green]better[/green]", "worse": "[red]worse[/red]"}


def show_comparison(file: Path, one: str, other: str, as_json: bool) -> None:
    """Compare two configurations or releases, query by query."""
    workspace = Workspace(load_config(file))
    first, second = (resolve(workspace, name) for name in (one, other))
    wanted = [m for m in shown_metrics(workspace.config) if m in first.scores or m in second.scores]
    groups = load_groups(workspace)
    found = compare(first.scores, second.scores, wanted, groups=groups)
    asked = {query_id for own in first.scores.values() for query_id in own}
    synthetic = count_synthetic(workspace, asked)
    if as_json:
        rows = {metric: asdict(comparison) for metric, comparison in found.items()}
        print_json({"a": one, "b": other, "synthetic": synthetic, "metrics": rows})
        return
    _show_differences(first, second, found)
    if synthetic:
        console.print(f"[yellow]{origin(synthetic, len(asked))}[/yellow]")
    (metric,) = measured_metrics([workspace.config.serve_metric], [first.scores, second.scores])
    changed = _show_changed(workspace, first, second, metric)
    if changed:
        line = rag("explain", changed[-1], file=file, corpus=workspace.config.corpus)
        show_next(line)


def show_explanation(
    file: Path, query_id: str, configuration: str | None, k: int, as_json: bool
) -> None:
    """Show what became of one query under every configuration, in detail under one."""
    if f"AnswerPresence@{k}" not in METRICS:
        raise InputError(f"-k {k} is not one of: 1 to 10, 20")
    workspace = Workspace(load_config(file))
    evaluated = load_leaderboard(workspace).names()
    known = [q.query_id for q in load_queries(workspace)]
    if query_id not in known:
        if why := why_left_out(workspace, query_id):
            raise InputError(
                f"query {query_id!r} is left out, nothing is measured of it: {'; '.join(why)}"
            )
        near = did_you_mean(query_id, known)
        raise InputError(f"no query {query_id!r}{near}; there are: {_some(known)}")
    chosen = configuration or _serving(workspace, evaluated)
    workspace.config.configuration(chosen)
    if chosen not in evaluated:
        raise StoreError(f"{workspace.config.corpus}: {chosen} has not been evaluated yet")
    found = {name: diagnose(workspace, name, [query_id], k)[0] for name in evaluated}
    if as_json:
        print_json({name: _record(d, name == chosen) for name, d in found.items()})
        return
    _show_diagnosis(found[chosen])
    _show_ranks(found, chosen)


def show_gate(file: Path, as_json: bool) -> bool:
    """Print the release gate's decision; return whether the candidate may be released."""
    decision = release.gate_decision(Workspace(load_config(file)))
    if as_json:
        print_json(asdict(decision))
        return decision.allowed
    word = "[green]allowed[/green]" if decision.allowed else "[red]refused[/red]"
    say(f"{word}: {escape(decision.candidate)}")
    if decision.against:
        say(
            f"  against {escape(decision.against)}, on {decision.common} of "
            f"{decision.queries} queries"
        )
    for reason in decision.reasons:
        say(f"  {visible(reason)}")
    return decision.allowed


def write_report(file: Path, output: Path) -> None:
    """Write the report as one HTML file; raise ConfigError where it can't be written."""
    check_target("--output", output)
    write_file("--output", output, render(collect(Workspace(load_config(file)))))
    say(f"wrote {escape(str(output))}")


def resolve(workspace: Workspace, name: str) -> Reference:
    """Return a configuration's scores of today, or those kept of a release."""
    config = workspace.config
    if name in config.all_configurations:
        scores = read_scores(workspace, name)
        if not scores:
            raise StoreError(
                f"{config.corpus}: {name} has not been evaluated yet; run: rag run {config.where}"
            )
        return Reference(name, name, scores)
    releases = {r.release_id: r.configuration for r in release.history(workspace)}
    if name not in releases:
        raise ConfigError(
            f"{config.where}: no configuration or release {name!r}; there are: "
            f"{', '.join([*config.all_configurations, *sorted(releases)])}"
        )
    kept = kept_scores(workspace, name)
    if not kept:
        raise StoreError(f"{config.corpus}: {name} has no scores on any query of today")
    return Reference(name, releases[name], kept)


def _show_differences(one: Reference, other: Reference, found: dict[str, Comparison]) -> None:
    console.print(f"[bold]A[/bold] {escape(one.label)}\n[bold]B[/bold] {escape(other.label)}")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("metric", overflow="fold", min_width=8)
    for name in ("A", "B", "A - B", "95 %", "p", "n", "missing"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("A is", no_wrap=True)
    for metric, difference in found.items():
        sides = [
            (a, b)
            for a, b in pairs(one.scores, other.scores, metric)
            if a is not None and b is not None
        ]
        means = [sum(side) / len(side) for side in zip(*sides, strict=True)] or [None, None]
        interval = (
            "–"
            if difference.low is None or difference.high is None
            else f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}"
        )
        table.add_row(
            metric,
            *map(_percent, means),
            "–" if difference.mean is None else f"{100 * difference.mean:+.1f}",
            interval,
            _p_value(difference.p_holm),
            str(difference.n),
            str(difference.missing),
            _VERDICTS.get(difference.verdict, difference.verdict),
        )
    console.print(table)
    console.print(
        f"In percent; p is adjusted (Holm) for these {len(found)} metrics. n: queries that both "
        f"measured.{_unit(found.values())}",
        style="dim",
    )


def _unit(found: Iterable[Comparison]) -> str:
    """Say what intervals and p values rest on, where it is not the single question."""
    groups = max((c.groups for c in found if c.groups), default=None)
    return f" Unit: the document or `group` ({groups})." if groups else ""


def _show_changed(workspace: Workspace, one: Reference, other: Reference, metric: str) -> list[str]:
    """Name the queries that one answers better than the other, the greatest changes first.

    Returns the first of those that A wins and the first of those that it loses.
    """
    firsts = []
    texts = {q.query_id: q.query for q in load_queries(workspace)}
    mine, theirs = (side.scores.get(metric, {}) for side in (one, other))
    both = {q: (mine[q], theirs[q]) for q in mine if q in theirs and q in texts}
    changes = {q: a - b for q, (a, b) in both.items() if a is not None and b is not None}
    for word, sign in (("A wins", 1), ("A loses", -1)):
        some = sorted(
            (q for q, d in changes.items() if sign * d > 0), key=lambda q: -abs(changes[q])
        )
        if not some:
            continue
        firsts.append(some[0])
        plural = "y" if len(some) == 1 else "ies"
        console.print(f"{word} {len(some)} quer{plural} at {metric}:")
        for query_id in some[:_QUERIES]:
            console.print(f"  {visible(query_id)}  {visible(_cut(texts[query_id]))}")
        if len(some) > _QUERIES:
            console.print(f"  (and {len(some) - _QUERIES} more)")
    return firsts


def _serving(workspace: Workspace, evaluated: Sequence[str]) -> str:
    try:
        served = release.current(workspace).configuration
    except NotReleasedError:
        served = ""
    if not evaluated:
        raise StoreError(f"{workspace.config.corpus}: no configuration has been evaluated yet")
    return served if served in evaluated else evaluated[0]


def _show_diagnosis(found: Diagnosis) -> None:
    query = found.query
    say(f"[bold]{visible(query.query_id)}[/bold]  {visible(query.query)}")
    if query.answer:
        say(f"answer: {visible(query.answer)}")
    for gold in found.gold:
        console.print(f"gold: [cyan]{visible(source_of(gold, gold.place))}[/cyan]")
        shown = "(the document is gone)" if gold.text is None else _cut(gold.text)
        say(indented(visible(shown)))
    console.print(f"\n{escape(found.configuration)}: [bold]{found.reason}[/bold]: {found.why}")
    answering = [p for p in found.retrieved[_PASSAGES:] if p.answers][:1]
    for passage in [*found.retrieved[:_PASSAGES], *answering]:
        mark = "[green]answers[/green]" if passage.answers else "[dim]does not answer[/dim]"
        source = visible(source_of(passage, passage.place))
        say(f"[bold]{passage.rank}.[/bold] [cyan]{source}[/cyan]  {mark}")
        say(indented(visible(_cut(passage.text))))
        judged = found.judgement.contexts if found.judgement else ()
        if passage.rank <= len(judged) and (said := judged[passage.rank - 1]).reason:
            used = ", used" if said.used else ""
            told = f"judged {said.level}{used}: {said.reason}"
            say(indented(f"[dim]{visible(told)}[/dim]"))
    if found.judgement and found.judgement.overall:
        say(f"the judge: {visible(found.judgement.overall)}")


def _show_ranks(found: dict[str, Diagnosis], chosen: str) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("configuration", overflow="fold")
    table.add_column("first answer at", justify="right")
    table.add_column("", no_wrap=True)
    for name, diagnosis in found.items():
        rank = "–" if diagnosis.rank is None else str(diagnosis.rank)
        mark = "*" if name == chosen else ""
        table.add_row(f"{escape(name)}{mark}", rank, diagnosis.reason)
    console.print(table)


def _record(found: Diagnosis, with_passages: bool) -> dict[str, object]:
    record = asdict(found)
    if not with_passages:
        record["retrieved"] = record["retrieved"][:0]
    return {**record, "why": found.why}


def _percent(mean: float | None) -> str:
    return "–" if mean is None else f"{100 * mean:.1f}"


def _p_value(p: float | None) -> str:
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _some(names: Sequence[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > 8 else ""
    return (", ".join(names[:8]) or "none") + more


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SNIPPET else f"{flat[: _SNIPPET - 1]}…"
