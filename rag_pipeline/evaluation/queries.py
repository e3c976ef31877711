"""Resolve the gold of the queries against the documents, and save the resolved queries."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from operator import itemgetter

from rag_pipeline.config import fingerprint
from rag_pipeline.datamodels import Query
from rag_pipeline.evaluation.results import QUERIES
from rag_pipeline.indexing import read_documents
from rag_pipeline.loading.queries import read_queries, resolve_queries
from rag_pipeline.search.copies import find_copies
from rag_pipeline.store import state_digest
from rag_pipeline.store.states import read_once
from rag_pipeline.workspace import Workspace

QUERIES_VERSION = 2
"""A version to increase when the same file and documents give other queries or gold spans."""


def queries_digest(workspace: Workspace) -> str:
    """Hash the queries file and the loaded documents."""
    return read_once(workspace.store.address("queries digest"), lambda: _queries_digest(workspace))


def _queries_digest(workspace: Workspace) -> str:
    path = workspace.config.queries_path
    content = path.read_bytes() if path and path.is_file() else b""
    documents = state_digest(workspace.documents().state())
    copies = sorted(find_copies(workspace).items())
    asked = hashlib.sha256(content).hexdigest()
    return fingerprint("queries", QUERIES_VERSION, asked, documents, repr(copies))


def queries_are_current(workspace: Workspace) -> bool:
    """Return whether the resolved queries are made from the current file and documents."""
    return QUERIES.digest(workspace) == queries_digest(workspace)


def update_queries(workspace: Workspace) -> list[str]:
    """Resolve the queries' gold spans against the loaded documents, and return the problems.

    A query with an unresolvable span is reported and left out. All other queries are saved. The
    spans of a renamed document move to the document with the same text. The spans of a copy move to
    the indexed document.
    """
    made_from = queries_digest(workspace)
    path = workspace.config.queries_path
    records = read_queries(path) if path else []
    known = workspace.documents().state()
    named = {span.document_id for record in records for span in record.gold_spans}
    followed = _followed(workspace, named - known.keys())
    copies = find_copies(workspace)

    def current(document_id: str) -> str:
        return followed.get(document_id, document_id)

    def text_of(document_id: str) -> str | None:
        return next((d.text for d in read_documents(workspace, [current(document_id)])), None)

    def indexed(document_id: str) -> str:
        return copies.get(current(document_id), current(document_id))

    def moved(query: Query) -> Query:
        spans = [replace(span, document_id=indexed(span.document_id)) for span in query.gold_spans]
        return replace(
            query,
            gold_spans=tuple(dict.fromkeys(spans)),
            gold_documents=tuple(dict.fromkeys(map(indexed, query.gold_documents))),
            grades={indexed(d): g for d, g in sorted(query.grades.items(), key=itemgetter(1))},
        )

    rows = workspace.quarantine("documents").read_rows(["document_id", "reason"])
    refused = {row["document_id"]: row["reason"] for row in rows}
    before = QUERIES.note(workspace).get("documents", {})
    found, problems = resolve_queries(records, text_of, lambda: known, refused, before)
    now = {document_id: current(document_id) for document_id in named}
    hashes = _text_hashes(workspace, sorted(set(now.values())))
    kept = {was: place for was, place in before.items() if was in named}
    kept |= {was: [new, hashes[new]] for was, new in now.items() if new in hashes}
    save_queries(workspace, made_from, list(map(moved, found)), problems, len(records), kept)
    return problems


def _followed(workspace: Workspace, lost: Collection[str]) -> dict[str, str]:
    """Return the new ids of the renamed documents among `lost`, by their old ids."""
    before = QUERIES.note(workspace).get("documents", {})
    wanted = {document_id: before[document_id] for document_id in lost if document_id in before}
    if not wanted:
        return {}
    hashes = _text_hashes(workspace)
    copies = find_copies(workspace)
    by_text = {text: copies.get(name, name) for name, text in hashes.items()}
    found = {
        was: new if new in hashes else by_text.get(text) for was, (new, text) in wanted.items()
    }
    return {was: new for was, new in found.items() if new is not None}


def _text_hashes(workspace: Workspace, document_ids: Sequence[str] | None = None) -> dict[str, str]:
    rows = workspace.documents().read_rows(["document_id", "text_hash"], document_ids)
    return {row["document_id"]: row["text_hash"] for row in rows}


def save_queries(
    workspace: Workspace,
    made_from: str,
    queries: Sequence[Query],
    problems: Sequence[str],
    read: int,
    documents: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write resolved queries.

    `made_from` is the `queries_digest`. `read` is the number of queries in the queries file.
    `documents` maps each document id in the file to the last id and the hash of the text.
    """
    rows = QUERIES.table(
        {
            "query_id": [q.query_id for q in queries],
            "query": [q.query for q in queries],
            "record": [json.dumps(asdict(q)) for q in queries],
        }
    )
    note = {"digest": made_from, "problems": list(problems), "read": read}
    QUERIES.write(workspace, rows, {**note, "documents": dict(documents or {})})
