"""Keep documents from outside a corpus, with their source, address, time and query.

    <store>/<corpus>/expansion/   the tables and indexes of only these documents

A new build of the corpus does not change this folder. Deleting the folder deletes the documents.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from threading import Lock

from rag_pipeline.config import CorpusConfig, Expansion
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import InputError, StoreError
from rag_pipeline.indexing import document_rows
from rag_pipeline.store import Store, Table, TableState
from rag_pipeline.store.schemas import DOCUMENTS_SCHEMA
from rag_pipeline.store.store import Freed

PREFIX = "expanded/"
"""Prefix of the ids of kept documents. A corpus's own document may have this prefix too."""
FOLDER = "expansion"
_DAY = 86_400.0
_SLUG_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept document without its text. It was found at a `place` (path or address) and `time`."""

    document_id: str
    content_hash: str
    title: str
    characters: int
    source: str
    place: str
    time: str
    query: str

    @property
    def origin(self) -> dict[str, str]:
        """Return the document's origin for the sources of answers."""
        return {"source": self.source, "place": self.place, "time": self.time, "query": self.query}


def is_expanded(document_id: str) -> bool:
    """Return whether an id has the prefix of kept documents."""
    return document_id.startswith(PREFIX)


def expanded_id(found: Document) -> str:
    """Return `expanded/<hash of place and content>-<slug of the place>`."""
    digest = hashlib.sha256(f"{found.document_id}\0{found.content_hash}".encode()).hexdigest()
    slug = re.sub(r"[^a-z0-9]+", "-", found.document_id.lower().split("://")[-1]).strip("-")
    return f"{PREFIX}{digest[:16]}-{slug[:_SLUG_CHARACTERS].strip('-') or 'document'}"


@dataclass(eq=False)
class ExpandedDocuments:
    """The kept documents of one corpus. Threads and processes may share their store.

    Without `_settings`, expansion is off. Then no document is added and none expires. `_clock`
    returns the time in Unix seconds.
    """

    _config: CorpusConfig
    _settings: Expansion | None
    _clock: Callable[[], float] = time.time
    _lock: Lock = field(default_factory=Lock)

    @cached_property
    def store(self) -> Store:
        """Return the store of the kept documents and their indexes."""
        keep_versions = timedelta(hours=self._config.retention.version_hours)
        return Store(self._config.store_url, f"{self._config.corpus}/{FOLDER}", keep_versions)

    @property
    def table(self) -> Table:
        """Return the table of the kept documents."""
        return self.store.table("documents", DOCUMENTS_SCHEMA)

    def live(self) -> list[Kept]:
        """Return the kept documents that have not expired, newest first."""
        if self._settings is None:
            return self._all()
        first = self._clock() - self._settings.days_to_live * _DAY
        return [kept for kept in self._all() if _seconds(kept.time) > first]

    def expired(self) -> list[Kept]:
        """Return the expired documents."""
        live = {kept.document_id for kept in self.live()}
        return [kept for kept in self._all() if kept.document_id not in live]

    def keep(
        self, found: Sequence[Document], query: str, source: str, taken: Collection[str] = ()
    ) -> list[Kept]:
        """Store the first `documents_per_query` documents. Return the kept documents among these.

        A document that is already kept is not changed. `taken` has the ids of the corpus's own
        documents, which are left out. If there are more than `max_documents`, drop the oldest.
        """
        settings = self._settings
        assert settings is not None
        moment = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        with self._lock:
            known = {kept.document_id: kept for kept in self._all()}
            kept: dict[str, Kept] = {}
            new: list[Document] = []
            for one in found[: settings.documents_per_query]:
                name = expanded_id(one)
                if name in taken:
                    continue
                if name not in known:
                    text = one.text[: settings.max_characters]
                    metadata = {k: v for k, v in one.metadata.items() if k != "expanded"}
                    new.append(replace(one, document_id=name, text=text, metadata=metadata))
                    known[name] = Kept(
                        document_id=name,
                        content_hash=one.content_hash,
                        title=one.title,
                        characters=len(text),
                        source=source,
                        place=one.document_id,
                        time=moment,
                        query=query,
                    )
                kept[name] = known[name]
            if new:
                origins = {name: json.dumps(one.origin) for name, one in kept.items()}
                rows = document_rows(new, self._config.documents_fingerprint(), origins)
                self.table.ensure()
                self.table.replace([d.document_id for d in new], [rows])
                self.table.compact()
            # Read the table again, because other processes may have written to it.
            ordered = self._all()
            excess = [k.document_id for k in ordered[settings.max_documents :]]
            self.drop(excess)
        return [k for name, k in kept.items() if name not in excess]

    def remove(self, document_id: str) -> Kept:
        """Delete one document and return it. Raise InputError if the id is unknown."""
        for kept in self._all():
            if kept.document_id == document_id:
                self.drop([document_id])
                return kept
        raise InputError(
            f"{self._config.corpus}: no expanded document {document_id[:200]!r}; "
            f"`rag expansion list` shows them"
        )

    def clear(self) -> int:
        """Delete all documents and their indexes. Return the number of documents."""
        count = len(self._all())
        Store(self._config.store_url, self._config.corpus).files.remove_folder(FOLDER)
        return count

    def prune(self, state: TableState | None = None) -> list[Kept]:
        """Drop and return expired documents, and documents that the corpus now contains.

        `state` is the state of the corpus's documents table.
        """
        own = set(state or ())
        hashes = {one.content_hash for one in (state or {}).values()}
        gone = self.expired()
        gone += [k for k in self.live() if k.document_id in own or k.content_hash in hashes]
        self.drop([k.document_id for k in gone])
        return gone

    def drop(self, document_ids: Sequence[str]) -> None:
        """Delete the rows of documents in all tables. Unknown ids are ignored."""
        for name in self.store.tables() if document_ids else ():
            table = self.store.table(name, None)
            with suppress(StoreError):
                table.drop(document_ids)

    def collect(self, dry_run: bool) -> list[Freed]:
        """Delete and return expired documents and old versions. With `dry_run`, delete nothing."""
        freed = [
            Freed("expanded document", k.document_id, f"found {k.time[:10]}, expired", k.characters)
            for k in (self.expired() if dry_run else self.prune())
        ]
        tables = [self.store.table(name, None) for name in self.store.tables()]
        size = sum(table.drop_versions(dry_run) for table in tables)
        return freed + ([Freed("versions", "expansion", "superseded", size)] if size else [])

    def _all(self) -> list[Kept]:
        if "documents" not in self.store.tables():  # opening the table would create it
            return []
        columns = ["document_id", "content_hash", "title", "characters", "origin"]
        made = [
            Kept(**{k: v for k, v in row.items() if k != "origin"}, **json.loads(row["origin"]))
            for row in self.table.read_rows(columns)
        ]
        return sorted(made, key=lambda k: (-_seconds(k.time), k.document_id))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
