"""Find and remove unneeded parts of a store, by the corpus file's `retention`.

The served release and the builds of the current documents and settings always stay. The pinned
builds of a remaining release or of a configuration's last run stay, too.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from rag_pipeline import release as releases
from rag_pipeline.config.configurations import LEVELS, Key
from rag_pipeline.errors import RagPipelineError, StoreError, counted
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.pipeline.dry_run import needed_calls
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.release import Release
from rag_pipeline.release.checks import FOLDER
from rag_pipeline.release.manifest import readable
from rag_pipeline.release.publishing import forget
from rag_pipeline.store.store import Freed
from rag_pipeline.workspace import Workspace

WORTH_SWEEPING = 0.1
"""A sweep looks for removable answers only above this share (0 to 1) of unused answers."""
_DAY, _HOUR = 86_400.0, 3_600.0


def collect(workspace: Workspace, dry_run: bool = False) -> list[Freed]:
    """Remove and return every expired part. If `dry_run` is True, remove nothing."""
    freed = _swept(workspace, dry_run)
    freed += _versions(workspace, dry_run)
    freed += _calls(workspace, _unneeded(workspace, share=0.0), dry_run)
    gone_now = {f.name for f in freed if f.what == "lexical index" and not f.kept_until}
    freed += _copies(workspace, gone_now, dry_run)
    if not dry_run and workspace.store.calls_path.exists():
        workspace.cache.shrink()
    return freed


def sweep(workspace: Workspace) -> list[Freed]:
    """Remove and return expired releases, indexes, results, tables and cached calls.

    Remove no cached calls if a share of less than `WORTH_SWEEPING` has expired. `Table.compact`
    removes superseded versions of tables.
    """
    freed = _swept(workspace, dry_run=False)
    freed += _calls(workspace, _unneeded(workspace, WORTH_SWEEPING), dry_run=False)
    return freed


def _swept(workspace: Workspace, dry_run: bool) -> list[Freed]:
    kept, old = _releases(workspace)
    limit = workspace.config.retention.keep_releases
    freed = [
        Freed("release", release.release_id, f"older than the newest {limit}", 0)
        for release in old
        if dry_run or forget(workspace, release)
    ]
    freed += _stray_pins(workspace, dry_run)
    freed += _files(workspace, kept, dry_run)
    return freed


# --- releases ---


def _releases(workspace: Workspace) -> tuple[list[Release], list[Release]]:
    """Return the readable releases to keep and the readable releases to remove, newest first."""
    found = list(readable(workspace))
    wanted = {r.release_id for r in found[: workspace.config.retention.keep_releases]}
    with suppress(RagPipelineError):
        served = releases.current(workspace)
        wanted |= {served.release_id, served.previous or served.release_id}
    kept = [r for r in found if r.release_id in wanted]
    return kept, [r for r in found if r.release_id not in wanted]


def _stray_pins(workspace: Workspace, dry_run: bool) -> Iterator[Freed]:
    names = set(releases.names(workspace))
    newest = max(names, default="")
    wanted = {f"run-{name}" for name in workspace.config.all_configurations}
    for name in workspace.store.tables():
        if name.split(".")[0] not in ("documents", "vector_index"):
            continue
        table = workspace.store.table(name, None)
        for tag in table.pins():
            # A new release pins its tables before its manifest is written.
            gone = tag.startswith("release-") and tag not in names and tag < newest
            if gone or (tag.startswith("run-") and tag not in wanted):
                if not dry_run:
                    table.unpin(tag)
                yield Freed("pin", f"{name} {tag}", "its release or run was deleted", 0)


# --- files and folders ---


class _Stray(NamedTuple):
    """Files of one kind that are removed `days` days after their last change."""

    what: str
    why: str
    days: float
    remove: Callable[[str], object]
    paths: Iterable[str]
    """Paths relative to the store."""
    changed: str = ""
    """The ending of the path that has the time of the last change."""


def _files(workspace: Workspace, kept: Sequence[Release], dry_run: bool) -> Iterator[Freed]:
    store, retention = workspace.store, workspace.config.retention
    steps_left = [f"steps/{run_id}" for run_id in store.list("steps")]
    pinned = {release.pinned.vector_table for release in kept}
    tables = (
        f"tables/{name}.lance"
        for name in store.tables()
        if name not in pinned and _is_orphaned(workspace, name)
    )
    folder, unlisted = store.files.remove_folder, "no longer in the corpus file"
    for stray in (
        _Stray("lexical index", "superseded", retention.version_hours / 24, folder,
               _stray_indexes(workspace, kept)),
        _Stray("results", unlisted, retention.keep_days, store.remove_file,
               _stray_results(workspace)),
        _Stray("table", unlisted, retention.keep_days,
               lambda path: store.drop_table(_name_of(path)), tables, "/_versions"),
        # An active run needs its own values, so they stay for at least a day.
        _Stray("step values", "of an unfinished run", max(retention.keep_days, 1), folder,
               steps_left),
        _Stray("leftover", "of a killed build", 1, folder, store.files.leftovers()),
    ):  # fmt: skip
        for path in stray.paths:
            due = store.files.modified(path + stray.changed) + stray.days * _DAY
            day = f"{datetime.fromtimestamp(due, UTC):%Y-%m-%d %H:%M}"
            until = day if due > time.time() else ""
            if dry_run or not until:
                size = sum(store.files.sizes(path).values())
                if not dry_run:
                    stray.remove(path)
                yield Freed(stray.what, _name_of(path), stray.why, size, until)


def _name_of(path: str) -> str:
    """Return the table's name or the run's id in a path. Return any other path unchanged."""
    folder, _, name = path.partition("/")
    return name.removesuffix(".lance") if folder in ("tables", "steps") else path


def _stray_indexes(workspace: Workspace, kept: Sequence[Release]) -> Iterator[str]:
    config = workspace.config
    wanted = {r.pinned.lexical_path for r in kept}
    wanted |= {note.get("pinned", {}).get("lexical_path") for note in RUN.notes(workspace)}
    for key in dict.fromkeys(c.context_key for c in config.all_configurations.values()):
        wanted |= {workspace.lexical_path(key, engine) for engine in config.lexical_engines(key)}
    return (path for path in workspace.lexical_paths() if path not in wanted)


def _stray_results(workspace: Workspace) -> Iterator[str]:
    """Yield the paths of results of configurations that the corpus file lacks."""
    store, config = workspace.store, workspace.config
    checked = {step.store_name for step in steps(config)}
    known = {"checks": checked, "outcomes": checked, FOLDER: checked}
    for folder in store.list("evaluation"):
        if "." not in folder:
            known[f"evaluation/{folder}"] = set(config.all_configurations)
    for folder, names in known.items():
        for name in store.list(folder):
            if name.rpartition(".")[0] not in names:
                yield f"{folder}/{name}"


def _is_orphaned(workspace: Workspace, name: str) -> bool:
    """Return whether the corpus file lacks a variant of a table."""
    asset, _, partition = name.removeprefix("quarantine.").partition(".")
    row = ASSETS.get(asset)
    if row is None or row.table is None or row.partitioned_by is None:
        return False
    with suppress(ValueError):  # not a partition of an asset
        key = Key.parse(partition)
        stages = zip(LEVELS, key.variants, strict=False)
        missing = (v not in workspace.config.variants(stage) for stage, v in stages)
        return key.level == row.partitioned_by and any(missing)
    return False


# --- table versions and the call cache ---


def _versions(workspace: Workspace, dry_run: bool) -> Iterator[Freed]:
    for name in workspace.store.tables():
        with suppress(StoreError):  # `rag doctor` reports an unreadable table
            size = workspace.store.table(name, None).drop_versions(dry_run)
            if size:
                yield Freed("versions", name, "superseded and not pinned", size)


def _unused_since(workspace: Workspace) -> int:
    return int(time.time() - workspace.config.retention.calls_days * _DAY)


def _unneeded(workspace: Workspace, share: float) -> set[bytes]:
    """Return the unneeded cached calls, or none if fewer than `share` of all were long unused."""
    cache = workspace.cache
    if not cache.database.exists:
        return set()
    old = cache.unused(_unused_since(workspace))
    if not old or len(old) < share * len(cache):
        return set()
    return old.difference(needed_calls(workspace))


def _calls(workspace: Workspace, gone: set[bytes], dry_run: bool) -> Iterator[Freed]:
    if not gone:
        return
    cache, keys = workspace.cache, list(gone)
    size = cache.bytes_of(keys)
    if not dry_run:
        cache.touch(list(cache.unused(_unused_since(workspace)) - gone))
        cache.prune(keys)
    yield Freed("calls", counted(len(gone), "answer"), "long unused and not needed", size)


def _copies(workspace: Workspace, freed: set[str], dry_run: bool) -> Iterator[Freed]:
    """Remove this machine's copies of BM25 indexes that the bucket lacks."""
    store = workspace.store
    paths = set(workspace.lexical_paths())
    before = time.time() - workspace.config.retention.version_hours * _HOUR
    for copy in store.files.stale_copies(paths - freed, before):
        size = sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())
        if not dry_run:
            shutil.rmtree(copy, ignore_errors=True)
        yield Freed("copy", str(copy), "of a deleted BM25 index", size)
