"""Build BM25 indexes of contextualized chunks.

An index never changes, because it holds statistics of the whole corpus. If documents change, a new
index copies the terms of unchanged documents from the previous index.
"""

import json
import shutil
import time
from contextlib import suppress

from rag_pipeline.calls.progress import advance
from rag_pipeline.errors import StoreError
from rag_pipeline.indexing.plans import Report
from rag_pipeline.search.lexical_index import EarlierIndex, build_lexical_index, is_extensible
from rag_pipeline.store import TableState
from rag_pipeline.workspace import Workspace

_ORIGINS = "origins.json"
"""The file of an index with each document's content hash, fingerprint and row count."""


def plan_lexical(workspace: Workspace, context_key: str) -> list[str]:
    """Return the engines that have no index of the current chunks."""
    return [
        engine
        for engine in workspace.config.lexical_engines(context_key)
        if not workspace.store.files.has_folder(workspace.lexical_path(context_key, engine))
    ]


def update_lexical(workspace: Workspace, context_key: str) -> Report:
    """Build the missing lexical indexes of one chunking and contextualizer."""
    started = time.perf_counter()
    report = Report()
    table = workspace.contextualized_chunks(context_key)
    state = table.state()
    for engine in plan_lexical(workspace, context_key):
        path = workspace.lexical_path(context_key, engine)
        folder = workspace.store.files.new_folder(path)
        try:
            columns = ["chunk_id", "document_id", "start", "text", "title", "context"]
            earlier = _earlier(workspace, path, state)
            fresh = None if earlier is None else sorted(state.keys() - set(earlier.kept))
            batches = table.read(columns, fresh)
            rows = build_lexical_index(engine, batches, workspace.config.lexical, folder, earlier)
            (folder / _ORIGINS).write_text(json.dumps(_origins(state)), encoding="utf-8")
            workspace.store.publish_folder(folder, path)
        except OSError as error:
            raise StoreError(f"{path}: cannot write the lexical index: {error}") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        report.rows += rows
        advance("chunks", rows)
    report.documents = len(state)
    report.seconds = time.perf_counter() - started
    return report


def _origins(state: TableState) -> dict[str, str]:
    return {document_id: "/".join(map(str, made)) for document_id, made in state.items()}


def _earlier(workspace: Workspace, path: str, state: TableState) -> EarlierIndex | None:
    """Return the newest extensible index if it has half of the current documents, or else None."""
    store = workspace.store
    parent, _, name = path.rpartition("/")
    same = f"{name.rpartition('-')[0]}-"
    siblings = [f"{parent}/{n}" for n in store.list(parent) if n.startswith(same) and n != name]
    for sibling in sorted(siblings, key=store.files.modified, reverse=True):
        origins = store.read_json(f"{sibling}/{_ORIGINS}")
        if not isinstance(origins, dict):
            continue
        now = _origins(state)
        kept = [name for name, made in origins.items() if now.get(name) == made]
        if len(kept) < len(now) / 2:
            return None
        with suppress(StoreError):  # the index is damaged or has another format
            folder = store.local_folder(sibling)
            if is_extensible(folder):
                return EarlierIndex(folder, kept)
    return None
