"""Export a release as one zip file, and import it into the store of another machine.

    bundle.json        format, corpus, manifest, size and SHA-256 of each file, and the variants
                       that the release's settings name, by section of the corpus file
    vectors.arrow      pinned rows of the vector index, Arrow IPC
    documents.arrow    pinned documents
    scores.parquet     the release's scores, for the gate
    lexical/...        the folder of the BM25 index

The import unpickles and executes nothing. It extracts only the files that `bundle.json` lists. It
checks their names and sizes before, and their hashes afterwards.
"""

import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_pipeline.config import STAGES, CorpusConfig, parse_config
from rag_pipeline.errors import ConfigError, InputError, StoreError
from rag_pipeline.release.bundle_content import (
    DOCUMENTS,
    SCORES,
    VECTORS,
    WRONG,
    check_content,
    stored_schema,
    with_schema,
)
from rag_pipeline.release.gate import kept_file
from rag_pipeline.release.manifest import Release, ReleaseSettings, load, read, verify
from rag_pipeline.release.publishing import serve_imported
from rag_pipeline.release.trust import foreign_settings, refuse_variables
from rag_pipeline.search.vector_index import maintain
from rag_pipeline.store import Store, Table
from rag_pipeline.store.folders import copied, sha256_of
from rag_pipeline.store.lease import lease
from rag_pipeline.store.schemas import DOCUMENTS_SCHEMA
from rag_pipeline.workspace import Workspace

FORMAT = 2
_LISTING = "bundle.json"
IMPORTED = "imported.json"
_MAX_LISTING_BYTES = 10_000_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_DAMAGE = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError)
"""Errors that `zipfile` raises for a damaged file or an unknown compression."""


def export(workspace: Workspace, release_id: str, file: Path) -> Release:
    """Write a release into a new file, and return the release.

    Raise InputError if the file exists. Raise StoreError if a file of the release is missing or
    altered.
    """
    if file.exists():
        raise InputError(f"{file} exists already; name a new file")
    release = load(workspace, release_id)
    verify(workspace, release)
    partial = file.with_name(f"{file.name}.part")
    try:
        with (
            tempfile.TemporaryDirectory(dir=file.resolve().parent) as folder,
            zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        ):
            files = _write_files(workspace, release, Path(folder))
            settings = dict(release.settings)
            if workspace.config.access is not None:
                settings["access"] = workspace.config.access.model_dump(mode="json")
            listing = {
                "format": FORMAT,
                "corpus": workspace.config.corpus,
                "release": asdict(replace(release, files={}, settings=settings)),
                "files": {
                    name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
                    for name, path in files.items()
                },
                "named": _named(workspace.config, release.typed_settings()),
            }
            archive.writestr(_LISTING, json.dumps(listing, ensure_ascii=False, indent=1))
            for name, path in files.items():
                archive.write(path, name)
        partial.rename(file)
    except OSError as error:
        raise StoreError(f"{file}: cannot write the bundle: {error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return release


def _write_files(workspace: Workspace, release: Release, folder: Path) -> dict[str, Path]:
    """Write the tables of a release to `folder`. Return all files, by name in the bundle."""
    pinned, store = release.pinned, workspace.store
    vectors, version = store.table(pinned.vector_table, None), pinned.vector_version
    schema = stored_schema(vectors.dataset(version).schema)
    files = {VECTORS: folder / VECTORS}
    _write_rows(vectors, version, schema, files[VECTORS])
    if pinned.documents_version is not None:
        files[DOCUMENTS] = folder / DOCUMENTS
        documents = workspace.documents()
        _write_rows(documents, pinned.documents_version, DOCUMENTS_SCHEMA, files[DOCUMENTS])
    scores = store.read_bytes(kept_file(release.release_id))
    if scores is not None:
        files[SCORES] = folder / SCORES
        files[SCORES].write_bytes(scores)
    if pinned.lexical_path is not None:
        index = store.local_folder(pinned.lexical_path)
        for path in sorted(filter(Path.is_file, index.rglob("*"))):
            files[f"lexical/{path.relative_to(index).as_posix()}"] = path
    return files


def minimal_config(file: Path, store: str) -> dict[str, Any]:
    """Return the content of a corpus file that serves a bundle."""
    with _opened(file) as archive:
        listing = _read_listing(archive, file)
    return _minimal_config(listing, store)


def foreign_endpoints(file: Path, own: CorpusConfig | None) -> list[str]:
    """Return a line for each part of a bundle with an address or variable that `own` lacks."""
    with _opened(file) as archive:
        listing = _read_listing(archive, file)
    settings = dict(_manifest(listing["release"], file).typed_settings())
    named = parse_config(_minimal_config(listing, "store"))
    variants = {section: named.section(section) for section in listing["named"]}
    return foreign_settings({"release": settings, **variants}, dict(own or {}))


def _minimal_config(listing: Mapping[str, Any], store: str) -> dict[str, Any]:
    """Return the content of a corpus file. Raise an error of WRONG if the listing is damaged."""
    release, sections = listing["release"], listing["named"]
    settings, names = release["settings"], release["settings"]["names"]
    for stage in STAGES:
        sections.setdefault(f"{stage}s", {})[names[stage]] = settings[stage]
    if others := sections.keys() - {"chats", *(f"{stage}s" for stage in STAGES)}:
        raise ValueError(f"it has settings of: {', '.join(sorted(others))}")
    return {
        "corpus": listing["corpus"],
        "documents": {"path": "documents"},
        "store": store,
        **sections,
        "configurations": [{"name": release["configuration"].replace(".", "_"), **names}],
    }


def _named(config: CorpusConfig, settings: ReleaseSettings) -> dict[str, dict[str, Any]]:
    """Return the variants that a release's settings name, such as chat models, by section."""
    named: dict[str, dict[str, Any]] = {}
    for stage in STAGES:
        for _, section, name in getattr(settings, stage).names():
            if name in (variants := config.section(section)):
                named.setdefault(section, {})[name] = variants[name].model_dump(mode="json")
    return named


@contextmanager
def extracted(file: Path) -> Iterator[tuple[str, Release, Path]]:
    """Yield a bundle's corpus and release, and a temporary folder with its checked tables."""
    with _opened(file) as archive, tempfile.TemporaryDirectory() as folder:
        listing = _read_listing(archive, file)
        tables = {n: f for n, f in listing["files"].items() if n in (VECTORS, DOCUMENTS)}
        _extract(archive, tables, Path(folder), file)
        yield listing["corpus"], _manifest(listing["release"], file), Path(folder)


def import_release(
    workspace: Workspace,
    file: Path,
    waiting: Callable[[str], object] = lambda holder: None,
    *,
    trust_endpoints: bool = False,
) -> Release:
    """Import a bundle into a store, serve it, and return the release with its new id.

    Wait while a run or another import holds the lease, and report the holder to `waiting`. Raise
    InputError if the file is damaged or of another corpus. If `trust_endpoints` is False, also
    raise InputError for an address or variable that the corpus file does not contain. Raise
    StoreError if the store has its own builds, because the import would replace their tables.
    """
    if not trust_endpoints:
        refuse_foreign(file, foreign_endpoints(file, workspace.config))
    _refuse_own_builds(workspace.store)  # refuse before waiting
    with lease(workspace.store, wait=True, waiting=waiting):
        _refuse_own_builds(workspace.store)
        return _import(workspace, file)


def refuse_foreign(file: Path, lines: Sequence[str]) -> None:
    """Raise InputError if `lines`, the result of `foreign_endpoints`, is not empty."""
    if lines:
        shown = "".join(f"\n  {line}" for line in lines)
        raise InputError(
            f"{file}: its settings contain addresses or variables that your corpus file lacks. "
            f"The addresses would get questions and keys:{shown}\nIf you trust all of them, add "
            f"--trust-endpoints"
        )


def _refuse_own_builds(store: Store) -> None:
    if store.tables() and store.read_json(IMPORTED) is None:
        place = f"{store.url}/{store.corpus}"
        raise StoreError(f"{place} has its own builds; import into another store")


def _import(workspace: Workspace, file: Path) -> Release:
    store = workspace.store
    building = store.files.new_folder("lexical/imported")
    try:
        with _opened(file) as archive:
            listing = _read_listing(archive, file)
            if listing["corpus"] != workspace.config.corpus:
                own = workspace.config.corpus
                raise InputError(f"{file}: belongs to corpus {listing['corpus']!r}, not {own!r}")
            _extract(archive, listing["files"], building, file)
        return _write_builds(workspace, listing, building, file)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _write_builds(
    workspace: Workspace, listing: Mapping[str, Any], folder: Path, file: Path
) -> Release:
    store = workspace.store
    release = _manifest(listing["release"], file)
    pinned = release.pinned
    check_content(release, folder, file)
    # With this file before any table, an interrupted import can be repeated.
    store.write_json(IMPORTED, {"file": file.name, "release": release.release_id})
    if pinned.lexical_path is not None and not store.files.has_folder(pinned.lexical_path):
        (folder / "lexical").rename(moved := folder.with_name(f"{folder.name}-index"))
        store.publish_folder(moved, pinned.lexical_path)
    vectors = _written_table(store, pinned.vector_table, folder / VECTORS)
    maintain(vectors)
    documents_version = None
    if (folder / DOCUMENTS).exists():
        documents_version = _written_table(store, "documents", folder / DOCUMENTS).version
    pinned = replace(pinned, vector_version=vectors.version, documents_version=documents_version)
    scores = (folder / SCORES).read_bytes() if (folder / SCORES).exists() else None
    return serve_imported(workspace, replace(release, pinned=pinned), scores)


def _manifest(record: dict[str, Any], file: Path) -> Release:
    try:
        release = read(record, "the release")
        engine = release.typed_settings().retriever.lexical_engine
    except (StoreError, ConfigError) as error:
        raise InputError(f"{file}: {error}") from None
    # Both become paths in the store.
    for place in (release.pinned.vector_table, release.pinned.lexical_path or "lexical"):
        if not _NAME.fullmatch(place) or ".." in place:
            raise InputError(f"{file}: the manifest names {place!r}, which is not a safe name")
    if not re.fullmatch("lexical(/.*)?" if engine else "", release.pinned.lexical_path or ""):
        raise InputError(f"{file}: {release.pinned.lexical_path!r} is not the path of a BM25 index")
    return release


# --- rows ---


def _write_rows(table: Table, version: int, schema: pa.Schema, file: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(file), "wb") as sink,
        pa.ipc.new_stream(sink, schema, options=options) as out,
    ):
        for batch in table.read(schema.names, version=version):
            out.write_batch(with_schema(batch, schema))


def _written_table(store: Store, name: str, file: Path) -> Table:
    """Replace the rows of a store's table by the rows of a file, and return the table."""
    with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as rows:
        is_documents = file.name == DOCUMENTS
        schema = DOCUMENTS_SCHEMA if is_documents else stored_schema(rows.schema)
        table = store.table(name, schema)
        table.overwrite(with_schema(batch, schema) for batch in rows)
    return table


# --- the archive ---


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (OSError, *_DAMAGE) as error:
        raise InputError(f"{file}: not a release bundle: {error}") from None


def _read_listing(archive: zipfile.ZipFile, file: Path) -> dict[str, Any]:
    try:
        if archive.getinfo(_LISTING).file_size > _MAX_LISTING_BYTES:
            raise InputError(f"{file}: not a release bundle: {_LISTING} is too large")
        listing: dict[str, Any] = json.loads(archive.read(_LISTING))
        files = listing["files"]
        if listing["format"] != FORMAT:
            formats = f"bundle format {listing['format']!r}, this version reads {FORMAT}"
            raise InputError(f"{file}: {formats}; export the release again with this version")
        for name, about in files.items():
            if not _NAME.fullmatch(name) or ".." in name:
                raise InputError(f"{file}: the bundle lists {name!r}, which is not a safe name")
            member = archive.getinfo(name)
            if member.compress_type != zipfile.ZIP_STORED:
                raise InputError(f"{file}: {name} is compressed, but bundles are not compressed")
            if member.file_size != about["bytes"]:
                raise InputError(f"{file}: the size of {name} differs from {_LISTING}")
        refuse_variables([listing["release"], listing["named"]], f"{file}")
        _manifest(listing["release"], file)
        _minimal_config(listing, "store")
        if VECTORS not in files:
            raise InputError(f"{file}: not a release bundle: no {VECTORS}")
    except (OSError, *WRONG, *_DAMAGE) as error:
        raise InputError(f"{file}: not a release bundle: {error}") from None
    return listing


def _extract(archive: zipfile.ZipFile, files: Mapping[str, Any], folder: Path, file: Path) -> None:
    needed, free = sum(about["bytes"] for about in files.values()), shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"{folder}: {file} needs {needed / 1e6:,.0f} MB, but {free / 1e6:,.0f} MB are free"
        )
    for name, about in files.items():
        target = folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, target.open("wb") as out:
                digest = copied(source, out, about["bytes"])
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise InputError(f"{file}: {name} is a file and a folder") from None
        except _DAMAGE as error:
            raise InputError(f"{file}: {name} is incomplete: {error}") from None
        if digest != about["sha256"]:
            raise InputError(f"{file}: {name} is incomplete or altered: its hash differs")
