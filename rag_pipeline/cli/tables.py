"""Results as tables for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from rag_pipeline.cli.console import console
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.errors import InputError
from rag_pipeline.evaluation.runs import best_first
from rag_pipeline.release import Release

_METRICS = (
    "AnswerPresence@1",
    "AnswerPresence@5",
    "AnswerPresence@10",
    "AnswerPresence@20",
    "nDCG@10",
    "RR@10",
)
_SNIPPET = 300
_WIDE = 110


def sorted_board(board: Mapping[str, Any], metric: str | None) -> dict[str, Any]:
    """Return the leaderboard sorted by a metric; raise InputError naming the known ones."""
    if metric is None:
        return dict(board)
    rows = board["configurations"]
    known = list(rows[0]["metrics"]) if rows else []
    if metric not in known:
        raise InputError(f"--sort {metric!r} is not one of: {', '.join(known)}")
    ordered = sorted(rows, key=lambda row: best_first(row["metrics"][metric]["mean"]))
    return {**board, "sorted_by": metric, "configurations": ordered}


def show_leaderboard(board: Mapping[str, Any]) -> None:
    """Print every configuration's means in percent, with the 95 % interval of the sorted one."""
    by = board["sorted_by"]
    metrics = [m for m in _METRICS if m != by]
    if console.width < _WIDE:
        metrics = metrics[:3]
    table = Table(
        title=f"{board['corpus']}: configurations by {by}, in percent",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    table.add_column("configuration", overflow="fold")
    for name in (_short(by), "95 %", *map(_short, metrics), "n", "missing", "chunks"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in board["configurations"]:
        shown = row["metrics"]
        cells = [_percent(shown[by]["mean"]), _interval(shown[by])]
        cells += [_percent(shown[metric]["mean"]) for metric in metrics]
        counts = [str(shown[by]["n"]), str(shown[by]["missing"]), str(row["chunks"])]
        table.add_row(row["name"], *cells, *counts)
    console.print(table)
    console.print("AP@k is Answer Presence@k: the share of queries with an answer in the first k.")
    if board["queries_left_out"]:
        console.print(
            f"{board['queries_left_out']} gold spans could not be resolved; their queries are "
            f"left out (see the queries asset)."
        )


def show_chunks(chunks: Sequence[ScoredChunk]) -> None:
    """Print retrieved chunks with their source."""
    if not chunks:
        console.print("nothing found")
    for rank, chunk in enumerate(chunks, 1):
        text = " ".join(chunk.text.split())
        text = text if len(text) <= _SNIPPET else text[: _SNIPPET - 1] + "…"
        source = f"{chunk.document_id}[{chunk.start}:{chunk.end}]"
        console.print(f"[bold]{rank}.[/bold] [cyan]{escape(source)}[/cyan]  {chunk.score:.3f}")
        if chunk.title:
            console.print(f"   [dim]{escape(chunk.title)}[/dim]")
        console.print(f"   {escape(text)}\n")


def show_releases(releases: Sequence[Release], serving: str) -> None:
    """Print the releases, newest first."""
    if not releases:
        console.print("no releases yet")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("", "release", "created", "configuration", "chunks", "why"):
        table.add_column(name, overflow="fold")
    for release in releases:
        mark = "*" if release.release_id == serving else ""
        table.add_row(
            mark,
            release.release_id,
            release.created,
            release.configuration,
            str(release.pinned.rows),
            "; ".join(release.reasons),
        )
    console.print(table)


def _short(metric: str) -> str:
    return metric.replace("AnswerPresence", "AP")


def _percent(mean: float | None) -> str:
    return "–" if mean is None else f"{100 * mean:.1f}"


def _interval(metric: Mapping[str, Any]) -> str:
    if metric["low"] is None:
        return "–"
    return f"{100 * metric['low']:.0f}–{100 * metric['high']:.0f}"
