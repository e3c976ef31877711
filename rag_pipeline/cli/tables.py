"""Results as tables for people."""

import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from rag_pipeline.cli.console import (
    command,
    console,
    indented,
    say,
    show_next,
    titled_table,
    visible,
)
from rag_pipeline.cli.estimates import usd
from rag_pipeline.cli.find import rag
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.evaluation.leaderboard import Board, BoardRow
from rag_pipeline.evaluation.retrieval_metrics import DOCUMENT_METRIC, short_name
from rag_pipeline.evaluation.scores import added_metrics, is_share
from rag_pipeline.evaluation.summary import Summary
from rag_pipeline.release import Release
from rag_pipeline.search.excerpt import excerpt

if TYPE_CHECKING:
    from rag_pipeline.assistant.results import Source
    from rag_pipeline.evaluation.explanation import GoldText, RankedPassage
    from rag_pipeline.loading.importers import ImportReport
    from rag_pipeline.loading.places import Place

_METRICS = (
    "AnswerPresence@1",
    "AnswerPresence@5",
    "nDCG@10",
    "DocumentMismatch@5",
    "AnswerPresence@20",
    "AnswerPresence@10",
    "RR@10",
)
"""The metrics of the leaderboard, the first ones even where there is little room."""
_DOCUMENTS_TOLD = "Doc@k: with a chunk of a document that answers. "
_MISMATCH_TOLD = "Miss@5: the share with no chunk of the right document in the first 5. "
_NARROW = 70
_WIDE_ENOUGH = 80
_SNIPPET = 300
_MOST_SKIPPED = 20


def show_leaderboard(board: Board) -> None:
    """Print every configuration's means in percent, with the 95 % interval of the sorted one."""
    by, rows = board.sorted_by, board.configurations
    longest = max((len(row.name) for row in rows), default=0)
    # Each metric takes 9 columns; what is fixed about 40, and a name may fold.
    against = board.references if console.width >= _WIDE_ENOUGH else {}
    room = max(
        0 if against else 1, (console.width - 42 - min(longest, 44) - 13 * len(against)) // 9
    )
    wider = any(r.summary(DOCUMENT_METRIC).n > r.summary(_METRICS[1]).n for r in rows)
    documents = [DOCUMENT_METRIC] if wider else []  # some queries' gold is whole documents
    offered = dict.fromkeys((*documents, *_METRICS[:2], *added_metrics(), *_METRICS[2:]))
    known = [m for m in offered if m != by and any(m in row.metrics for row in rows)]
    metrics = sorted(known[:room], key=_by_name)
    table = titled_table(f"{board.corpus}: configurations by {by}, in percent")
    table.add_column("configuration", overflow="fold", min_width=13)
    roomy = console.width >= (110 if against else _NARROW)
    counted = ("n", "missing", "chunks") if roomy else ("n", "missing")
    paid = any(row.costs.usd or not row.costs.is_known for row in rows)
    for name in (
        short_name(by),
        "95 %",
        *map(short_name, metrics),
        *counted,
        *(["USD"] if paid else []),
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for kind in against:
        table.add_column(f"vs {kind}", no_wrap=True)
    for row in rows:
        shown = row.summary(by)
        own = [usd(row.costs)] if paid else []
        cells = [_mean(by, shown), _interval(by, shown)]
        cells += [_mean(metric, row.summary(metric)) for metric in metrics]
        counts = [str(shown.n), str(shown.missing), f"{row.chunks:,}"]
        verdicts = [_verdict(row, by, kind, name) for kind, name in against.items()]
        table.add_row(escape(row.name), *cells, *counts[: len(counted)], *own, *verdicts)
    console.print(table)
    if rows:
        groups = rows[0].summary(by).groups
        unit = f" Intervals and verdicts rest on {groups} documents or groups." if groups else ""
        console.print(
            "AP@k, Answer Presence@k: the share of queries with an answer in the first k. "
            f"{_DOCUMENTS_TOLD if documents else ''}"
            f"{_MISMATCH_TOLD if 'DocumentMismatch@5' in metrics else ''}"
            f"n: queries measured.{unit}",
            style="dim",
        )
    else:
        console.print("no configuration has been evaluated yet")
    if rows and against:
        named = " ".join(f"{kind.capitalize()}: {escape(name)}." for kind, name in against.items())
        console.print(
            f"{named} Verdicts are on {short_name(by)}, query by query, at a family error of 5 %.",
            style="dim",
        )
    if board.chosen and rows:
        console.print(board.chosen.sentence, style="dim")
    if board.scope:
        console.print(f"[yellow]{board.scope}[/yellow]")
    if board.origin:
        console.print(f"[yellow]{board.origin}[/yellow]")
    if board.queries_left_out:
        lost = board.queries_left_out
        queries = "1 query is" if lost == 1 else f"{lost:,} queries are"
        console.print(f"[yellow]{queries} left out, as gold is not in the documents[/yellow]")


def _verdict(row: BoardRow, metric: str, kind: str, name: str) -> str:
    if row.name == name:
        return "[dim]itself[/dim]"
    found = row.comparison(kind, metric)
    colour = {"better": "green", "worse": "red"}.get(found.verdict) if found else None
    word = found.verdict if found else "–"
    return f"[{colour}]{word}[/{colour}]" if colour else word


def show_chunks(
    chunks: Sequence[ScoredChunk], query: str, places: "Sequence[Place | None]" = ()
) -> None:
    """Print retrieved chunks: the source, where in it they stand, and what suits the query."""
    if not chunks:
        console.print("nothing found")
    for rank, (chunk, place) in enumerate(zip_longest(chunks, places), 1):
        source = visible(source_of(chunk, place))
        lines = [f"[bold]{rank}.[/bold] [cyan]{source}[/cyan]  [dim]{chunk.score:.3f}[/dim]"]
        if chunk.title:
            lines.append(f"[dim]{indented(visible(chunk.title))}[/dim]")
        lines += [indented(visible(excerpt(chunk.text, query, _SNIPPET))), ""]
        say("\n".join(lines))


def source_of(
    span: "ScoredChunk | Source | RankedPassage | GoldText", place: "Place | None"
) -> str:
    """Return document and place of a span; its offsets where nothing else is known."""
    return f"{span.document_id}[{place.label if place else f'{span.start}:{span.end}'}]"


def show_releases(releases: Sequence[Release], serving: str) -> None:
    """Print the releases, newest first."""
    if not releases:
        console.print("no releases yet")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("", "release", "created", "configuration", "chunks", "why"):
        table.add_column(name, overflow="fold", justify="right" if name == "chunks" else "left")
    for release in releases:
        mark = "*" if release.release_id == serving else ""
        table.add_row(
            mark,
            release.release_id,
            release.created.removesuffix("+00:00").replace("T", " "),
            escape(release.configuration),
            f"{release.pinned.rows:,}",
            escape("; ".join(release.reasons)),
        )
    console.print(table)


def show_import(report: "ImportReport", destination: Path) -> None:
    """Print what was imported, what was left out, and the command that makes a corpus of it."""
    say(
        f"{escape(str(destination))}: {report.documents:,} documents, {report.queries:,} queries"
        + (f", {report.chunks:,} chunks" if report.chunks else "")
    )
    if report.reanchored:
        console.print(f"  {report.reanchored:,} spans were found elsewhere than the set says")
    for reason in report.skipped[:_MOST_SKIPPED]:
        say(f"  skipped: {escape(reason)}")
    if len(report.skipped) > _MOST_SKIPPED:
        console.print(f"  (and {len(report.skipped) - _MOST_SKIPPED:,} more skipped)")
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", destination.resolve().name)[:64].strip("_-") or "corpus"
    documents, queries = map(str, report.paths[:2])
    init = rag("init", name, "--documents", documents, "--queries", queries)
    show_next(init)
    if report.chunks:
        console.print(
            "The set's own chunks are used by a chunking such as "
            f"{command('given: {method: given}')} in the corpus file."
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
