"""Define the result of making an asset: its version, and numbers, tables and lists to show."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rag_pipeline.calls.costs import Totals
from rag_pipeline.evaluation.leaderboard import Board, BoardRow
from rag_pipeline.evaluation.scores import headline_metrics
from rag_pipeline.indexing import Report


class Picture(NamedTuple):
    """An SVG image with its title."""

    title: str
    svg: str


class Link(NamedTuple):
    """A path or a URL."""

    address: str


Rows = list[dict[str, Any]]


class Details(NamedTuple):
    """A small table. If it is long, Dagster shows the table only after a click."""

    rows: Rows


SHOWN = {kind.__name__: kind for kind in (Picture, Link, Details)}
"""The kinds of values that are more than JSON, by name."""

MetadataValue = int | float | str | Rows | list[str] | dict[str, Any] | Picture | Link | Details
"""Dagster shows rows with the same fields as a table, texts as a list, a dictionary as JSON."""


@dataclass(frozen=True, slots=True)
class Materialized:
    """The result of making an asset: the version of its content, and metadata to show."""

    version: str
    metadata: Mapping[str, MetadataValue]


_PREVIEW_ROWS = 3
_PREVIEW_CHARACTERS = 120


def leaderboard_rows(board: Board) -> list[dict[str, Any]]:
    """Return a row per configuration: the sorting metric, verdicts, other metrics and costs."""
    first = board.sorted_by
    others = [
        metric
        for metric in headline_metrics()
        if metric != first and any(row.summary(metric).n for row in board.configurations)
    ]
    labels = board.labels()
    made = (_leaderboard_row(board, row, others, labels) for row in board.configurations)
    return [{name: _on_one_line(value) for name, value in row.items()} for row in made]


def _on_one_line(value: Any) -> Any:
    """Return a text without places for line breaks, or any other value unchanged."""
    if not isinstance(value, str):
        return value
    whole = value.replace(" ", "\N{NO-BREAK SPACE}")
    return whole.replace("–", "\N{WORD JOINER}–\N{WORD JOINER}")


def _leaderboard_row(
    board: Board, row: BoardRow, others: Sequence[str], labels: Mapping[str, str]
) -> dict[str, Any]:
    first = board.sorted_by
    best = row.summary(first)
    verdicts = {f"vs {kind}": row.comparison(kind, first) for kind in board.references}
    means = rounded({name: row.summary(name).mean for name in (first, *others)})
    return {
        "configuration": labels.get(row.name, row.name),
        first: means.pop(first),
        "95 %": None if best.low is None else f"{best.low:.2f}–{best.high:.2f}",
        "n": best.n,
        "missing": best.missing,
        **{label: found and found.verdict for label, found in verdicts.items()},
        **means,
        "chunks": row.chunks,
        "cost_usd": round(row.costs.usd, 6) if row.costs.is_known else None,
    }


def rows(name: str, records: Iterable[Mapping[str, Any]]) -> dict[str, MetadataValue]:
    """Return {name: records}, or {} if there are no records. All records have the same fields."""
    kept = [dict(record) for record in records]
    return {name: Details(kept)} if kept else {}


def examples(name: str, items: Sequence[str], limit: int = 50) -> dict[str, MetadataValue]:
    """Return the first `limit` items and the number of the others under `name`, or {} for none."""
    if not items:
        return {}
    more = [f"and {len(items) - limit} more"] if len(items) > limit else []
    return {name: [*items[:limit], *more]}


def report_metadata(report: Report) -> dict[str, MetadataValue]:
    """Return the counts of a report, which Dagster charts over time."""
    return {
        "documents_worked_on": report.documents,
        "rows_written": report.rows,
        "documents_dropped": report.dropped,
        "documents_quarantined": len(report.quarantined),
        "documents_failed": len(report.failed),
        "documents_longer_than_window": len(report.too_long),
        "calls_made": report.costs.sent,
        "calls_saved": report.calls.saved,
        "seconds": round(report.seconds, 3),
    }


def cost_metadata(costs: Totals) -> dict[str, MetadataValue]:
    """Return the tokens and cost of charged calls, or {} if there are none.

    `cost_usd` leaves out calls with an unknown price. `calls_of_unknown_price` counts these calls.
    """
    if not costs.calls:
        return {}
    unpriced = {} if costs.is_known else {"calls_of_unknown_price": costs.unpriced}
    return {
        "charged_calls": costs.calls,
        "input_tokens": costs.input_tokens,
        "cached_input_tokens": costs.cached_tokens,
        "output_tokens": costs.output_tokens,
        "cost_usd": round(costs.usd, 6),
        **unpriced,
    }


def preview(table: Any) -> Iterator[dict[str, Any]]:
    """Yield the first 3 rows of a table, with texts cut to 120 characters."""
    wanted = ("document_id", "title", "media_type", "start", "end", "context", "text")
    return first_rows(table, [name for name in wanted if name in table.schema.names], _PREVIEW_ROWS)


def first_rows(table: Any, columns: Sequence[str], limit: int) -> Iterator[dict[str, Any]]:
    """Yield columns of the first `limit` rows, with texts cut to 120 characters."""
    for row in table.to_table(list(columns), limit=limit).to_pylist():
        yield {name: _shortened(row[name]) for name in columns}


def _shortened(value: Any) -> Any:
    flat = " ".join(value.split()) if isinstance(value, str) else value
    is_long = isinstance(flat, str) and len(flat) > _PREVIEW_CHARACTERS
    return f"{flat[: _PREVIEW_CHARACTERS - 1]}…" if is_long else flat


def rounded(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its floats rounded to four decimals."""
    return {n: round(v, 4) if isinstance(v, float) else v for n, v in record.items()}


def rounded_values(values: Mapping[str, float | None]) -> dict[str, MetadataValue]:
    """Return the values that are not None, rounded to four decimals."""
    return rounded({name: value for name, value in values.items() if value is not None})
