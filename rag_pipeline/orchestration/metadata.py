"""What Dagster's UI shows of a materialization, made of the pipeline's metadata."""

import base64
from collections.abc import Mapping
from typing import Any

import dagster as dg

from rag_pipeline.pipeline.metadata import (
    Columns,
    Link,
    Listing,
    MetadataValue,
    Picture,
    Record,
    RowTable,
)


def metadata_of(metadata: Mapping[str, MetadataValue]) -> dict[str, Any]:
    """Return metadata as metadata: numbers are charted, tables, lists and pictures are shown."""
    return {name: _shown(fact) for name, fact in metadata.items()}


def _shown(fact: MetadataValue) -> Any:
    match fact:
        case RowTable(records):
            return _table(records)
        case Listing(items):
            return dg.MetadataValue.md("\n".join(f"- {item}" for item in items))
        case Record(value):
            return dg.MetadataValue.json(dict(value))
        case Picture(title, svg):
            code = base64.b64encode(svg.encode()).decode()
            return dg.MetadataValue.md(f"![{title}](data:image/svg+xml;base64,{code})")
        case Link(address):
            is_url = "://" in address
            return dg.MetadataValue.url(address) if is_url else dg.MetadataValue.path(address)
        case Columns(types):
            columns = [dg.TableColumn(name, kind) for name, kind in types]
            return dg.MetadataValue.table_schema(dg.TableSchema(columns))
    return fact


def _table(records: tuple[Mapping[str, Any], ...]) -> dg.TableMetadataValue:
    columns = []
    for field in records[0]:
        values = [record[field] for record in records if record[field] is not None]
        number = bool(values) and all(isinstance(v, int | float) for v in values)
        columns.append(dg.TableColumn(field, "float" if number else "string"))
    shown = [dg.TableRecord({k: "" if v is None else v for k, v in r.items()}) for r in records]
    return dg.MetadataValue.table(records=shown, schema=dg.TableSchema(columns))
