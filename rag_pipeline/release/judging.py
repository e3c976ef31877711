"""The checks in proportion to the change: what passed once is not read again.

A check of rows remembers the data files that it has judged, by table. Their names are never used
twice, so the documents to judge are those with rows in other files; a table that was merged, put
back or built anew has other files by itself. Only what passed is remembered.
"""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from rag_pipeline.config import Key
from rag_pipeline.errors import StoreError
from rag_pipeline.release.checks import (
    CHECKS,
    CheckResult,
    check_chunks,
    check_lexical_index,
    check_vector_index,
)
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace

VERSION = 1
"""Raised when checks find other faults than before: then all is judged again."""
FOLDER = "judged"


def judge(workspace: Workspace, asset: str, key: str = "") -> CheckResult:
    """Judge an asset as it is now, reading only what has not passed before."""
    return JUDGES[asset](workspace, key)


def _chunks(workspace: Workspace, key: str) -> CheckResult:
    tables = (workspace.chunks(key), workspace.documents())
    return _changed_rows(workspace, tables, partial(check_chunks, workspace, key))


def _vectors(workspace: Workspace, key: str) -> CheckResult:
    tables = (workspace.vector_index(key),)
    return _changed_rows(workspace, tables, partial(check_vector_index, workspace, key))


def _changed_rows(
    workspace: Workspace, tables: tuple[Table, ...], check: Callable[[set[str] | None], CheckResult]
) -> CheckResult:
    file = f"{FOLDER}/{tables[0].name}.json"
    known = _known(workspace, file)
    changed: set[str] = set()
    files: dict[str, list[str]] = {}
    for table in tables:
        ids, files[table.name] = table.documents_since(known.get(table.name, ()))
        changed |= ids
    result = check(changed if known else None)
    if result.passed and files != known:
        workspace.store.write_json(file, {"version": VERSION, "files": files})
    return CheckResult(result.passed, len(tables[0].state()), result.failures)


def _lexical(workspace: Workspace, key: str) -> CheckResult:
    """Judge the indexes of these chunks: a path is of the chunks that it was built from."""
    engines = workspace.config.lexical_engines(key)
    paths = [workspace.lexical_path(key, engine) for engine in engines]
    file = f"{FOLDER}/lexical_index.{Key.parse(key).at('contextualizer')}.json"
    known = _known(workspace, file)
    if known.get("paths") == paths and all(map(workspace.store.files.has_folder, paths)):
        return CheckResult(True, len(paths), ())
    result = check_lexical_index(workspace, key)
    if result.passed:
        workspace.store.write_json(file, {"version": VERSION, "files": {"paths": paths}})
    return result


def _known(workspace: Workspace, file: str) -> Mapping[str, Any]:
    try:
        record = workspace.store.read_json(file) or {}
    except StoreError:
        return {}
    files: Mapping[str, Any] = record.get("files", {}) if record.get("version") == VERSION else {}
    return files


JUDGES: Mapping[str, Callable[[Workspace, str], CheckResult]] = CHECKS | {
    "chunks": wraps(check_chunks)(_chunks),
    "vector_index": wraps(check_vector_index)(_vectors),
    "lexical_index": wraps(check_lexical_index)(_lexical),
}
"""`CHECKS`, each reading only what has not passed before."""
