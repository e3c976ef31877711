"""Check each table with Great Expectations.

One pass over a table makes a small data frame. Each row of the frame has the numbers of faults in
one document or query. The expectations read only the frame, so memory does not grow with the
chunks.

If an incremental check passes, it stores the names of the data files, by table. LanceDB never uses
the name of a data file twice. So the next check reads only documents with rows in other files. A
table that was compacted, restored or rebuilt has new files.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from itertools import islice
from typing import Any

import numpy as np

from rag_pipeline.config import Key
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.results import QUERIES
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.imports import import_great_expectations
from rag_pipeline.indexing import open_partition, read_documents
from rag_pipeline.search.lexical_index import open_lexical_index
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace

_DOCUMENTS_AT_ONCE = 64
_UNIT_TOLERANCE = 1e-3
VERSION = 1
"""Increase this number when a check finds new faults. Then all documents are checked again."""
FOLDER = "passed_checks"
_MAX_CACHED_ROWS = 100
"""Results for up to this many rows are cached, because even a check of few rows takes 0.1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check of `checked` documents, queries or indexes. Failures have examples."""

    passed: bool
    checked: int
    failures: tuple[str, ...] = ()
    summary: str = ""
    """A sentence that replaces the failures and the number `checked` in the description."""

    @property
    def description(self) -> str:
        """Return the result in words."""
        return self.summary or "; ".join(self.failures) or f"{self.checked} checked"


def check_documents(workspace: Workspace, key: str = "") -> CheckResult:
    """Expect unique document ids, and text and a SHA-256 hash in every document."""
    rows = [
        {
            "document_id": row["document_id"],
            "no_text": int(row["characters"] < 1),
            "bad_hash": int(len(row["content_hash"]) != 64),
        }
        for row in workspace.documents().read_rows(["document_id", "content_hash", "characters"])
    ]
    return _expect(rows, "document_id", ("no_text", "bad_hash"))


def check_queries(workspace: Workspace, key: str = "") -> CheckResult:
    """Expect unique query ids, and gold spans inside existing documents."""
    documents = workspace.documents().read_rows(["document_id", "characters"])
    sizes = {row["document_id"]: row["characters"] for row in documents}
    rows = []
    for query in load_queries(workspace):
        outside = sum(
            not 0 <= s.start < s.end <= sizes.get(s.document_id, -1) for s in query.gold_spans
        ) + sum(document_id not in sizes for document_id in query.gold_documents)
        rows.append({"query_id": query.query_id, "gold_outside": outside})
    return _expect(rows, "query_id", ("gold_outside",))


def check_queries_complete(workspace: Workspace, key: str = "") -> CheckResult:
    """Expect that every gold span was resolved, so no query is left out."""
    note = QUERIES.note(workspace)
    problems = tuple(note.get("problems", ()))
    checked = int(note.get("read", 0))
    return CheckResult(passed=not problems, checked=checked, failures=problems[:20])


def check_chunks(workspace: Workspace, key: str, only: set[str] | None = None) -> CheckResult:
    """Expect unique chunk ids, valid offsets, and the document's text at these offsets.

    If `only` is given, check only these documents, and documents that only one table has.
    """
    partition = open_partition(workspace, "chunks", key)
    # A run may commit to the tables during the check, so all reads are of fixed versions.
    parts = (partition.table, partition.quarantine, partition.upstream)
    table, quarantine, documents = (part.fixed() for part in parts)
    made, refused = table.state(), quarantine.state()
    wanted = partition.covered(documents.state()) - refused.keys()
    every = wanted | set(made)
    # A document that only one table has is a fault, even if it is unchanged.
    checked = every if only is None else (every & only) | (wanted ^ set(made))
    rows = []
    remaining = iter(sorted(checked))
    while ids := list(islice(remaining, _DOCUMENTS_AT_ONCE)):
        texts = {d.document_id: d.text for d in read_documents(workspace, ids, documents.at)}
        found: dict[str, list[dict[str, Any]]] = {i: [] for i in ids}
        for row in table.read_rows(["document_id", "chunk_id", "start", "end", "text"], ids):
            found[row["document_id"]].append(row)
        for document_id, chunks in found.items():
            text = texts.get(document_id, "")
            rows.append(
                {
                    "document_id": document_id,
                    "no_chunks": int(not chunks),
                    "duplicate_ids": len(chunks) - len({c["chunk_id"] for c in chunks}),
                    "bad_offsets": sum(not 0 <= c["start"] < c["end"] <= len(text) for c in chunks),
                    "text_differs": sum(text[c["start"] : c["end"]] != c["text"] for c in chunks),
                }
            )
    faults = ("no_chunks", "duplicate_ids", "bad_offsets", "text_differs")
    return _expect(rows, "document_id", faults, len(every))


def check_contextualized_chunks(workspace: Workspace, key: str) -> CheckResult:
    """Expect one contextualized chunk per chunk, except in documents on which a model failed."""
    tables = workspace.chunks(key), workspace.contextualized_chunks(key)
    rows, total = _row_counts(workspace, *tables)
    return _expect(rows, "document_id", ("rows_missing", "rows_too_many"), total)


def check_vector_index(workspace: Workspace, key: str, only: set[str] | None = None) -> CheckResult:
    """Expect one row per contextualized chunk, and finite vectors of unit length.

    Leave out documents on which a model failed. If `only` is given, check only the vectors of these
    documents.
    """
    table = workspace.vector_index(key).fixed()
    rows, total = _row_counts(workspace, workspace.contextualized_chunks(key), table, only)
    not_finite, not_unit = _vector_faults(table, only)
    for row in rows:
        row["not_finite"] = not_finite[row["document_id"]]
        row["not_unit_length"] = not_unit[row["document_id"]]
    faults = ("rows_missing", "rows_too_many", "not_finite", "not_unit_length")
    return _expect(rows, "document_id", faults, total)


def _vector_faults(table: Table, only: set[str] | None) -> tuple[Counter[str], Counter[str]]:
    """Count by document the vectors that are not finite, and the finite ones of other lengths."""
    not_finite, not_unit = Counter[str](), Counter[str]()
    ids = None if only is None else sorted(only)
    for batch in table.read(["document_id", "vector"], ids):
        column = batch.column("vector")
        vectors = column.flatten().to_numpy().reshape(len(column), -1)
        finite = np.isfinite(vectors).all(axis=1)
        length = np.linalg.norm(np.where(finite[:, None], vectors, 0), axis=1)
        bad_length = finite & (np.abs(length - 1) > _UNIT_TOLERANCE)
        documents = batch.column("document_id").to_pylist()
        not_finite.update(documents[row] for row in np.flatnonzero(~finite))
        not_unit.update(documents[row] for row in np.flatnonzero(bad_length))
    return not_finite, not_unit


def check_lexical_index(workspace: Workspace, key: str) -> CheckResult:
    """Expect one entry per contextualized chunk in every lexical index."""
    expected = workspace.contextualized_chunks(key).count()
    rows = []
    for engine in workspace.config.lexical_engines(key):
        path = workspace.lexical_path(key, engine)
        index = open_lexical_index(workspace.store.local_folder(path))
        rows.append({"engine": engine, "rows_missing": abs(expected - len(index))})
    return _expect(rows, "engine", ("rows_missing",))


CHECKS: dict[str, Callable[[Workspace, str], CheckResult]] = {
    "documents": check_documents,
    "queries": check_queries,
    "chunks": check_chunks,
    "contextualized_chunks": check_contextualized_chunks,
    "vector_index": check_vector_index,
    "lexical_index": check_lexical_index,
}
"""The check of each asset that a release depends on. A check reads the whole table."""


def _row_counts(
    workspace: Workspace, upstream: Table, table: Table, only: Collection[str] | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Return the numbers of missing and surplus rows per document, and the number of documents.

    Leave out documents in quarantine. If `only` is given, also leave out other documents without
    missing or surplus rows.
    """
    before, after = upstream.state(), table.state()
    every = sorted((set(before) | set(after)) - set(workspace.quarantine(table.name).state()))
    rows = []
    for document_id in every:
        wanted, have = (t[document_id].rows if document_id in t else 0 for t in (before, after))
        if only is None or document_id in only or wanted != have:
            missing, surplus = max(0, wanted - have), max(0, have - wanted)
            rows.append(
                {"document_id": document_id, "rows_missing": missing, "rows_too_many": surplus}
            )
    return rows, len(every)


def _expect(
    rows: Sequence[dict[str, Any]], key: str, faults: tuple[str, ...], total: int | None = None
) -> CheckResult:
    """Expect a unique `key` and zeros in the columns `faults` of `total` rows."""
    if not rows:
        return CheckResult(passed=True, checked=0)
    counted = tuple((row[key], sum(row[column] for column in faults)) for row in rows)
    cached = len(counted) <= _MAX_CACHED_ROWS
    validate = _failed_columns if cached else _failed_columns.__wrapped__
    failed = validate(key, counted)
    failures = [f"{key} is not unique"] if key in failed else []
    for column in faults:
        if bad := [row for row in rows if row[column]]:
            examples = ", ".join(f"{row[key]} ({row[column]})" for row in bad[:5])
            failures.append(f"{column} in {len(bad)} of {total or len(rows)}: {examples}")
    return CheckResult(passed=not failed, checked=len(rows), failures=tuple(failures))


@lru_cache(maxsize=256)
def _failed_columns(key: str, rows: tuple[tuple[str, int], ...]) -> frozenset[str]:
    """Return the columns with failed expectations: `key` or `faults`. A row has both values."""
    gx = import_great_expectations()
    import pandas as pd
    from great_expectations import expectations as gxe

    # One expectation checks all faults, because an expectation takes more time than the rows.
    suite = gx.ExpectationSuite(
        name="profile",
        expectations=[
            gxe.ExpectColumnValuesToBeUnique(column=key),
            gxe.ExpectColumnValuesToBeBetween(column="faults", min_value=0, max_value=0),
        ],
    )
    frame = pd.DataFrame(rows, columns=[key, "faults"])
    batch = _batch_definition().get_batch({"dataframe": frame})
    result = batch.validate(suite, result_format="BOOLEAN_ONLY")
    return frozenset(r.expectation_config.kwargs["column"] for r in result.results if not r.success)


@lru_cache(maxsize=1)
def _batch_definition() -> Any:
    """Return the cached batch definition for data frames. Its creation takes as long as a check."""
    context = import_great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    asset = context.data_sources.add_pandas("profile").add_dataframe_asset("rows")
    return asset.add_batch_definition_whole_dataframe("all")


# --- changed rows alone ---


def _on_changed_rows(
    check: Callable[..., CheckResult], tables_of: Callable[[Workspace, str], tuple[Table, ...]]
) -> Callable[[Workspace, str], CheckResult]:
    """Return a check that reads only the documents that changed since the check last passed.

    `tables_of` returns the tables in which changes count, beginning with the checked table.
    """

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
    # The path of an index contains a fingerprint of its chunks.
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
"""The same checks. The checks of chunks and indexes read only changes since they last passed."""
