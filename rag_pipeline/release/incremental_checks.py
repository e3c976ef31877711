"""Run the checks of tables on changed documents only.

A check of rows stores the names of the data files on which it passed, by table. LanceDB never
uses the name of a data file twice, so the documents to check are those with rows in other files.
A table that was compacted, restored or rebuilt has new files. Only passed checks are stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
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
"""Raise it when a check finds new faults: every document is then checked again."""
FOLDER = "passed_checks"


def run_check(workspace: Workspace, asset: str, key: str = "") -> CheckResult:
    """Run the check of an asset; read only the rows that have not passed it before."""
    return INCREMENTAL_CHECKS[asset](workspace, key)


def _on_changed_rows(
    check: Callable[..., CheckResult], tables_of: Callable[[Workspace, str], tuple[Table, ...]]
) -> Callable[[Workspace, str], CheckResult]:
    """Return a check that reads the changed documents of tables; the first is the one checked."""

    @wraps(check)
    def incremental(workspace: Workspace, key: str) -> CheckResult:
        tables = tables_of(workspace, key)
        file = f"{FOLDER}/{tables[0].name}.json"
        passed = _read(workspace, file)
        changed: set[str] = set()
        files: dict[str, list[str]] = {}
        for table in tables:
            ids, files[table.name] = table.documents_since(passed.get(table.name, ()))
            changed |= ids
        result = check(workspace, key, changed if passed else None)
        if result.passed and files != passed:
            workspace.store.write_json(file, {"version": VERSION, "files": files})
        return replace(result, checked=len(tables[0].state()))

    return incremental


@wraps(check_lexical_index)
def _lexical(workspace: Workspace, key: str) -> CheckResult:
    # The path of an index names the chunks that it is built from.
    engines = workspace.config.lexical_engines(key)
    paths = [workspace.lexical_path(key, engine) for engine in engines]
    file = f"{FOLDER}/lexical_index.{Key.parse(key).at('contextualizer')}.json"
    passed = _read(workspace, file)
    if passed.get("paths") == paths and all(map(workspace.store.files.has_folder, paths)):
        return CheckResult(passed=True, checked=len(paths))
    result = check_lexical_index(workspace, key)
    if result.passed:
        workspace.store.write_json(file, {"version": VERSION, "files": {"paths": paths}})
    return result


def _read(workspace: Workspace, file: str) -> Mapping[str, Any]:
    try:
        record = workspace.store.read_json(file) or {}
    except StoreError:
        return {}
    files: Mapping[str, Any] = record.get("files", {}) if record.get("version") == VERSION else {}
    return files


INCREMENTAL_CHECKS: Mapping[str, Callable[[Workspace, str], CheckResult]] = CHECKS | {
    "chunks": _on_changed_rows(check_chunks, lambda w, key: (w.chunks(key), w.documents())),
    "vector_index": _on_changed_rows(check_vector_index, lambda w, key: (w.vector_index(key),)),
    "lexical_index": _lexical,
}
