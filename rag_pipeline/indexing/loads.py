"""Load new and changed files or objects into the documents table, and drop missing documents.

A load consists of a plan (`plan_load`), shards (`load_shard`) and an end (`finish_load`). A shard
reads, parses and commits documents. A load in one process has one shard.
"""

import hashlib
import json
import time
from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from rag_pipeline.calls.grouping import groups
from rag_pipeline.calls.progress import advance
from rag_pipeline.config import CorpusConfig
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import CheckFailedError, DocumentError, UnreadDocumentError
from rag_pipeline.indexing.documents import (
    LOADED,
    LoadPlan,
    Stale,
    compare,
    documents_of_objects,
    key_of,
    rows_of_others,
    with_missing_extra,
)
from rag_pipeline.indexing.plans import MAX_SHARD_DOCUMENTS, Plan, Report, quarantine_rows
from rag_pipeline.loading.bucket import Listed
from rag_pipeline.loading.extras import missing_extra
from rag_pipeline.loading.parser_process import parsers_here, stop_parsers
from rag_pipeline.loading.sources import Rejected, Source, SourceFile, folder_of
from rag_pipeline.store.schemas import DOCUMENTS_SCHEMA, parse_metadata, rows_of
from rag_pipeline.workspace import Workspace

_LOAD_CHARACTERS = 4_000_000
_SHARD_DOCUMENTS = 2_000
_SHARD_BYTES = 64_000_000
_FREE_DELETIONS = 10
"""Number of documents that a load may delete regardless of `max_deleted`."""
_MAX_WAITING = 64
_MAX_BYTES = 64_000_000
"""Maximum total size in bytes of documents that are being loaded or wait for an earlier one."""

ParsedSource = tuple[Source, Document | DocumentError]
"""A source, with its document or error."""


@dataclass(slots=True)
class LoadFound:
    """The part of a load's plan that `finish_load` needs."""

    listing: str
    """The digest of the listing."""
    loaded: int
    """Number of documents in the table."""
    gone: dict[str, str]
    """The ids to drop, with their objects' keys, unless this load reads the documents again."""
    seconds: float = 0.0


@dataclass(slots=True)
class Loaded:
    """The result of loading one shard."""

    ids: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Each id with its object's key and its reason for quarantine. Both may be ""."""
    unread: set[str] = field(default_factory=set)
    contested: set[str] = field(default_factory=set)
    """The ids that were not committed, because another object has the same id."""
    seconds: float = 0.0


def update_documents(workspace: Workspace, plan: Plan | None = None) -> Report:
    """Load new and changed files, quarantine unusable files, and drop missing documents.

    `plan` is the result of `plan_documents`, by default a new plan.
    """
    stale, taken, found = plan_load(workspace, plan)
    return finish_load(workspace, found, [load_stale(workspace, stale, taken, found.gone)])


def plan_load(
    workspace: Workspace, plan: Plan | None = None, doubtful: Collection[str] = ()
) -> tuple[Sequence[Stale], set[str], LoadFound]:
    """Create the tables if they are missing, and compare the files or objects with the tables.

    Return the documents or objects to load, the ids of the current documents, and the rest of the
    plan. Objects with an id in `doubtful` are always loaded.
    """
    started = time.perf_counter()
    compared = plan.compared if isinstance(plan, LoadPlan) else compare(workspace, doubtful)
    documents = workspace.documents()
    documents.ensure()
    workspace.quarantine("documents").ensure()
    found = LoadFound(compared.listing, len(documents.state()), compared.gone)
    found.seconds = time.perf_counter() - started
    return compared.stale, compared.current, found


def load_shards(stale: Sequence[Stale]) -> list[list[Any]]:
    """Return the stale files or objects as JSON, in shards that take a few minutes to parse."""
    grouped = groups((one.n_bytes for one in stale), _SHARD_DOCUMENTS, _SHARD_BYTES)
    return [[_packed(stale[place]) for place in group] for group in grouped]


def load_shard(workspace: Workspace, shard: Sequence[Any]) -> Loaded:
    """Load one shard of a plan, possibly at the same time as other shards."""
    return load_stale(workspace, [_unpacked(workspace.config, packed) for packed in shard])


def load_stale(
    workspace: Workspace,
    stale: Sequence[Stale],
    taken: set[str] | None = None,
    gone: Mapping[str, str] | None = None,
) -> Loaded:
    """Read, parse and commit the documents of files or objects.

    `taken` holds the ids of the current documents. The loaded ids are added. If `taken` is None,
    other shards run at the same time. An id with a row of another object is then returned as
    `contested` and not committed. Ids in `gone` stay taken if their object can't be read.
    """
    started = time.perf_counter()
    made = Loaded()
    batch: list[ParsedSource] = []
    pending = 0
    listed = [one for one in stale if isinstance(one, Listed)]
    files = (one for one in stale if not isinstance(one, Listed))
    seen = set() if taken is None else taken
    objects = documents_of_objects(workspace.config, listed, seen, gone or {})
    processes = workspace.config.documents.processes or parsers_here()
    for source, document in load_all(chain(objects, files), processes):
        if isinstance(document, Document):
            wanted = missing_extra(document.content_hash, source.content_hash)
            source = replace(source, origin=with_missing_extra(source.origin, wanted))
            pending += len(document.text)
        batch.append((source, document))
        if pending > _LOAD_CHARACTERS or len(batch) >= MAX_SHARD_DOCUMENTS:
            _commit(workspace, batch, made, alone=taken is not None)
            batch, pending = [], 0
    _commit(workspace, batch, made, alone=taken is not None)
    made.seconds = time.perf_counter() - started
    return made


def _commit(workspace: Workspace, batch: Sequence[ParsedSource], made: Loaded, alone: bool) -> None:
    config = workspace.config
    documents, quarantine = workspace.documents(), workspace.quarantine("documents")
    origins = {source.document_id: source.origin for source, _ in batch}
    contested = set() if alone else rows_of_others(workspace, origins)
    mine = [(s, document) for s, document in batch if s.document_id not in contested]
    good = [document for _, document in mine if isinstance(document, Document)]
    bad = [(source, error) for source, error in mine if isinstance(error, DocumentError)]
    unread = [s.document_id for s, error in bad if isinstance(error, UnreadDocumentError)]
    reasons = {source.document_id: error.reason for source, error in bad}
    for row in documents.read_rows(["document_id"], [*reasons]):
        stays = "stays" if row["document_id"] in unread else "is no longer searched"
        reasons[row["document_id"]] += f"; the earlier version {stays}"
    refused = [(s.document_id, s.content_hash, reasons[s.document_id]) for s, _ in bad]
    ids, bad_ids = [d.document_id for d in good], list(reasons)
    rows = document_rows(good, config.documents_fingerprint(), origins)
    documents.replace([*ids, *(i for i in bad_ids if i not in unread)], [rows])
    of_bad = [origins[i] for i in bad_ids]
    rows = quarantine_rows(refused, config.refusals_fingerprint(), "documents", of_bad)
    quarantine.replace([*ids, *bad_ids], [rows])
    made.ids.update({i: (key_of(origins[i]), reasons.get(i, "")) for i in [*ids, *bad_ids]})
    made.unread.update(unread)
    made.contested |= contested


def finish_load(workspace: Workspace, found: LoadFound, parts: Sequence[Loaded]) -> Report:
    """Drop missing documents, maintain the table, and return the report of all shards.

    If several objects have the same id, first read these objects again in the order of their keys.
    The first object keeps the id, and its rows replace the earlier rows.
    """
    started = time.perf_counter()
    documents, quarantine = workspace.documents(), workspace.quarantine("documents")
    keys = {(i, key) for part in parts for i, (key, _) in part.ids.items()}
    times = Counter(i for i, _ in keys)
    contested = {i for part in parts for i in part.contested}
    doubtful = {i for i in times if times[i] > 1 or i in contested}
    gone = found.gone
    ended = {i: reason for part in parts for i, (_, reason) in part.ids.items()}
    if doubtful or contested:
        stale, taken, again = plan_load(workspace, doubtful=doubtful)
        gone = again.gone
        last = load_stale(workspace, stale, taken, gone)
        parts = [*parts, last]
        ended = {i: reason for i, reason in ended.items() if i not in doubtful}
        ended |= {i: reason for i, (_, reason) in last.ids.items()}
    unread = {i for part in parts for i in part.unread}
    orphans = sorted(i for i, key in gone.items() if i not in ended and key not in unread)
    held = sum(rows.num_rows for rows in documents.read(["document_id"], orphans))
    _hold_deletions(workspace.config, held, found.loaded)
    documents.drop(orphans)
    quarantine.drop(orphans)
    report = Report(dropped=len(orphans), quarantined={i: r for i, r in ended.items() if r})
    report.documents = report.rows = len(ended) - len(report.quarantined)
    if report.documents or report.dropped:
        documents.compact()
        workspace.store.hash_table(documents.name)
    if not unread:  # otherwise the next load tries again, even if no file changes
        workspace.store.write_json(LOADED, found.listing)
    spent = time.perf_counter() - started
    report.seconds = found.seconds + spent + sum(part.seconds for part in parts)
    return report


def _packed(stale: Stale) -> Any:
    """Return a source as JSON values, without its folder, which may differ on other machines."""
    if isinstance(stale, Listed):
        return list(stale)
    names = (each.name for each in fields(stale))
    return {name: getattr(stale, name) for name in names if name not in ("base", "settings")}


def _unpacked(config: CorpusConfig, packed: Any) -> Stale:
    if isinstance(packed, list):
        return Listed(*packed)
    if "reason" in packed:
        return Rejected(**packed)
    base = folder_of(config.documents_path)
    return SourceFile(**packed, base=base, settings=config.documents_source)


def _hold_deletions(config: CorpusConfig, gone: int, loaded: int) -> None:
    """Raise CheckFailedError if a load would delete more documents than `max_deleted` allows."""
    limit = config.documents.max_deleted
    if gone > _FREE_DELETIONS and gone > limit * loaded:
        raise CheckFailedError(
            f"{config.documents_place}: {gone:,} of {loaded:,} loaded documents are gone, more "
            f"than documents.max_deleted ({limit:g}) allows; none was deleted. Restore the files, "
            f"or delete the documents: rag run {config.where} --allow-deletions"
        )


def document_rows(
    documents: Sequence[Document], fingerprint: str, origins: Mapping[str, str | None]
) -> pa.RecordBatch:
    """Return rows of the documents table, with the origin of each document."""
    same = ("document_id", "content_hash", "title", "media_type", "text", "page_map")
    columns: dict[str, Sequence[object]] = {
        **{name: [getattr(d, name) for d in documents] for name in same},
        "fingerprint": [fingerprint] * len(documents),
        "metadata": [json.dumps(dict(d.metadata), sort_keys=True) for d in documents],
        "origin": [origins[d.document_id] for d in documents],
        "characters": [len(d.text) for d in documents],
        "text_hash": [text_hash(d.text) for d in documents],
    }
    return rows_of(columns, DOCUMENTS_SCHEMA)


def text_hash(text: str) -> str:
    """Return the first 32 hex digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read_documents(
    workspace: Workspace, document_ids: Sequence[str], version: int | None = None
) -> Iterator[Document]:
    """Yield documents from a version of the documents table, by default the newest version."""
    columns = [f.name for f in fields(Document)]
    for row in workspace.documents().read_rows(columns, document_ids, version, batch_rows=16):
        yield Document(**{**row, "metadata": parse_metadata(row["metadata"])})


# --- documents in parallel ---


def load_all(sources: Iterable[Source], processes: int) -> Generator[ParsedSource, None, None]:
    """Load documents in up to `processes` threads, and yield them in the order of the sources.

    Read the bytes of a source before taking the next, because the copy of a bucket's object is then
    deleted.
    """
    started: deque[tuple[Source, Future[Document], int]] = deque()
    finished = False
    with ThreadPoolExecutor(processes, "load") as threads:
        try:
            for source in sources:
                started.append((source, *_start(threads, source)))
                while len(started) > _MAX_WAITING or sum(s[-1] for s in started) > _MAX_BYTES:
                    yield _wait(*started.popleft())
            while started:
                yield _wait(*started.popleft())
            finished = True
        finally:
            if not finished:  # no caller waits for the remaining documents
                threads.shutdown(wait=False, cancel_futures=True)
                stop_parsers()


def _start(threads: ThreadPoolExecutor, source: Source) -> tuple[Future[Document], int]:
    try:
        if isinstance(source, Rejected):
            raise source.error()
        raw = source.read()
    except DocumentError as error:
        advance("documents", 1)
        failed: Future[Document] = Future()
        failed.set_exception(error)
        return failed, 0
    return threads.submit(copy_context().run, _parse, source, raw), len(raw)


def _parse(source: SourceFile, raw: bytes) -> Document:
    try:
        return source.parse(raw)
    finally:
        advance("documents", 1)  # a slow document hides none of the later ones


def _wait(source: Source, future: Future[Document], _: int) -> ParsedSource:
    try:
        return source, future.result()
    except DocumentError as error:
        return source, error
