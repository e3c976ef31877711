"""Read and write LanceDB tables whose rows belong to documents.

LanceDB creates tables and vector indexes. pylance does all other work, because it needs less
processor time.
"""

import os
import random
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from rag_pipeline.errors import StoreError
from rag_pipeline.store.files import Files
from rag_pipeline.store.lance import (
    clear_errors,
    data_files,
    id_filters,
    index_names,
    is_of_store,
    merge,
    one_line,
)
from rag_pipeline.store.states import DocumentState, StateCache, TableState, read_once

if TYPE_CHECKING:
    import lancedb

_IDENTITY = b"rag_pipeline.identity"
KEEP_VERSIONS = timedelta(days=1)
SORTED_ROWS = 10_000
"""Number of rows from which `document_id` gets an index."""
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # index statistics don't need them
_PATIENCE_SECONDS = 120.0
"""Maximum time for which a replacement is tried again while other processes commit."""
_LONGEST_PAUSE_SECONDS = 1.0
_REBASES = 20
"""Maximum number of times that Lance repeats a commit after commits that do not conflict."""


@dataclass(eq=False)
class Table:
    """A LanceDB table whose rows belong to documents."""

    _files: Files
    name: str
    schema: pa.Schema
    _keep_versions: timedelta = KEEP_VERSIONS
    _states: StateCache = field(default_factory=StateCache)
    at: int | None = None
    """The version to read, or None for the newest version."""
    _opened: Any | None = None
    """The open version `at`, if it stays open for many reads."""

    def fixed(self) -> "Table":
        """Return this table pinned to its newest version: all reads see the same rows."""
        return replace(self, at=self.version) if self.exists() else self

    def opened(self, version: int) -> "Table":
        """Return this table at a version that stays open. Each read then saves 5 ms."""
        return replace(self, at=version, _opened=self.dataset(version))

    def ensure(self) -> None:
        """Create the table. Replace an existing table that has other columns."""
        with clear_errors(self.name):
            table = self._created()
            if table is None:
                try:
                    self._files.database.create_table(self.name, schema=self._stamped())
                except ValueError:  # another process was first
                    self.dataset()
            elif not self._fits(table.schema):
                self.overwrite(())

    def _stamped(self) -> pa.Schema:
        return self.schema.with_metadata({_IDENTITY.decode(): uuid4().hex})

    def _fits(self, stored: pa.Schema) -> bool:
        """Return whether stored columns have the schema's names, and vectors of the same length."""
        # Lance returns JSON columns as binary columns, so other types are not compared.
        same = bool(stored.names == self.schema.names)
        if not same or "vector" not in stored.names:
            return same
        return bool(stored.field("vector").type == self.schema.field("vector").type)

    def exists(self) -> bool:
        """Return whether the table has been created."""
        return self._open_if_created() is not None

    def _created(self) -> Any | None:
        """Return the newest version, or None if there is no table."""
        with clear_errors(self.name, "read"):
            try:
                return self._files.open_table(self.name)
            except (ValueError, FileNotFoundError):
                return None

    def _open_if_created(self, version: int | None = None) -> Any | None:
        """Open the newest or a pinned version. Return None if there is no table."""
        version = self.at if version is None else version
        if self._opened is not None and version == self.at:
            return self._opened
        newest = read_once((self._files.address, self.name, "if created"), self._created)
        return newest if newest is None or version is None else self.dataset(version)

    def dataset(self, version: int | None = None) -> Any:
        """Open the newest or a pinned version for reading. Raise StoreError if that fails."""
        wanted = self.at if version is None else version
        key = self._files.address, self.name, wanted
        return read_once(key, lambda: self._open_at(wanted))

    def _open_at(self, version: int | None) -> Any:
        try:
            table = self._files.open_table(self.name, version)
            len(table.schema)  # raises here if the type of a column is unknown
            return table
        except BaseException as error:
            if not is_of_store(error):
                raise
            what = self.name if version is None else f"{self.name} at version {version}"
            raise StoreError(f"{self._files.address}: no table {what}: {one_line(error)}") from None

    def open(self) -> "lancedb.table.Table":
        """Open the newest version for writing. Raise StoreError if that fails."""
        with clear_errors(self.name, "open"):
            return self._files.database.open_table(self.name)

    def has_version(self, version: int, whole: bool = False) -> bool:
        """Return whether a version opens and, if `whole` is True, whether its state is readable."""
        with suppress(StoreError):
            table = self.dataset(version)
            if whole:
                self._read_state(table)
            return True
        return False

    @property
    def version(self) -> int:
        """Return the newest version's number."""
        return int(self.dataset().version)

    @property
    def identity(self) -> str:
        """Return the random id that the table got when it was created."""
        return identity_of(self.dataset().schema)

    def files(self) -> dict[int, set[str]]:
        """Return the files of each existing version, as paths below the table's folder."""
        with clear_errors(self.name, "read"):
            rows = self.dataset().tracked_files().read_all()
        found: dict[int, set[str]] = {}
        for row in rows.select(["version", "path"]).to_pylist():
            found.setdefault(row["version"], set()).add(row["path"])
        return found

    def documents_since(self, known: Collection[str]) -> tuple[set[str], list[str]]:
        """Return the ids of documents with rows outside the `known` files, and all data files."""
        with clear_errors(self.name, "read"):
            lance = self.dataset()
            files = data_files(lance)
            fragments = lance.get_fragments()
            new = [f for f in fragments if not set(known).issuperset(files[f.fragment_id])]
            rows = lance.scanner(columns=["document_id"], fragments=new).to_table() if new else None
        ids = set(rows.column("document_id").unique().to_pylist()) if rows else set[str]()
        return ids, sorted(path for paths in files.values() for path in paths)

    def count(self) -> int:
        """Return the number of rows, or 0 if there is no table."""
        with clear_errors(self.name, "read"):
            table = self._open_if_created()
            return 0 if table is None else int(table.count_rows())

    def state(self, version: int | None = None) -> TableState:
        """Return the content hash, fingerprint and row count of each document's rows.

        If a document's rows differ in hash or fingerprint, its hash and fingerprint are "". The
        document then counts as stale. Return {} if there is no table.
        """
        wanted = self.at if version is None else version

        def read() -> TableState:
            if (table := self._open_if_created(wanted)) is None:
                return {}
            key = (self.name, identity_of(table.schema), int(table.version))
            return self._states.get(key, lambda: self._read_state(table))

        return read_once((self._files.address, self.name, "state", wanted), read)

    def _read_state(self, table: Any) -> dict[str, DocumentState]:
        state: dict[str, DocumentState] = {}
        for row in self._counted(table, ["document_id", "content_hash", "fingerprint"]):
            name, count = row["document_id"], row["count_all"]
            if name in state:
                state[name] = DocumentState("", "", state[name].rows + count)
            else:
                state[name] = DocumentState(row["content_hash"], row["fingerprint"], count)
        return state

    def _counted(self, table: Any, columns: list[str]) -> list[dict[str, Any]]:
        """Return the distinct rows of some columns, each with its number under `count_all`."""
        with clear_errors(self.name, "read"):
            rows = table.to_table(columns)
        groups = rows.group_by(columns, use_threads=False).aggregate([([], "count_all")])
        return list(groups.to_pylist())

    def read(
        self,
        columns: Sequence[str],
        document_ids: Sequence[str] | None = None,
        version: int | None = None,
        batch_rows: int = 4096,
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows of `document_ids`, or of all rows if `document_ids` is None."""
        table = self._open_if_created(version)
        if table is None:
            return
        for where in [None] if document_ids is None else id_filters(document_ids):
            with clear_errors(self.name, "read"):
                yield from table.to_batches(list(columns), where, batch_size=batch_rows)

    def read_rows(
        self,
        columns: Sequence[str],
        document_ids: Sequence[str] | None = None,
        version: int | None = None,
        batch_rows: int = 4096,
    ) -> Iterator[dict[str, Any]]:
        """Yield the same rows as `read`, as dictionaries by column name."""
        for batch in self.read(columns, document_ids, version, batch_rows):
            yield from batch.to_pylist()

    def replace(self, document_ids: Sequence[str], batches: Iterable[pa.RecordBatch]) -> int:
        """Replace all rows of these documents, and return the number of new rows.

        One commit deletes the old rows and adds the new rows. Even after a crash, no version mixes
        old and new rows of a document. If another process commits first, repeat the commit on the
        newer version. Raise StoreError if that fails for 2 minutes.
        """
        given = list(batches)
        rows = pa.Table.from_batches(given, self.schema) if given else None
        with clear_errors(self.name):
            from lance.fragment import write_fragments

            written: list[Any] = []
            until, pause = time.monotonic() + _PATIENCE_SECONDS, 0.02
            while time.monotonic() < until:
                lance = self.dataset()
                if rows and not written:
                    written = write_fragments(rows, lance)
                if self._committed(lance, document_ids, written):
                    return len(rows or ())
                time.sleep(random.uniform(0, pause))
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        raise StoreError(
            f"{self.name}: other processes wrote to this table for {_PATIENCE_SECONDS:g} s without "
            f"a pause; end them and run again"
        )

    def _committed(self, lance: Any, document_ids: Sequence[str], written: list[Any]) -> bool:
        """Commit a replacement on this version. Return False if another commit was first.

        Each replacement also lists the first fragment as changed. Lance then refuses the later of
        two replacements, even if both only add rows of one new document. A table without fragments
        is overwritten. Lance refuses an overwrite after any other commit.
        """
        from lance import LanceOperation
        from lance.commit import CommitConflictError

        try:
            ids = pa.table({"document_id": pa.array(document_ids, pa.string())})
            deletion, _ = (
                lance.merge_insert("document_id").when_matched_delete().execute_uncommitted(ids)
            )
            change, retries = deletion.operation, _REBASES
            changed = {f.id for f in change.updated_fragments} | set(change.removed_fragment_ids)
            if not changed and not written:
                return True
            fragments = lance.get_fragments()
            if not fragments:
                change, retries = LanceOperation.Overwrite(lance.schema, written), 0
            else:
                change.new_fragments = written
                if fragments[0].fragment_id not in changed:
                    change.updated_fragments.append(fragments[0].metadata)
            lance.commit(lance, change, read_version=lance.version, max_retries=retries)
        except CommitConflictError:
            return False
        return True

    def overwrite(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Replace the table's columns and rows by a new version. Pinned versions stay."""
        with clear_errors(self.name):
            self._files.database.create_table(
                self.name,
                pa.RecordBatchReader.from_batches(self.schema, batches),
                schema=self._stamped(),
                mode="overwrite",
            )

    def drop(self, document_ids: Sequence[str]) -> None:
        """Delete all rows of these documents in one commit."""
        if document_ids:
            self.replace(document_ids, ())

    def compact(self) -> None:
        """Merge fragments if there are many, and drop old versions that are not pinned.

        If another process commits meanwhile, the next `compact` merges the fragments of both.
        """
        with clear_errors(self.name):
            from lance.commit import CommitConflictError

            with suppress(CommitConflictError):
                merge(self.dataset())
            merged = self.dataset()
            if merged.count_rows() >= SORTED_ROWS and "document_id" not in index_names(merged):
                merged.create_scalar_index("document_id", "BTREE")
        self.drop_versions()

    def drop_versions(self, dry_run: bool = False) -> int:
        """Drop unpinned versions older than the retention time, and return the bytes freed.

        If `dry_run` is True, drop nothing and return the number of bytes that would be freed.
        """
        with clear_errors(self.name):
            lance = self.dataset()
            clean = lance.explain_cleanup_old_versions if dry_run else lance.cleanup_old_versions
            done = clean(self._keep_versions, error_if_tagged_old_versions=False)
            return int((done.stats if dry_run else done).bytes_removed)

    def examine(self) -> TableState:
        """Read the newest version's state from its files, or raise StoreError if a file is torn."""
        with clear_errors(self.name, "read"):
            table = self.dataset()
            table.validate()
            return self._read_state(table)

    def duplicated(self) -> list[str]:
        """Return the sorted ids of the documents with duplicate rows."""
        table = self.dataset()
        columns = [name for name in ("document_id", "chunk_id") if name in table.schema.names]
        counted = self._counted(table, columns)
        return sorted({row["document_id"] for row in counted if row["count_all"] > 1})

    def last_readable(self) -> int | None:
        """Return the newest readable version, or None if there is none."""
        try:
            with clear_errors(self.name, "read"):
                versions = [int(v["version"]) for v in self.dataset().versions()]
        except StoreError:
            return None
        return next((v for v in sorted(versions, reverse=True) if self.has_version(v, True)), None)

    def restore(self, version: int) -> None:
        """Make the content of an earlier version the newest version."""
        with clear_errors(self.name):
            self.dataset(version).restore()

    def pin(self, tag: str, version: int) -> None:
        """Tag a version, which protects it from clean-up. Move the tag if it exists."""
        with clear_errors(self.name):
            tags = self.dataset().tags
            try:
                tags.create(tag, version)
            except ValueError:  # it exists, perhaps since a moment ago
                if tag not in tags.list():
                    raise
                tags.update(tag, version)

    def unpin(self, tag: str) -> None:
        """Remove a tag, so that the next clean-up may drop its version."""
        with clear_errors(self.name):
            tags = self.dataset().tags
            if tag in tags.list():
                tags.delete(tag)

    def pins(self) -> dict[str, int]:
        """Return the pinned versions by tag."""
        with clear_errors(self.name, "read"):
            return {name: int(tag["version"]) for name, tag in self.dataset().tags.list().items()}


def identity_of(schema: pa.Schema) -> str:
    """Return the random id in the schema of a table."""
    return str(schema.metadata[_IDENTITY].decode())
