"""Files or objects compared with the documents table, and what is to be said of its texts."""

import hashlib
import os
from collections.abc import Mapping, Sequence

from rag_pipeline.config import CorpusConfig
from rag_pipeline.datamodels import parse_metadata
from rag_pipeline.errors import installation
from rag_pipeline.indexing.objects import (
    compare_objects,
    sidecar,
)
from rag_pipeline.indexing.plans import Plan
from rag_pipeline.loading import Loadable, Rejected, scan
from rag_pipeline.loading.bucket import list_bucket
from rag_pipeline.loading.code import CODE_SUFFIXES
from rag_pipeline.loading.extras import MODULES, is_as_read_here, is_installed, wanted_by
from rag_pipeline.loading.folder import find_files
from rag_pipeline.loading.quality import TextQuality
from rag_pipeline.loading.seen import SeenFiles
from rag_pipeline.loading.sidecar import with_given
from rag_pipeline.store.states import DocumentState
from rag_pipeline.workspace import Workspace

LOADED = "documents.listing.json"
"""Where the digest of the files is kept as the last load found them."""


def plan_documents(workspace: Workspace) -> Plan:
    """Compare the files with what was loaded; hashes those that have changed, parses none.

    Of a bucket's objects only the listing is read, and those that changed are named by key: what
    documents are in them is not known before they are loaded.
    """
    if workspace.config.documents.s3:
        objects = compare_objects(workspace)
        keys = tuple(listed.relative for listed in objects.changed)
        why = _why(objects.for_extra)
        return Plan(keys, tuple(objects.orphaned()), len(objects.unchanged), why=why)
    stale, seen, _ = compare_files(workspace)
    loaded = workspace.documents().state()
    known = set(loaded) | set(workspace.quarantine("documents").state())
    names = tuple(s.document_id for s in stale)
    why = _why(_read_for_extra(stale, loaded))
    return Plan(names, tuple(sorted(known - seen)), len(seen) - len(names), why=why)


def _read_for_extra(
    stale: Sequence[Loadable | Rejected], loaded: Mapping[str, DocumentState]
) -> dict[str, str]:
    """Return the extra that each document is read again for; others are left out."""
    known = (s for s in stale if isinstance(s, Loadable) and s.document_id in loaded)
    wanted = {
        s.document_id: wanted_by(loaded[s.document_id].content_hash, s.content_hash) for s in known
    }
    return {name: extra for name, extra in wanted.items() if extra}


def _why(for_extra: Mapping[str, str]) -> str:
    reasons = []
    for extra in sorted(set(for_extra.values())):
        names = [name for name, wanted in for_extra.items() if wanted == extra]
        kind = "PDF" if all(name.lower().endswith(".pdf") for name in names) else "document"
        many = f"1 {kind} is" if len(names) == 1 else f"{len(names):,} {kind}s are"
        reasons.append(f"{many} read again: the extra {extra!r} was missing and is installed now")
    return "; ".join(reasons)


def loaded_listing(workspace: Workspace) -> str | None:
    """Return the digest of the files as the last load that succeeded found them, if there is one.

    See `listing_digest`.
    """
    listing: str | None = workspace.store.read_json(LOADED)
    return listing


def compare_files(workspace: Workspace) -> tuple[list[Loadable | Rejected], set[str], set[str]]:
    """Return the stale sources, the ids of all sources, and the ids that the tables know."""
    config = workspace.config
    made, refusal = config.documents_fingerprint(), config.refusals_fingerprint()
    loaded = workspace.documents().state()
    refused = workspace.quarantine("documents").state()
    stale: list[Loadable | Rejected] = []
    seen: set[str] = set()
    given = sidecar(config)
    for listed in scan(config.documents_source, config.documents_path, _seen_files(workspace)):
        source = with_given(listed, given)
        name, content_hash = source.document_id, source.content_hash
        seen.add(name)
        # A document of two rows was loaded by two at once; one in both tables was unread last.
        known = (
            is_as_read_here(loaded[name].content_hash, content_hash)
            and loaded[name][1:] == (made, 1)
            and name not in refused
            if name in loaded
            else name in refused and refused[name][:2] == (content_hash, refusal)
        )
        if not known:
            stale.append(source)
    every = set(loaded) | set(refused)
    # What is in a folder that can't be read now is neither changed nor gone.
    unread = tuple(f"{s.document_id}/" for s in stale if isinstance(s, Rejected) and s.unread)
    seen.update(i for i in every if i.startswith(unread))
    return stale, seen, every


def _seen_files(workspace: Workspace) -> SeenFiles:
    """Return what this machine knows of the corpus's files; inodes are those of one machine."""
    documents, root = workspace.config.documents, workspace.config.documents_path
    path = workspace.store.calls_path.with_name("files.sqlite")
    # `resolve()` fails on a path that no file can have, which the scan refuses in words.
    place = f"{workspace.config.corpus} {root.absolute()}"
    return SeenFiles(path, place, str(documents.max_bytes))


def warnings_of(metadata: Mapping[str, object]) -> list[str]:
    """Return what is doubtful about a document's text; [] where nothing was measured."""
    quality = text_quality(metadata)
    return quality.warnings() if quality else []


def text_quality(metadata: Mapping[str, object]) -> TextQuality | None:
    """Return what was measured of a document's text."""
    try:
        return TextQuality.from_json(str(metadata.get("text_quality")))
    except (TypeError, ValueError):
        return None  # or a field of this name that the file itself or a person gave


def text_warnings(workspace: Workspace) -> list[str]:
    """Return a line for every document whose text is doubtful, by document_id."""
    found = []
    for batch in workspace.documents().read(["document_id", "metadata"]):
        for row in batch.to_pylist():
            if doubts := warnings_of(parse_metadata(row["metadata"])):
                found.append(f"{row['document_id']}: {'; '.join(doubts)}")
    return sorted(found)


def code_warning(workspace: Workspace) -> str:
    """Return how many files of source code are cut anywhere for want of the extra `code`."""
    if is_installed("code"):
        return ""
    kinds = workspace.documents().read(["media_type"])
    files = sum(kind in CODE_SUFFIXES.values() for b in kinds for kind in b[0].to_pylist())
    how = f"`{installation('code')}` and run again"
    return f"{files:,} of source code, cut by lines instead of functions: {how}" if files else ""


def listing_digest(config: CorpusConfig) -> str:
    """Hash the names, sizes and times of the files that are documents, and what reads them.

    Of a bucket's objects, keys, sizes and ETags. Opens no file. A folder that can't be read has
    a digest of its own: the load that follows says what is wrong.
    """
    left = {"max_deleted", "processes"}
    written = config.documents.model_dump_json(exclude=left, exclude_none=True)
    digest = hashlib.sha256(written.encode())
    digest.update(config.documents_fingerprint().encode())
    # What was left out for want of an extra can be read once it is there.
    digest.update(" ".join(extra for extra in MODULES if is_installed(extra)).encode())
    if config.sidecar_path is not None and config.sidecar_path.is_file():
        digest.update(config.sidecar_path.read_bytes())
    source = config.documents_source
    if source.s3:
        for listed in list_bucket(source):
            digest.update(repr(listed).encode())
        return digest.hexdigest()[:16]
    root = config.documents_path
    try:
        if root.is_file():
            paths = [str(root)]
        else:
            found, _ = find_files(
                root,
                source.include,
                source.exclude,
                gitignore=source.gitignore,
                follow_links=source.follow_links,
            )
            above = str(root / "_")[:-1]
            paths = [above + f.relative for f in sorted(found)]
    except OSError:
        paths = []
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - of 50,000 files, paths take as long again
        except OSError:
            digest.update(repr((path, None)).encode())
            continue
        digest.update(repr((path, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]
