"""What the Dagster UI shows of a materialization: numbers, tables and previews."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from rag_pipeline.evaluation.summary import Summary
from rag_pipeline.indexing import Report

_PREVIEW_ROWS = 5
_PREVIEW_CHARACTERS = 120

LEADERBOARD_METRICS = (
    "AnswerPresence@1",
    "AnswerPresence@5",
    "AnswerPresence@10",
    "AnswerPresence@20",
    "nDCG@10",
    "RR@10",
    "R@5",
    "IoU@5",
)


def leaderboard_row(row: Mapping[str, Any], first: str) -> dict[str, Any]:
    """Return a configuration's line in the leaderboard table, the metric it is sorted by first."""
    metrics = row["metrics"]
    others = (name for name in LEADERBOARD_METRICS if name != first)
    best = metrics[first]
    unknown = best["low"] is None
    return {
        "configuration": row["name"],
        first: _round(best["mean"]),
        "95 %": None if unknown else f"{best['low']:.2f}–{best['high']:.2f}",
        "n": best["n"],
        "missing": best["missing"],
        **{name: _round(metrics[name]["mean"]) for name in others},
        "chunks": row["chunks"],
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
        "calls_made": report.calls.made,
        "calls_saved": report.calls.saved,
        "seconds": round(report.seconds, 3),
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


def _round(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
