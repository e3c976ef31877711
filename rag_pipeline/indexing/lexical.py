"""Contextualized chunks -> BM25 indexes, built whole: their statistics are the whole corpus's."""

import shutil
import time

from rag_pipeline.errors import StoreError
from rag_pipeline.indexing.plans import Report
from rag_pipeline.lexical_index import build_lexical_index
from rag_pipeline.progress import advance
from rag_pipeline.workspace import Workspace


def plan_lexical(workspace: Workspace, context_key: str) -> list[str]:
    """Return the engines whose index of the chunks as they are now has not been built."""
    return [
        engine
        for engine in workspace.config.lexical_engines(context_key)
        if not workspace.store.has_folder(workspace.lexical_path(context_key, engine))
    ]


def update_lexical(workspace: Workspace, context_key: str) -> Report:
    """Build the missing lexical indexes of one `chunking.contextualizer`."""
    started = time.perf_counter()
    report = Report()
    table = workspace.contextualized_chunks(context_key)
    for engine in plan_lexical(workspace, context_key):
        path = workspace.lexical_path(context_key, engine)
        folder = workspace.store.building_folder(path)
        try:
            columns = ["chunk_id", "document_id", "start", "text", "title", "context"]
            stats = build_lexical_index(
                engine, table.read(columns), workspace.config.lexical, folder
            )
            workspace.store.publish_folder(folder, path)
        except OSError as error:
            raise StoreError(f"{path}: cannot write the lexical index: {error}") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        report.rows += stats.rows
        advance("chunks", stats.rows)
    report.documents = len(table.state())
    report.seconds = time.perf_counter() - started
    return report
