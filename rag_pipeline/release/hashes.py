"""The hashes of all files that a release stands on: in its manifest, and held against the files."""

from collections.abc import Iterator

from rag_pipeline.errors import StoreError
from rag_pipeline.release.manifest import Release
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store import Table
from rag_pipeline.store.hashes import FileHash, Hashes
from rag_pipeline.workspace import Workspace


def hash_files(workspace: Workspace, pinned: Pinned) -> Hashes:
    """Return the hashes of the files of the table versions that a release is about to pin.

    Those that are new are read; the others keep the hash that they were given when they were new,
    so that what has rotted since is told from what was written. (A lexical index has its own list.)
    """
    found: dict[str, FileHash] = {}
    for table, version in pinned_tables(workspace, pinned):
        known = workspace.store.hash_table(table.name)
        paths = (f"tables/{table.name}.lance/{path}" for path in table.files()[version])
        found |= {path: known[path] for path in paths}
    return found


def pinned_tables(workspace: Workspace, pinned: Pinned) -> Iterator[tuple[Table, int]]:
    """Yield the tables that builds lie in, with the versions that are pinned."""
    yield workspace.store.table(pinned.vector_table, None), pinned.vector_version
    if pinned.documents_version is not None:
        yield workspace.documents(), pinned.documents_version


def verify(workspace: Workspace, release: Release) -> None:
    """Raise StoreError where a file that the release stands on is not as it was released."""
    changed = workspace.store.changed_files(release.files)
    if release.pinned.lexical_path is not None:
        workspace.store.files.verify_folder(release.pinned.lexical_path)
    if changed:
        raise StoreError(
            f"{workspace.config.corpus}: {release.release_id} is not whole: {len(changed)} of its "
            f"files are gone or altered ({', '.join(changed[:3])}); run: rag doctor --full --repair"
        )
