"""What the Dagster UI shows of a materialization: numbers, tables and previews."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from rag_pipeline.evaluation.summary import Summary
from rag_pipeline.indexing import Report

_PREVIEW_ROWS = 5
_PREVIEW_CHARACTERS = 200

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


def leaderboard_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration's line in the leaderboard table."""
    shown = {name: row["metrics"][name] for name in LEADERBOARD_METRICS}
    first = next(iter(shown.values()))
    return {
        "configuration": row["name"],
        **{name: _round(metric["mean"]) for name, metric in shown.items()},
        "n": first["n"],
        "missing": first["missing"],
        "chunks": row["chunks"],
    }


def table_metadata(rows: Sequence[Mapping[str, Any]]) -> dg.MetadataValue[Any]:
    """Return rows as a table for the UI; missing values are shown as empty."""
    if not rows:
        return dg.MetadataValue.text("no rows")
    records = [dg.TableRecord({k: "" if v is None else v for k, v in row.items()}) for row in rows]
    columns = []
    for name in rows[0]:
        values = [row[name] for row in rows if row[name] is not None]
        number = bool(values) and all(isinstance(v, int | float) for v in values)
        columns.append(dg.TableColumn(name, "float" if number else "string"))
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns))


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
        "seconds": report.seconds,
    }


def preview(table: Any) -> Any:
    """Return the first rows of a LanceDB table, long texts cut."""
    wanted = ("document_id", "title", "start", "end", "context", "text")
    columns = [name for name in wanted if name in table.schema.names]
    rows = list(first_rows(table, columns, _PREVIEW_ROWS))
    return table_metadata(rows)


def first_rows(table: Any, columns: Sequence[str], limit: int) -> Iterator[dict[str, Any]]:
    """Yield some columns of the first rows."""
    for row in table.search().select(list(columns)).limit(limit).to_list():
        yield {
            name: row[name][:_PREVIEW_CHARACTERS] if isinstance(row[name], str) else row[name]
            for name in columns
        }


def rounded(summary: Summary) -> dict[str, Any]:
    """Return a summary's fields with four decimals."""
    return {name: _round(value) for name, value in asdict(summary).items()}


def _round(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
