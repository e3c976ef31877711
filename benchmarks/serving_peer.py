"""LanceDB's own hybrid search behind a plain Starlette application: the peer of bench_serving.

    python -m benchmarks.serving_peer TABLES PORT

It embeds the query with the same model, and fuses vectors and full text by reciprocal rank.
"""

import asyncio
import sys
from typing import Any

import lancedb
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rag_pipeline.models.providers.minilm import MiniLM

TABLE = "chunks"
_COLUMNS = ["chunk_id", "document_id", "start", "end", "text", "title", "_relevance_score"]


def copy_table(source: Any, folder: str) -> None:
    """Copy a vector table, and index its texts."""
    columns = ["chunk_id", "document_id", "start", "end", "text", "title", "vector"]
    rows = source.to_table(columns)
    table = lancedb.connect(folder).create_table(TABLE, rows, mode="overwrite")
    table.create_fts_index("text", with_position=False)


def app(folder: str) -> Starlette:
    table, model = lancedb.connect(folder).open_table(TABLE), MiniLM()

    def found(query: str, k: int) -> list[dict[str, Any]]:
        search = table.search(query_type="hybrid").vector(model.embed([query])[0]).text(query)
        rows = search.limit(k).to_list()
        return [{name: row[name] for name in _COLUMNS} for row in rows]

    async def search(request: Request) -> Response:
        body = await request.json()
        made = await asyncio.to_thread(found, body["query"], 10)
        return JSONResponse({"passages": made})

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(routes=[Route("/v1/search", search, methods=["POST"]), Route("/live", live)])


if __name__ == "__main__":
    uvicorn.run(app(sys.argv[1]), port=int(sys.argv[2]), log_level="warning")
