"""Build the events of a step in Dagster: its materialization, its metadata and its checks."""

import base64
from collections.abc import Mapping
from html import escape
from typing import Any, cast

import dagster as dg

from rag_pipeline.pipeline.asset import Check
from rag_pipeline.pipeline.metadata import Details, Link, MetadataValue, Picture, Rows, examples
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.store.s3 import browser_address


def metadata_of(metadata: Mapping[str, MetadataValue]) -> dict[str, Any]:
    """Convert metadata to Dagster's types, which its UI shows as charts, tables and pictures."""
    return {name: _shown(value) for name, value in metadata.items()}


def _shown(value: MetadataValue) -> Any:
    match value:
        case Picture(title, svg):
            code = base64.b64encode(svg.encode()).decode()
            return dg.MetadataValue.md(f"![{title}](data:image/svg+xml;base64,{code})")
        case Link(address):
            if "://" not in address:
                return dg.MetadataValue.path(address)
            is_object = address.startswith("s3://")
            return dg.MetadataValue.url(browser_address(address) if is_object else address)
        case Details(rows):
            lines = [list(rows[0]), ["---"] * len(rows[0]), *(row.values() for row in rows)]
            return dg.MetadataValue.md("\n".join("|".join(map(_cell, line)) for line in lines))
        case [dict(), *_]:
            return _table(cast("Rows", value))
        case [only]:
            return only
        case list():
            return dg.MetadataValue.md("\n".join(f"- {item}" for item in value))
        case dict():
            return dg.MetadataValue.json(value)
    return value


def _cell(value: Any) -> str:
    return "" if value is None else escape(str(value), quote=False).replace("|", "&#124;")


def _table(records: Rows) -> dg.TableMetadataValue:
    columns = []
    for field in records[0]:
        values = [record[field] for record in records if record[field] is not None]
        number = bool(values) and all(isinstance(v, int | float) for v in values)
        columns.append(dg.TableColumn(field, "float" if number else "string"))
    shown = [dg.TableRecord({k: "" if v is None else v for k, v in r.items()}) for r in records]
    return dg.MetadataValue.table(records=shown, schema=dg.TableSchema(columns))


def evaluation(
    key: dg.AssetKey, step: Step, check: Check, result: CheckResult
) -> dg.AssetCheckEvaluation:
    """Return the event of a check of one step. A check that does not block only warns."""
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=check.name,
        passed=result.passed,
        # No numbers: Dagster would chart all partitions of a check as one line.
        metadata=metadata_of(examples("failures", result.failures)),
        severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
        description=result.description,
        blocking=check.blocking,
        partition=step.partition,
    )
