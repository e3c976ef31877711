"""Print leaderboards, releases and imports for users."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from rag_pipeline.cli.console import command, console, counted, indented, new_table, say, show_next
from rag_pipeline.cli.costs import usd
from rag_pipeline.cli.find import rag
from rag_pipeline.evaluation.intervals import Summary
from rag_pipeline.evaluation.leaderboard import Board, BoardRow, origin
from rag_pipeline.evaluation.retrieval_metrics import DOCUMENT_METRIC, short_name
from rag_pipeline.evaluation.scores import added_metrics, explanation, is_share
from rag_pipeline.release import Release

if TYPE_CHECKING:
    from rag_pipeline.loading.importers import ImportReport

_METRICS = (
    "AnswerPresence@1",
    "AnswerPresence@5",
    "nDCG@10",
    "DocumentMismatch@5",
    "AnswerPresence@20",
    "AnswerPresence@10",
    "RR@10",
)
"""Metrics of the leaderboard. A narrow terminal shows only the first metrics."""
_NARROW = 70
_WIDE_ENOUGH = 80
_WIDEST = 100
_MOST_SKIPPED = 20


def show_leaderboard(board: Board) -> None:
    """Print every configuration's mean metrics, with the 95 % interval of the sorting metric."""
    by, rows = board.sorted_by, board.configurations
    if rows and not board.is_measured:
        say(f"{board.corpus}: nothing is measured without questions; to make some: rag questions")
        return
    if rows and all(row.summary(by).n <= 1 for row in rows):
        say(f"{board.corpus}: one question can't rank configurations; to make more: rag questions")
        return
    if board.synthetic:
        told = origin(board.synthetic, board.queries, board.unanswerable)
        console.print(f"[yellow]{told}[/yellow]")
    against = board.references if _width() >= _WIDE_ENOUGH else {}
    short = {name: board.labels().get(name, name) for name in board.names()}
    roomy = _width() >= (110 if against else _NARROW)
    taken = max(map(len, short.values()), default=0) + (42 if roomy or board.misses else 34)
    metrics = _fitting_metrics(board, taken, len(against))
    counts = ("n", *(["missing"] * (roomy or board.misses)), *(["chunks"] * roomy))
    paid = any(row.costs.usd or not row.costs.is_known for row in rows)
    table = new_table(title=f"{board.corpus}: configurations by {by}, in percent")
    table.add_column("configuration", min_width=13)
    names = (short_name(by), "95 %", *map(short_name, metrics), *counts, *(["USD"] * paid))
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for kind in against:
        table.add_column(f"vs {kind}", no_wrap=True)
    for row in rows:
        shown = row.summary(by)
        number = {"n": shown.n, "missing": shown.missing, "chunks": row.chunks}
        table.add_row(
            escape(short[row.name]),
            _mean(by, shown),
            _interval(by, shown),
            *(_mean(metric, row.summary(metric)) for metric in metrics),
            *(f"{number[name]:,}" for name in counts),
            *([usd(row.costs)] * paid),
            *(_verdict(row, by, kind, name) for kind, name in against.items()),
        )
    console.print(table)
    if not rows:
        console.print("no configuration has been evaluated yet")
    else:
        groups = rows[0].summary(by).groups
        unit = f" Intervals and verdicts rest on {groups} documents or groups." if groups else ""
        told = "AP@k, Answer Presence@k: the share of queries with an answer in the first k."
        legend = f"{told} {explanation(metrics)} n: queries measured.{unit}"
        console.print(" ".join(legend.split()), style="dim")
        if against:
            named = " ".join(f"{k.capitalize()}: {escape(name)}." for k, name in against.items())
            error = "query by query; the chance of any false one is 5 %."
            console.print(f"{named} Verdicts are on {short_name(by)}, {error}", style="dim")
        if made := next((name for name in short if short[name] != name), None):
            told = f"“{short[made]}” is short for {made}, its name in commands."
            console.print(escape(told), style="dim")
    lost = board.queries_left_out
    queries = "1 query is" if lost == 1 else f"{lost:,} queries are"
    left_out = f"{queries} left out: gold spans are not in the documents" if lost else ""
    if rows and rows[0].refused:
        console.print(f"{escape(short[rows[0].name])}: {rows[0].refused}", style="dim")
    for warning in filter(None, (board.scope, left_out)):
        console.print(f"[yellow]{warning}[/yellow]")


def _width() -> int:
    # Without a terminal, the console is wider than a screen.
    return console.width if console.is_terminal else min(console.width, _WIDEST)


def _fitting_metrics(board: Board, taken: int, references: int) -> list[str]:
    """Return the metrics, without the sorting metric, that fit into the terminal's width.

    `taken` is the width in characters of the names, counts and intervals.
    """
    rows = board.configurations
    # Each metric takes 9 columns, and a verdict 13.
    room = (_width() - taken - 13 * references) // 9
    wider = any(r.summary(DOCUMENT_METRIC).n > r.summary(_METRICS[1]).n for r in rows)
    documents = [DOCUMENT_METRIC] if wider else []  # some queries have whole documents as gold
    offered = dict.fromkeys((*documents, *_METRICS[:2], *added_metrics(), *_METRICS[2:]))
    measured = {metric for row in rows for metric in row.metrics} - {board.sorted_by}
    known = [metric for metric in offered if metric in measured]
    return sorted(known[: max(room, 0 if references else 1)], key=_by_name)


def _verdict(row: BoardRow, metric: str, kind: str, name: str) -> str:
    if row.name == name:
        return "[dim]itself[/dim]"
    found = row.comparison(kind, metric)
    return coloured_verdict(found.verdict) if found else "–"


def coloured_verdict(verdict: str) -> str:
    """Return a verdict as coloured markup."""
    colour = {"better": "green", "worse": "red"}.get(verdict)
    return f"[{colour}]{verdict}[/{colour}]" if colour else verdict


def show_releases(releases: Sequence[Release], serving: str | None) -> None:
    """Print the releases with the reasons for them, newest first."""
    if not releases:
        console.print("no releases yet")
        return
    for release in releases:
        mark = "*" if release.release_id == serving else " "
        created = release.created.removesuffix("+00:00").replace("T", " ")
        what = f"{escape(release.configuration)}, {counted(release.pinned.rows, 'chunk')}"
        say(f"{mark} [bold]{release.release_id}[/bold]  {created}  {what}")
        say(escape(indented("; ".join(release.reasons), "    ")))


def show_import(report: "ImportReport", destination: Path) -> None:
    """Print the counts and skipped parts of an import, and the command that makes a corpus."""
    chunks = f", {counted(report.chunks, 'chunk')}" if report.chunks else ""
    documents = f"{counted(report.documents, 'document')}, {report.queries:,} queries{chunks}"
    say(f"{escape(str(destination))}: {documents}")
    if report.reanchored:
        console.print(f"  {report.reanchored:,} spans are not at the offsets of the data set")
    for reason in report.skipped[:_MOST_SKIPPED]:
        say(f"  skipped: {escape(reason)}")
    if len(report.skipped) > _MOST_SKIPPED:
        console.print(f"  (and {len(report.skipped) - _MOST_SKIPPED:,} more skipped)")
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", destination.resolve().name)[:64].strip("_-") or "corpus"
    folder, queries = map(str, report.paths[:2])
    show_next(rag("init", name, "--documents", folder, "--queries", queries))
    if report.chunks:
        console.print(
            "A chunking such as "
            f"{command('given: {method: given}')} in the corpus file uses the set's own chunks."
        )


def _by_name(metric: str) -> tuple[str, int]:
    name, _, at = metric.partition("@")
    return name, int(at or 0)


def _mean(metric: str, found: Summary) -> str:
    if found.mean is None:
        return "–"
    return f"{100 * found.mean:.1f}" if is_share(metric) else f"{found.mean:.2f}"


def _interval(metric: str, found: Summary) -> str:
    if found.low is None or found.high is None:
        return "–"
    if is_share(metric):
        return f"{100 * found.low:.0f}–{100 * found.high:.0f}"
    return f"{found.low:.2f}–{found.high:.2f}"
