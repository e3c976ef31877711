"""A release as one file that another machine serves: rows, BM25 index and manifest in a zip.

    bundle.json        format, corpus, the release's manifest, and each file's size and SHA-256
    vectors.arrow      the pinned rows of the vector index, Arrow IPC
    documents.arrow    the pinned documents, as citations show them
    scores.parquet     what the release scored, for the gate
    lexical/...        the BM25 index's folder

Nothing in it is unpickled or executed. Only files that `bundle.json` lists are taken out, under
names and of sizes that were checked before, and each is held against its hash.
"""

import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pyarrow as pa

from rag_pipeline import release as releases
from rag_pipeline.config import STAGES, CorpusConfig
from rag_pipeline.datamodels import DOCUMENTS_SCHEMA, vector_schema
from rag_pipeline.errors import ConfigError, InputError, StoreError
from rag_pipeline.release import Release
from rag_pipeline.release.gate import kept_file
from rag_pipeline.release.manifest import verify
from rag_pipeline.release.settings import ReleasedSettings
from rag_pipeline.search.lexical_index import open_lexical_index
from rag_pipeline.search.vector_index import maintain
from rag_pipeline.store import Store, Table
from rag_pipeline.store.folders import copied, sha256_of
from rag_pipeline.store.lease import lease
from rag_pipeline.workspace import Workspace

FORMAT = 1
_LISTING, _VECTORS, _DOCUMENTS, _SCORES = (
    "bundle.json",
    "vectors.arrow",
    "documents.arrow",
    "scores.parquet",
)
_IMPORTED = "imported.json"
_MOST_LISTING_BYTES = 10_000_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_DAMAGE = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError)
"""What is raised of a zip file with a wrong byte; RuntimeError where it seems encrypted, or packed
by a method that is not known."""


class _Listed(TypedDict):
    bytes: int
    sha256: str


class _Listing(TypedDict):
    format: int
    corpus: str
    release: dict[str, Any]
    files: dict[str, _Listed]
    named: NotRequired[dict[str, dict[str, Any]]]
    """Variants that those of the release name, by section of the corpus file."""


def export(workspace: Workspace, release_id: str, file: Path) -> Release:
    """Write a release into a new file; raise InputError when the file exists.

    Raises StoreError where a file of the release is not as it was released.
    """
    if file.exists():
        raise InputError(f"{file}: exists already; name a new file")
    release = releases.load(workspace, release_id)
    verify(workspace, release)
    pinned = release.pinned
    vectors = workspace.store.table(pinned.vector_table, None)
    partial = file.with_name(f"{file.name}.part")
    try:
        with (
            tempfile.TemporaryDirectory(dir=file.resolve().parent) as name,
            zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        ):
            folder = Path(name)
            schema = _vector_schema(vectors.open(pinned.vector_version).schema)
            _write_rows(vectors, pinned.vector_version, schema, folder / _VECTORS)
            if pinned.documents_version is not None:
                documents, version = workspace.documents(), pinned.documents_version
                _write_rows(documents, version, DOCUMENTS_SCHEMA, folder / _DOCUMENTS)
            scores = workspace.store.read_bytes(kept_file(release_id))
            if scores is not None:
                (folder / _SCORES).write_bytes(scores)
            listed = {n: folder / n for n in (_VECTORS, _DOCUMENTS, _SCORES)}
            listed = {n: path for n, path in listed.items() if path.exists()}
            if pinned.lexical_path is not None:
                index = workspace.store.local_folder(pinned.lexical_path)
                listed |= {
                    f"lexical/{path.relative_to(index).as_posix()}": path
                    for path in sorted(index.rglob("*"))
                    if path.is_file()
                }
            listing = {
                "format": FORMAT,
                "corpus": workspace.config.corpus,
                "release": asdict(replace(release, files={})),
                "files": {n: _described(path) for n, path in listed.items()},
                "named": _named(workspace.config, release.typed_settings()),
            }
            archive.writestr(_LISTING, json.dumps(listing, ensure_ascii=False, indent=1))
            for n, path in listed.items():
                archive.write(path, n)
        partial.rename(file)
    except OSError as error:
        raise StoreError(f"{file}: cannot write the bundle: {error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return release


def minimal_config(file: Path, store: str) -> dict[str, Any]:
    """Return the attributes of a corpus file that serves a bundle, from its manifest."""
    with _opened(file) as archive:
        listing = _read_listing(archive, file)
    release = listing["release"]
    settings, names = release["settings"], release["settings"]["names"]
    sections = listing.get("named", {})
    for stage in STAGES:
        sections.setdefault(f"{stage}s", {})[names[stage]] = settings[stage]
    return {
        "corpus": listing["corpus"],
        "documents": {"path": "documents"},
        "store": store,
        **sections,
        "configurations": [{"name": release["configuration"].replace(".", "_"), **names}],
    }


def _named(config: CorpusConfig, settings: ReleasedSettings) -> dict[str, dict[str, Any]]:
    """Return what a release's variants name, such as a chat model, that the corpus file has."""
    named: dict[str, dict[str, Any]] = {}
    for stage in STAGES:
        for _, section, name in getattr(settings, stage).names():
            if name in (variants := config.section(section)):
                named.setdefault(section, {})[name] = variants[name].model_dump(mode="json")
    return named


def import_release(
    workspace: Workspace, file: Path, waiting: Callable[[str], object] = lambda holder: None
) -> Release:
    """Take a bundle into a store and serve it; return the release, numbered anew.

    Waits while a run or another import is at work on the corpus, and tells `waiting` of it.
    Raises InputError for a file that is torn, altered or no bundle, before anything is changed,
    and StoreError for a store with builds of its own, whose tables it would replace.
    """
    _check_imports_alone(workspace.store)  # nobody waits for a refusal
    with lease(workspace.store, wait=True, waiting=waiting):
        _check_imports_alone(workspace.store)
        return _import(workspace, file)


def _check_imports_alone(store: Store) -> None:
    if store.tables() and store.read_json(_IMPORTED) is None:
        raise StoreError(
            f"{store.url}/{store.corpus}: has builds of its own; import into another store"
        )


def _import(workspace: Workspace, file: Path) -> Release:
    store = workspace.store
    building = store.files.new_folder("lexical/imported")
    try:
        with _opened(file) as archive:
            listing = _read_listing(archive, file)
            if listing["corpus"] != workspace.config.corpus:
                raise InputError(
                    f"{file}: is of the corpus {listing['corpus']!r}, not of "
                    f"{workspace.config.corpus!r}"
                )
            _extract(archive, listing["files"], building, file)
        return _take_in(workspace, listing, building, file)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _take_in(workspace: Workspace, listing: _Listing, folder: Path, file: Path) -> Release:
    store = workspace.store
    release = _manifest(listing["release"], file)
    pinned = release.pinned
    if pinned.lexical_path is not None:
        open_lexical_index(folder / "lexical")
    # Before any table: an import that is stopped on the way can be repeated.
    store.write_json(_IMPORTED, {"file": file.name, "release": release.release_id})
    if pinned.lexical_path is not None and not store.files.has_folder(pinned.lexical_path):
        (folder / "lexical").rename(moved := folder.with_name(f"{folder.name}-index"))
        store.publish_folder(moved, pinned.lexical_path)
    with pa.OSFile(str(folder / _VECTORS)) as source, pa.ipc.open_stream(source) as rows:
        schema = _vector_schema(rows.schema)
        vectors = store.table(pinned.vector_table, schema)
        vectors.overwrite(_batches(rows, schema))
    maintain(vectors)
    documents_version = None
    if (folder / _DOCUMENTS).exists():
        with pa.OSFile(str(folder / _DOCUMENTS)) as source, pa.ipc.open_stream(source) as rows:
            workspace.documents().overwrite(_batches(rows, DOCUMENTS_SCHEMA))
        documents_version = workspace.documents().version
    scores = folder / _SCORES
    return releases.serve_imported(
        workspace,
        replace(
            release,
            pinned=replace(
                pinned, vector_version=vectors.version, documents_version=documents_version
            ),
        ),
        scores.read_bytes() if scores.exists() else None,
    )


def _manifest(record: dict[str, Any], file: Path) -> Release:
    try:
        release = releases.read(record, f"{file}")
    except (StoreError, ConfigError) as error:
        raise InputError(str(error)) from None
    # Both become places in the store.
    for place in (release.pinned.vector_table, release.pinned.lexical_path or "lexical"):
        if not isinstance(place, str) or not _NAME.fullmatch(place) or ".." in place:
            raise InputError(f"{file}: the manifest names {place!r}, which is not a safe name")
    if not re.fullmatch("lexical(/.*)?", release.pinned.lexical_path or "lexical"):
        raise InputError(f"{file}: {release.pinned.lexical_path!r} is no place of a BM25 index")
    return release


# --- rows ---


def _vector_schema(stored: pa.Schema) -> pa.Schema:
    size = stored.field("vector").type.list_size
    return vector_schema(size, "token_vectors" in stored.names)


def _write_rows(table: Table, version: int, schema: pa.Schema, file: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(file), "wb") as sink,
        pa.ipc.new_stream(sink, schema, options=options) as out,
    ):
        stored = set(table.open(version).schema.names)
        names = [name for name in schema.names if name in stored]
        for batch in table.read(names, version=version):
            out.write_batch(_of_schema(batch, schema))


def _batches(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return (_of_schema(batch, schema) for batch in rows)


def _of_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the schema's columns; those it lacks are null."""
    columns = [
        batch.column(field.name)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


# --- the archive ---


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (OSError, *_DAMAGE) as error:
        raise InputError(f"{file}: not a release bundle: {error}") from None


def _read_listing(archive: zipfile.ZipFile, file: Path) -> _Listing:
    try:
        if archive.getinfo(_LISTING).file_size > _MOST_LISTING_BYTES:
            raise InputError(f"{file}: not a release bundle: {_LISTING} is too large")
        listing: _Listing = json.loads(archive.read(_LISTING))
        made, files = listing["format"], listing["files"]
        if not isinstance(made, int) or made > FORMAT:
            raise InputError(
                f"{file}: the bundle has format {made!r}, this version reads up to {FORMAT}; "
                f"upgrade rag_pipeline"
            )
        for name, about in files.items():
            if not _NAME.fullmatch(name) or ".." in name:
                raise InputError(f"{file}: the bundle lists {name!r}, which is not a safe name")
            if archive.getinfo(name).file_size != about["bytes"]:
                raise InputError(f"{file}: {name} is not as large as the bundle says")
        if _VECTORS not in files or not isinstance(listing["release"], dict):
            raise InputError(f"{file}: not a release bundle: no {_VECTORS}")
    except (OSError, KeyError, TypeError, AttributeError, *_DAMAGE) as error:
        raise InputError(f"{file}: not a release bundle: {error}") from None
    return listing


def _extract(archive: zipfile.ZipFile, files: dict[str, _Listed], folder: Path, file: Path) -> None:
    needed, free = sum(about["bytes"] for about in files.values()), shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"{folder}: {file} holds {needed / 1e6:,.0f} MB and only {free / 1e6:,.0f} MB are free"
        )
    for name, about in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with archive.open(name) as source, target.open("wb") as out:
                digest = copied(source, out, about["bytes"])
        except _DAMAGE as error:
            raise InputError(f"{file}: {name} is torn: {error}") from None
        if digest != about["sha256"]:
            raise InputError(f"{file}: {name} is torn or altered: its hash differs")


def _described(file: Path) -> _Listed:
    return {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
