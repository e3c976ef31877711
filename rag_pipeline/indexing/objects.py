"""A bucket's objects compared with the documents that were read from them.

Each row of the documents and quarantine tables carries its `origin`: key, ETag and size of the
object, and how many documents that held; a document that was not read in whole adds the extra that
it wants. An object is unchanged when as many rows carry exactly that, and the extras are still not
there; after a load that was killed halfway there are fewer, and the object is read again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import UnreadDocumentError
from rag_pipeline.loading import Loadable, Rejected
from rag_pipeline.loading.bucket import Listed, list_bucket, opened
from rag_pipeline.loading.extras import is_installed
from rag_pipeline.loading.sidecar import Given, hashed_with, read_sidecar, with_given
from rag_pipeline.workspace import Workspace


@dataclass(slots=True)
class Objects:
    """What the listing and the tables say of each other."""

    changed: list[Listed]
    unchanged: set[str]
    """The ids of the documents that need not be looked at."""
    for_extra: dict[str, str]
    """The extra that each changed object is read again for, by the object's key."""
    known: dict[str, str]
    """The ids that the tables know, with the key that each was read from, "" for none."""

    def orphaned(self) -> list[str]:
        """Return the known ids whose objects are gone, before any object is read."""
        keys = {listed.relative for listed in self.changed}
        rest = self.known.keys() - self.unchanged
        return sorted(i for i in rest if self.known[i] not in keys and i not in keys)


def sidecar(config: CorpusConfig) -> dict[str, Given]:
    """Return what a file beside the documents says of them, {} without one."""
    return read_sidecar(config.sidecar_path) if config.sidecar_path else {}


def compare_objects(workspace: Workspace) -> Objects:
    """List the bucket and read the tables' origins; copies no object."""
    config = workspace.config
    tables = (
        (workspace.documents(), config.documents_fingerprint()),
        (workspace.quarantine("documents"), config.refusals_fingerprint()),
    )
    by_origin: dict[str, list[str]] = {}
    known: dict[str, str] = {}
    doubtful: set[str] = set()
    for_extra: dict[str, str] = {}
    columns = ["document_id", "fingerprint", "origin"]
    for table, fingerprint in tables:
        for batch in table.read(columns):
            for row in batch.to_pylist():
                origin = row["origin"]
                if row["document_id"] in known:  # two rows, of a load beside another or half done
                    doubtful.add(row["document_id"])
                known[row["document_id"]] = key_of(origin) or known.get(row["document_id"], "")
                if not origin or row["fingerprint"] != fingerprint:
                    continue
                whole, wanted = _without_wanted(origin)
                if wanted and is_installed(wanted):
                    for_extra[json.loads(origin)[0]] = wanted
                by_origin.setdefault(whole, []).append(row["document_id"])
    counts = {tuple(json.loads(o)[:3]): (o, json.loads(o)[3]) for o in by_origin}
    changed: list[Listed] = []
    unchanged: set[str] = set()
    given = sidecar(config)
    for found in list_bucket(config.documents):
        listed = found._replace(etag=hashed_with(found.etag, given.get(found.relative)))
        origin, documents = counts.get(listed[:3], ("", 0))
        mine = by_origin.get(origin, [])
        is_whole = listed.relative not in for_extra
        if origin and len(mine) == documents and doubtful.isdisjoint(mine) and is_whole:
            unchanged.update(mine)
        else:
            changed.append(listed)
            if not origin:
                for_extra.pop(listed.relative, None)
    return Objects(changed, unchanged, for_extra, known)


def with_wanted(origin: str | None, extra: str) -> str | None:
    """Return the origin of a document that was not read in whole for want of an extra."""
    return json.dumps([*json.loads(origin), extra]) if origin and extra else origin


def _without_wanted(origin: str) -> tuple[str, str]:
    values = json.loads(origin)
    return (json.dumps(values[:4]), values[4]) if len(values) > 4 else (origin, "")


def key_of(origin: str | None) -> str:
    """Return the key of the object that an origin names, "" for none."""
    return str(json.loads(origin)[0]) if origin else ""


def rows_of_others(workspace: Workspace, origins: Mapping[str, str | None]) -> set[str]:
    """Return the ids that a row has which was read from another object than these origins name."""
    ids = [document_id for document_id, origin in origins.items() if origin]
    found: set[str] = set()
    for table in (workspace.documents(), workspace.quarantine("documents")):
        for batch in table.read(["document_id", "origin"], ids):
            for row in batch.to_pylist():
                key, own = key_of(row["origin"]), key_of(origins[row["document_id"]])
                if key not in ("", own):
                    found.add(row["document_id"])
    return found


def changed_documents(
    workspace: Workspace, changed: Iterable[Listed], seen: set[str], known: Mapping[str, str]
) -> Iterator[tuple[Loadable | Rejected, str | None]]:
    """Yield the documents of the changed objects with their origins, one object at a time.

    Each must be loaded before the next is asked for. Adds their ids to `seen`, and of an object
    that can't be read those that are `known` to be its. An id that another
    object has already keeps that object's document; the rejected one has no origin, so that its
    object is read again once the other has gone.
    """
    given = sidecar(workspace.config)
    for listed in changed:
        try:
            with opened(workspace.config.documents, listed) as found:
                sources = [with_given(source, given) for source in found]
                origin = listed.origin(len(sources))
                mine: set[str] = set()
                for source in sources:
                    if source.document_id in seen and source.document_id not in mine:
                        reason = f"duplicate document_id {source.document_id!r}: another object "
                        reason += "has it already"
                        name = f"{listed.relative}:{source.document_id}"
                        yield Rejected(name, source.content_hash, reason), None
                        seen.add(name)
                        continue
                    mine.add(source.document_id)
                    seen.add(source.document_id)
                    yield source, origin
        except UnreadDocumentError as error:
            seen.add(listed.relative)
            seen.update(i for i, key in known.items() if key == listed.relative)
            yield Rejected(listed.relative, "", error.reason, unread=True), None
