"""Changes planted into one document of an opened build, or into its settings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from rag_pipeline.chunking.sizes import Limit
from rag_pipeline.chunking.windows import window_spans
from rag_pipeline.models.embedding import read_signs
from rag_pipeline.release.compared_builds import ComparedBuild
from rag_pipeline.search.vector_index import indexed_text
from rag_pipeline.workspace import Workspace

KINDS = ("document", "chunk", "context", "embedding")


def plant(
    workspace: Workspace, build: ComparedBuild, kind: str, document: str, name: str = "planted"
) -> ComparedBuild:
    """Return the build with one changed document and the vectors of its changed chunks."""
    rows = build.by_document[document].to_pylist()
    if kind == "chunk":
        rows = [cut for row in rows for cut in _cut(row)]
    elif kind == "context":
        rows = [{**row, "context": "Void. " * 40} for row in rows]
    elif kind == "document":
        rows = [{**row, "text": "Void. " * 20, "content_hash": "another"} for row in rows]
    if kind == "embedding":
        turned = [[-x for x in row["vector"]] for row in rows]
        rows = [{**row, "vector": v} for row, v in zip(rows, turned, strict=True)]
    else:
        embed = workspace.embed("minilm")
        made = embed([indexed_text(row["context"], row["text"]) for row in rows])
        for row, vector, packed in zip(rows, made.vectors, made.tokens, strict=True):
            row["vector"] = vector.tolist()
            if "token_vectors" in row:
                ids, row["token_vectors"] = read_signs(packed, len(vector))
                row["token_ids"] = np.unique(ids).tobytes()
    own = {**build.by_document, document: pa.Table.from_pylist(rows, schema=build.rows.schema)}
    return replace(build, name=name, rows=pa.concat_tables(own.values()))


def _cut(row: dict[str, Any]) -> list[dict[str, Any]]:
    text, start, document = row["text"], row["start"], row["document_id"]
    pieces = [(a, b) for a, b in window_spans(text, Limit(32), 0) if b > a]
    return [
        {
            **row,
            "text": text[a:b],
            "start": start + a,
            "end": start + b,
            "chunk_id": f"{document}#{start + a}-{start + b}",
        }
        for a, b in pieces
    ]
