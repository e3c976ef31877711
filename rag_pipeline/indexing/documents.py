"""Compare the files or objects of a corpus with the documents that were read from them.

The row of a document from a bucket has an `origin`: the object's key, ETag, size and number of
documents, and the missing extra if there was one. An object is unchanged if this number of rows
have its origin, and a missing extra is still missing. After an interrupted load, fewer rows have
the origin.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ConfigError, UnreadDocumentError
from rag_pipeline.indexing.plans import Plan
from rag_pipeline.loading.bucket import Listed, list_bucket, opened
from rag_pipeline.loading.extras import MODULES, is_current_here, is_installed, missing_extra
from rag_pipeline.loading.folder import ListedFile
from rag_pipeline.loading.originals import why_read_again
from rag_pipeline.loading.seen import SeenFiles
from rag_pipeline.loading.sidecar import Given, hashed_with, read_sidecar, with_given
from rag_pipeline.loading.sources import Rejected, SourceFile, folder_of, list_files, scan
from rag_pipeline.store.states import read_once
from rag_pipeline.workspace import Workspace

LOADED = "documents.listing.json"
"""The store's file with the digest of the last listing that was loaded completely."""
Stale = SourceFile | Rejected | Listed


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing of all files or objects of a corpus."""

    digest: str
    """A hash of all names, sizes and times, and of the settings and extras that read them."""
    files: Sequence[ListedFile] = ()
    objects: Sequence[Listed] = ()


@dataclass(slots=True)
class Comparison:
    """The differences between the files or objects of a listing and the tables of a corpus."""

    listing: str
    """The listing's digest."""
    stale: Sequence[Stale]
    """The documents of files, or the objects, that must be loaded."""
    current: set[str]
    """The ids of the documents that are up to date."""
    known: dict[str, str]
    """The ids in the tables, each with the key of its object ("" for a file)."""
    for_extra: dict[str, str] = field(default_factory=dict)
    """Document ids or object keys to read again, each with the extra that is now installed."""

    @property
    def gone(self) -> dict[str, str]:
        """Return the known ids that are not current, each with its object's key ("" for a file)."""
        return {i: key for i, key in self.known.items() if i not in self.current}

    def orphaned(self) -> list[str]:
        """Return the known ids that no file or object has any more, without reading objects."""
        stale = {s.relative if isinstance(s, Listed) else s.document_id for s in self.stale}
        return sorted(i for i, key in self.gone.items() if key not in stale and i not in stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan(Plan):
    """The plan of a load, with its comparison of files or objects with the tables."""

    compared: Comparison


def list_documents(config: CorpusConfig) -> Listing:
    """List the files or objects of a corpus without opening them.

    Raise ConfigError if there is nothing to load, and StoreError if a bucket can't be reached.
    """
    not_read = {"max_deleted", "processes"}
    written = config.documents.model_dump_json(exclude=not_read, exclude_none=True)
    digest = hashlib.sha256(written.encode())
    digest.update(config.documents_fingerprint().encode())
    digest.update(" ".join(extra for extra in MODULES if is_installed(extra)).encode())
    if config.sidecar_path is not None and config.sidecar_path.is_file():
        digest.update(config.sidecar_path.read_bytes())
    source = config.documents_source
    if source.s3:
        objects = list_bucket(source)
        digest.update(repr([tuple(one) for one in objects]).encode())
        return Listing(digest.hexdigest()[:16], objects=objects)
    base = folder_of(config.documents_path)
    files = list_files(source, config.documents_path)
    for relative in sorted(file.relative for file in files):
        path, told = f"{base}/{relative}", None
        with suppress(OSError):
            status = os.stat(path)  # noqa: PTH116 - pathlib takes twice as long
            told = (status.st_size, status.st_mtime_ns)
        digest.update(repr((path, told)).encode())
    return Listing(digest.hexdigest()[:16], files=files)


def listing_digest(config: CorpusConfig) -> str:
    """Return the digest of `list_documents`, or "" if there is nothing to load."""
    try:
        return read_once((id(config), "listing"), lambda: list_documents(config).digest)
    except ConfigError:
        return ""  # the load that follows raises the error


def loaded_listing(workspace: Workspace) -> str | None:
    """Return the digest of the last completely loaded listing, or None before the first load."""
    listing: str | None = workspace.store.read_json(LOADED)
    return listing


def plan_documents(workspace: Workspace) -> LoadPlan:
    """Compare the files or objects with the tables, and return a plan.

    Changed files are hashed but not parsed. For a bucket, only the listing is read, and the plan
    names changed objects by their keys.
    """
    found = compare(workspace)
    names = tuple(s.relative if isinstance(s, Listed) else s.document_id for s in found.stale)
    why = "; ".join(
        f"{count:,} read again: the extra {extra!r} was missing and is installed now"
        for extra, count in sorted(Counter(found.for_extra.values()).items())
    )
    return LoadPlan(names, tuple(found.orphaned()), len(found.current), why=why, compared=found)


def compare(workspace: Workspace, doubtful: Collection[str] = ()) -> Comparison:
    """Compare the files or objects with the tables. Objects with a `doubtful` id count as stale."""
    config = workspace.config
    # List before reading: a file that changes later then differs from the listing.
    listing = list_documents(config)
    given = read_sidecar(config.sidecar_path) if config.sidecar_path else {}
    if config.documents.s3:
        return _compare_objects(workspace, listing, given, doubtful)
    return _compare_files(workspace, listing, given)


def _compare_files(
    workspace: Workspace, listing: Listing, given: Mapping[str, Given]
) -> Comparison:
    config = workspace.config
    made, refusal = config.documents_fingerprint(), config.refusals_fingerprint()
    loaded = workspace.documents().state()
    refused = workspace.quarantine("documents").state()
    stale: list[SourceFile | Rejected] = []
    current: set[str] = set()
    for_extra: dict[str, str] = {}
    source, root = config.documents_source, config.documents_path
    for listed in scan(source, root, _seen_files(workspace), listing.files):
        one = with_given(listed, given)
        name, content_hash = one.document_id, one.content_hash
        # If a document is in both tables, the last load could not read it.
        is_current = (
            is_current_here(loaded[name].content_hash, content_hash)
            and loaded[name][1:] == (made, 1)
            and name not in refused
            if name in loaded
            else name in refused and refused[name][:2] == (content_hash, refusal)
        )
        if is_current:
            current.add(name)
            continue
        stale.append(one)
        extra = missing_extra(loaded[name].content_hash, content_hash) if name in loaded else ""
        if extra:
            for_extra[name] = extra
    known = dict.fromkeys((*loaded, *refused), "")
    # If a folder can't be read now, its documents count as current.
    unread = tuple(f"{s.document_id}/" for s in stale if isinstance(s, Rejected) and s.unread)
    current.update(i for i in known if i.startswith(unread))
    return Comparison(listing.digest, stale, current, known, for_extra)


def read_again(config: CorpusConfig, changed: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the changed documents whose files nobody edited, by the reason for reading them again.

    `changed` maps document ids to earlier content hashes. Objects in a bucket count as edited,
    because a comparison would download them.
    """
    given = read_sidecar(config.sidecar_path) if config.sidecar_path and changed else {}
    found: dict[str, list[str]] = {}
    for name, made in sorted(changed.items()) if not config.documents.s3 else ():
        if why := why_read_again(name, made, config.documents_path, given.get(name)):
            found.setdefault(why, []).append(name)
    return found


def _seen_files(workspace: Workspace) -> SeenFiles:
    """Open this machine's record of the corpus's files, because inodes differ between machines."""
    documents, root = workspace.config.documents, workspace.config.documents_path
    path = workspace.store.calls_path.with_name("files.sqlite")
    # `resolve()` would raise on impossible paths, which the scan refuses with a clear message.
    place = f"{workspace.config.corpus} {root.absolute()}"
    return SeenFiles(path, place, str(documents.max_bytes))


def _compare_objects(
    workspace: Workspace, listing: Listing, given: Mapping[str, Given], contested: Collection[str]
) -> Comparison:
    config = workspace.config
    tables = (
        (workspace.documents(), config.documents_fingerprint()),
        (workspace.quarantine("documents"), config.refusals_fingerprint()),
    )
    by_origin: dict[str, list[str]] = {}
    known: dict[str, str] = {}
    doubtful = set(contested)
    for_extra: dict[str, str] = {}
    for table, fingerprint in tables:
        for row in table.read_rows(["document_id", "fingerprint", "origin"]):
            name, origin = row["document_id"], row["origin"]
            if name in known:  # an interrupted load left a row in each table
                doubtful.add(name)
            known[name] = key_of(origin) or known.get(name, "")
            if not origin or row["fingerprint"] != fingerprint:
                continue
            values = json.loads(origin)
            whole, wanted = json.dumps(values[:4]), "".join(values[4:])
            if wanted and is_installed(wanted):
                for_extra[key_of(origin)] = wanted
            by_origin.setdefault(whole, []).append(name)
    counts = {tuple(json.loads(o)[:3]): (o, json.loads(o)[3]) for o in by_origin}
    stale: list[Listed] = []
    current: set[str] = set()
    for found in listing.objects:
        listed = found._replace(etag=hashed_with(found.etag, given.get(found.relative)))
        origin, documents = counts.get(listed[:3], ("", 0))
        mine = by_origin.get(origin, [])
        is_whole = listed.relative not in for_extra
        if origin and len(mine) == documents and doubtful.isdisjoint(mine) and is_whole:
            current.update(mine)
        else:
            stale.append(listed)
            if not origin:
                for_extra.pop(listed.relative, None)
    return Comparison(listing.digest, stale, current, known, for_extra)


def with_missing_extra(origin: str | None, extra: str) -> str | None:
    """Return the origin with a missing extra added, or unchanged if `extra` is ""."""
    return json.dumps([*json.loads(origin), extra]) if origin and extra else origin


def key_of(origin: str | None) -> str:
    """Return the object's key in an origin, or "" if there is no origin."""
    return str(json.loads(origin)[0]) if origin else ""


def rows_of_others(workspace: Workspace, origins: Mapping[str, str | None]) -> set[str]:
    """Return the ids that already have a row from another object than `origins` names."""
    ids = [document_id for document_id, origin in origins.items() if origin]
    found: set[str] = set()
    for table in (workspace.documents(), workspace.quarantine("documents")):
        for row in table.read_rows(["document_id", "origin"], ids):
            if key_of(row["origin"]) not in ("", key_of(origins[row["document_id"]])):
                found.add(row["document_id"])
    return found


def documents_of_objects(
    config: CorpusConfig, changed: Iterable[Listed], taken: set[str], known: Mapping[str, str]
) -> Iterator[SourceFile | Rejected]:
    """Yield the documents of changed objects with their origins, one object at a time.

    The caller must load each document before taking the next. Add the documents' ids to `taken`,
    and the `known` ids of an object that can't be read. Reject a document if another object already
    has its id. A rejected document has no origin, so the next load reads its object again.
    """
    given = read_sidecar(config.sidecar_path) if config.sidecar_path else {}
    for listed in changed:
        try:
            with opened(config.documents, listed) as found:
                sources = [with_given(source, given) for source in found]
                origin = listed.origin(len(sources))
                mine: set[str] = set()
                for source in sources:
                    name = source.document_id
                    if name in taken and name not in mine:
                        reason = f"duplicate document_id {name!r}: another object already has it"
                        name = f"{listed.relative}:{name}"
                        yield Rejected(name, source.content_hash, reason)
                        taken.add(name)
                        continue
                    mine.add(name)
                    taken.add(name)
                    yield replace(source, origin=origin)
        except UnreadDocumentError as error:
            taken.add(listed.relative)
            taken.update(i for i, key in known.items() if key == listed.relative)
            yield Rejected(listed.relative, "", error.reason, unread=True)
