"""What the Dagster UI shows of a materialization: numbers, tables and previews."""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from rag_pipeline.calls.costs import Totals
from rag_pipeline.evaluation.board import Board, BoardRow
from rag_pipeline.evaluation.scores import headline_metrics
from rag_pipeline.evaluation.summary import Summary
from rag_pipeline.indexing import Report

_PREVIEW_ROWS = 5
_PREVIEW_CHARACTERS = 120


def leaderboard_rows(board: Board) -> list[dict[str, Any]]:
    """Return the leaderboard table, the metric that it is sorted by first, then the verdicts."""
    first = board.sorted_by
    others = [
        metric
        for metric in headline_metrics()
        if metric != first and any(row.summary(metric).n for row in board.configurations)
    ]
    return [_leaderboard_row(row, first, others, board.references) for row in board.configurations]


def _leaderboard_row(
    row: BoardRow, first: str, others: Sequence[str], kinds: Iterable[str]
) -> dict[str, Any]:
    best = row.summary(first)
    verdicts = {f"vs {kind}": row.comparison(kind, first) for kind in kinds}
    return {
        "configuration": row.name,
        first: _round(best.mean),
        "95 %": None if best.low is None else f"{best.low:.2f}–{best.high:.2f}",
        "n": best.n,
        "missing": best.missing,
        **{label: found and found.verdict for label, found in verdicts.items()},
        **{name: _round(row.summary(name).mean) for name in others},
        "chunks": row.chunks,
        "cost_usd": round(row.costs.usd, 6) if row.costs.is_known else None,
    }


def images(charts: Mapping[str, str]) -> dict[str, Any]:
    """Return SVG files as pictures for the UI, by their titles."""
    encoded = {t: base64.b64encode(svg.encode()).decode() for t, svg in charts.items()}
    return {
        title: dg.MetadataValue.md(f"![{title}](data:image/svg+xml;base64,{code})")
        for title, code in encoded.items()
    }


def rows(name: str, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return records of the same fields as a table for the UI, {} where there are none.

    Missing values are shown as empty.
    """
    records = list(records)
    if not records:
        return {}
    columns = []
    for field in records[0]:
        values = [record[field] for record in records if record[field] is not None]
        number = bool(values) and all(isinstance(v, int | float) for v in values)
        columns.append(dg.TableColumn(field, "float" if number else "string"))
    shown = [dg.TableRecord({k: "" if v is None else v for k, v in r.items()}) for r in records]
    return {name: dg.MetadataValue.table(records=shown, schema=dg.TableSchema(columns))}


def examples(name: str, items: Sequence[str], limit: int = 50) -> dict[str, Any]:
    """Return some of many messages as a list for the UI; {} where there are none."""
    if not items:
        return {}
    more = [f"and {len(items) - limit} more"] if len(items) > limit else []
    return {name: dg.MetadataValue.md("\n".join(f"- {item}" for item in [*items[:limit], *more]))}


def report_metadata(report: Report) -> dict[str, Any]:
    """Return what a materialization did, as numbers for the UI's charts."""
    return {
        "documents_worked_on": report.documents,
        "rows_written": report.rows,
        "documents_dropped": report.dropped,
        "documents_quarantined": len(report.quarantined),
        "documents_failed": len(report.failed),
        "documents_longer_than_window": report.too_long,
        "calls_made": report.calls.made,
        "calls_saved": report.calls.saved,
        "seconds": round(report.seconds, 3),
    }


def cost_metadata(costs: Totals) -> dict[str, Any]:
    """Return what a materialization's calls used and cost, {} where no call was charged.

    `cost_usd` is of the calls whose price is known; the others are counted beside it.
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
    """Yield what tells the first rows of a LanceDB table apart, long texts cut."""
    wanted = ("document_id", "title", "media_type", "start", "end", "context", "text")
    columns = [name for name in wanted if name in table.schema.names]
    return first_rows(table, columns, _PREVIEW_ROWS)


def first_rows(table: Any, columns: Sequence[str], limit: int) -> Iterator[dict[str, Any]]:
    """Yield some columns of the first rows."""
    for row in table.search().select(list(columns)).limit(limit).to_list():
        yield {
            name: _shortened(row[name]) if isinstance(row[name], str) else row[name]
            for name in columns
        }


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    cut = flat[: _PREVIEW_CHARACTERS - 1]
    return flat if len(flat) <= _PREVIEW_CHARACTERS else f"{cut}…"


def rounded(summary: Summary) -> dict[str, Any]:
    """Return a summary's fields with four decimals."""
    return {name: _round(value) for name, value in asdict(summary).items()}


def rounded_values(values: Mapping[str, float | None]) -> dict[str, Any]:
    """Return numbers with four decimals, those that are None left out: Dagster charts numbers."""
    return {name: _round(value) for name, value in values.items() if value is not None}


def _round(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
