"""Read releases from the store: manifests, their settings, and the served release."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rag_pipeline.config import (
    Access,
    Answers,
    Chunking,
    Contextualizer,
    CorpusConfig,
    Embedding,
    Reranker,
    Retriever,
    Settings,
    fingerprint,
)
from rag_pipeline.config.calibration import Calibration
from rag_pipeline.config.models import ChatVariant
from rag_pipeline.errors import (
    ConfigError,
    NotReleasedError,
    RagPipelineError,
    StoreError,
    UnknownReleaseError,
    first_problem,
)
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store import Table
from rag_pipeline.store.hashes import Hashes
from rag_pipeline.workspace import Workspace


class ReleaseSettings(BaseModel):
    """The settings of one configuration and its answers, with the chat models by name."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    chunking: Chunking
    contextualizer: Contextualizer
    embedding: Embedding
    retriever: Retriever
    reranker: Reranker
    reranker_chats: dict[str, ChatVariant] = Field(default={})
    answers: Answers
    answers_chats: dict[str, ChatVariant] = Field(default={})
    calibration: Calibration | None = None
    """The calibration of the release's run. The corpus file has no such setting."""
    access: Access | None = None
    """The access rules of an imported bundle. The rules in the corpus file override them."""

    def digest(self, run_digest: str) -> str:
        """Return a hash of a run's digest and of the settings of its answers."""
        return fingerprint(run_digest, self.answers, self.answers_chats)


def record_chats(settings: Settings, config: CorpusConfig) -> dict[str, Any]:
    """Return the chat models that some settings name, by name, as JSON values."""
    return {name: config.chat(name).model_dump(mode="json") for name in settings.named_chats()}


def read_settings(record: Any, release_id: str) -> ReleaseSettings:
    """Parse the settings of a manifest. Raise ConfigError if a method is not installed."""
    try:
        return ReleaseSettings.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        place = f"{release_id}: settings.{'.'.join(map(str, first['loc']))}"
        advice = "install the missing package, or make a new release with `rag run`"
        raise ConfigError(f"{place}: {first['msg']}; {advice}") from None


FORMAT = 2
CURRENT = "releases/current.json"
ROLLED_BACK = "rolled back on {0}: answers come from {1} of {2}, without newer documents"
ROLLED_BACK_ONLY = ROLLED_BACK.partition(",")[0]


@dataclass(frozen=True, slots=True)
class Release:
    """One manifest: a configuration, its pinned builds, and the reasons for the choice."""

    release_id: str
    created: str
    configuration: str
    settings: Mapping[str, Any]
    run_digest: str
    pinned: Pinned
    metrics: Mapping[str, Any]
    reasons: tuple[str, ...]
    previous: str | None
    gate: Mapping[str, Any]
    files: Hashes
    """SHA-256 and size of every file of the pinned tables, by path in the store."""
    format: int = FORMAT
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def typed_settings(self) -> ReleaseSettings:
        """Parse the settings. Raise ConfigError if a method is not installed."""
        return read_settings(self.settings, self.release_id)

    @property
    def digest(self) -> str:
        """Return a hash of the run and the settings of its answers.

        If a method of the settings is not installed, return the digest of the run.
        """
        with suppress(ConfigError):
            return self.typed_settings().digest(self.run_digest)
        return self.run_digest


_RELEASE = TypeAdapter(Release)


def current(workspace: Workspace) -> Release:
    """Return the served release. Raise NotReleasedError if there is none."""
    release_id = current_id(workspace)
    if release_id is None:
        corpus, file = workspace.config.corpus, workspace.config.where
        raise NotReleasedError(f"{corpus}: nothing has been released yet; run: rag run {file}")
    return load(workspace, release_id)


def load(workspace: Workspace, release_id: str) -> Release:
    """Return a release by its id. Raise UnknownReleaseError if there is no such release."""
    corpus = workspace.config.corpus
    named = re.fullmatch(r"release-\d+", release_id)
    record = workspace.store.read_json(manifest_file(release_id)) if named else None
    if record is None:
        known = ", ".join(r.release_id for r in history(workspace)) or "none"
        raise UnknownReleaseError(f"{corpus}: no release {release_id!r}; there are: {known}")
    return read(record, f"{corpus}: release {release_id}")


def read(record: Any, where: str) -> Release:
    """Parse a manifest. Raise StoreError, whose message starts with `where`, if it is invalid."""
    found = record.get("format") if isinstance(record, dict) else None
    if found != FORMAT:
        formats = f"manifest format {found!r}, this version reads {FORMAT}"
        raise StoreError(f"{where}: {formats}; run `rag doctor --repair`, then `rag run`")
    try:
        return _RELEASE.validate_python(record)
    except ValidationError as error:
        told = f"{where}: not a manifest ({first_problem(error)}); see `rag doctor`"
        raise StoreError(told) from None


def names(workspace: Workspace) -> list[str]:
    """Return the ids of all releases in the store, oldest first. Include unreadable releases."""
    found = [n.removesuffix(".json") for n in workspace.store.list("releases")]
    return sorted(n for n in found if re.fullmatch(r"release-\d+", n))


def history(workspace: Workspace) -> list[Release]:
    """Return all releases, newest first. Raise StoreError if a manifest is unreadable."""
    return [load(workspace, release_id) for release_id in reversed(names(workspace))]


def readable(workspace: Workspace) -> Iterator[Release]:
    """Yield the releases with a readable manifest, newest first."""
    for release_id in reversed(names(workspace)):
        with suppress(RagPipelineError):
            yield load(workspace, release_id)


def manifest_file(release_id: str) -> str:
    """Return the path of a release's manifest in the store."""
    return f"releases/{release_id}.json"


def current_id(workspace: Workspace) -> str | None:
    """Return the id of the served release, or None if there is none."""
    return pointer(workspace).get("release_id")


def pointer(workspace: Workspace) -> dict[str, Any]:
    """Return the content of `current.json`, or {} if there is none."""
    return checked_pointer(workspace.store.read_json(CURRENT))


def checked_pointer(content: Any) -> dict[str, Any]:
    """Return the content of `current.json`. Raise StoreError if it names no release."""
    if content is None:
        return {}
    is_right = isinstance(content, dict) and isinstance(content.get("release_id"), str)
    is_right = is_right and isinstance(content.get("made", 0), int)
    if not is_right or not isinstance(content.get("rolled_back"), str | None):
        raise StoreError(f"{CURRENT} names no release; run: rag doctor --repair")
    return dict(content)


def rollback_note(release: Release, content: Mapping[str, Any]) -> str:
    """Return a sentence about a rollback to the release, or "". `content` is the `pointer`."""
    since = content.get("rolled_back")
    if not since or content["release_id"] != release.release_id:
        return ""
    told = ROLLED_BACK if content.get("lacks_newer", True) else ROLLED_BACK_ONLY
    return told.format(since[:10], release.release_id, release.created[:10])


def made(workspace: Workspace) -> int:
    """Return the number of all releases so far, also if the newest manifest was deleted."""
    numbers = (int(name.removeprefix("release-")) for name in names(workspace))
    return max(int(pointer(workspace).get("made", 0)), *numbers, 0)


def next_id(workspace: Workspace) -> str:
    """Return the id of the next release, such as `release-000004`."""
    return f"release-{made(workspace) + 1:06d}"


# --- the files of a release ---


def hash_files(workspace: Workspace, pinned: Pinned) -> Hashes:
    """Return the hashes of all files in the pinned table versions.

    Only new files are read. Older files keep their first hash, which reveals later corruption. A
    lexical index has its own list of hashes.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for table, version in pinned_tables(workspace, pinned):
        known = workspace.store.hash_table(table.name)
        paths = (f"tables/{table.name}.lance/{path}" for path in table.files()[version])
        found |= {path: known[path] for path in paths}
    return found


def pinned_tables(workspace: Workspace, pinned: Pinned) -> Iterator[tuple[Table, int]]:
    """Yield the vector and documents tables with their pinned versions."""
    yield workspace.store.table(pinned.vector_table, None), pinned.vector_version
    if pinned.documents_version is not None:
        yield workspace.documents(), pinned.documents_version


def verify(workspace: Workspace, release: Release) -> None:
    """Raise StoreError if a file of the release is missing or altered."""
    changed = workspace.store.changed_files(release.files)
    if release.pinned.lexical_path is not None:
        workspace.store.files.verify_folder(release.pinned.lexical_path)
    if changed:
        place = f"{workspace.config.corpus}: {release.release_id} is damaged"
        reason = f"{len(changed)} of its files are missing or altered ({', '.join(changed[:3])})"
        raise StoreError(f"{place}: {reason}; run: rag doctor --full --repair")
