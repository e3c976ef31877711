"""The manifests of the releases, and which of them is served: what is written in the store."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rag_pipeline.errors import ConfigError, NotReleasedError, RagPipelineError, StoreError
from rag_pipeline.release.settings import ReleasedSettings, read_settings
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store import Table
from rag_pipeline.store.hashes import FileHash, Hashes
from rag_pipeline.workspace import Workspace

FORMAT = 1
CURRENT = "releases/current.json"


@dataclass(frozen=True, slots=True)
class Release:
    """One manifest: what is served, from which builds, and why it was chosen."""

    release_id: str
    created: str
    configuration: str
    settings: Mapping[str, Any]
    run_digest: str
    pinned: Pinned
    metrics: Mapping[str, Any]
    reasons: tuple[str, ...]
    previous: str | None
    gate: Mapping[str, Any] = field(default_factory=dict)
    files: Hashes = field(default_factory=dict)
    """The hash of every file of its tables, by path; none in those of earlier versions."""
    format: int = FORMAT

    def typed_settings(self) -> ReleasedSettings:
        """Return the settings; raise ConfigError where this environment can't read them."""
        return read_settings(self.settings, self.release_id)

    @property
    def digest(self) -> str:
        """Hash what is served; of settings that this environment can't read, only the run."""
        with suppress(ConfigError):
            return self.typed_settings().digest(self.run_digest)
        return self.run_digest


class Pointer(NamedTuple):
    """`releases/current.json` as it was read, with the tag that changes with it."""

    record: Mapping[str, Any] | None
    tag: str | None

    @property
    def release_id(self) -> str | None:
        """Return what is served, None before the first release."""
        return self.record["release_id"] if self.record else None


def current(workspace: Workspace) -> Release:
    """Return the release that is served; raise NotReleasedError when there is none."""
    release_id = current_id(workspace)
    if release_id is None:
        raise NotReleasedError(
            f"{workspace.config.corpus}: nothing has been released yet; run: rag run "
            f"{workspace.config.where}"
        )
    return load(workspace, release_id)


def load(workspace: Workspace, release_id: str) -> Release:
    """Return one release's manifest."""
    named = re.fullmatch(r"release-\d+", release_id)
    record = workspace.store.read_json(manifest_file(release_id)) if named else None
    if record is None:
        known = ", ".join(r.release_id for r in history(workspace)) or "none"
        raise NotReleasedError(
            f"{workspace.config.corpus}: no release {release_id!r}; there are: {known}"
        )
    return read(record, f"{workspace.config.corpus}: release {release_id}")


def read(record: Any, where: str) -> Release:
    """Return the release of a manifest's content; `where` is what errors call it."""
    made = record.get("format") if isinstance(record, dict) else None
    if isinstance(made, int) and made > FORMAT:
        raise ConfigError(
            f"{where} has format {made}, this version reads up to {FORMAT}; upgrade rag_pipeline"
        )
    if made != FORMAT:
        raise StoreError(f"{where}: not a manifest (format {made!r}); see `rag doctor`")
    try:
        pinned, reasons = Pinned(**record["pinned"]), tuple(record["reasons"])
        return Release(**{**record, "pinned": pinned, "reasons": reasons})
    except (TypeError, KeyError) as error:
        raise StoreError(f"{where}: not a manifest ({error}); see `rag doctor`") from None


def names(workspace: Workspace) -> list[str]:
    """Return the ids of all releases whose manifests are there, readable or not; oldest first."""
    found = [n.removesuffix(".json") for n in workspace.store.list("releases")]
    return sorted(n for n in found if re.fullmatch(r"release-\d+", n))


def history(workspace: Workspace) -> list[Release]:
    """Return all releases, newest first."""
    return [load(workspace, release_id) for release_id in reversed(names(workspace))]


def readable(workspace: Workspace) -> Iterator[Release]:
    """Yield the releases whose manifests can be read, newest first."""
    for release_id in reversed(names(workspace)):
        with suppress(RagPipelineError):
            yield load(workspace, release_id)


def manifest_file(release_id: str) -> str:
    """Return where a release's manifest stands in the store."""
    return f"releases/{release_id}.json"


def current_id(workspace: Workspace) -> str | None:
    """Return the id of the release that is served, None when there is none."""
    current: dict[str, Any] = workspace.store.read_json(CURRENT) or {}
    return current.get("release_id")


def next_id(workspace: Workspace) -> str:
    """Return the id after the last one that is there."""
    numbers = [int(name.removeprefix("release-")) for name in names(workspace)]
    return f"release-{max(numbers, default=0) + 1:06d}"


# --- the files of a release ---


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
