"""Find corrupt files of a store: compare each file with the hash of its first write.

A repair restores the newest intact version of a corrupt table. If there is none, the next run
builds the table again from the documents and the call cache. `unhashed` lists tables without
hashes.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from rag_pipeline import release as releases
from rag_pipeline.calls import Database, sql
from rag_pipeline.calls.damage import damaged_answers, damaged_charges, salvage
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.release.manifest import readable
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace

_TAGS = "_refs/tags"


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged part of a store, with the problem, the remedy in words, and the repair function."""

    place: str
    problem: str
    cure: str
    mend: Callable[[], object] | None = None
    """The repair, or None if only a person can do it."""


def restored(table: Table, problem: str, older: int | None, drop: Callable[[], object]) -> Finding:
    """Return a finding about a table. The repair restores version `older`, or drops the table."""
    if older is None:
        again = "remove it; the next run builds it again from the documents and the call cache"
        return Finding(table.name, problem, again, drop)
    cure = f"restore its version {older}; the next run adds the rest"
    return Finding(table.name, problem, cure, partial(table.restore, older))


def corrupt_tables(workspace: Workspace) -> Iterator[Finding]:
    """Yield the tables whose newest version or a pinned version has missing or altered files."""
    store = workspace.store
    for name in store.tables():
        known = store.hashes_of(name)
        now = store.files.hashes(known)
        altered = {path for path, was in known.items() if path in now and now[path] != was}
        yield from _corrupt(workspace, store.table(name, None), altered, known.keys() - now.keys())


def _corrupt(
    workspace: Workspace, table: Table, altered: Collection[str], gone: Collection[str]
) -> Iterator[Finding]:
    drop = partial(workspace.store.drop_table, table.name)
    place = f"tables/{table.name}.lance"
    try:
        versions = {v: {f"{place}/{f}" for f in files} for v, files in table.files().items()}
        # A file that is in no version was removed by a cleanup.
        bad = {*altered, *(path for path in gone if any(path in f for f in versions.values()))}
    except StoreError:
        if altered:
            yield restored(table, _said(altered), None, drop)
        return
    corrupt = {version for version, files in versions.items() if files & bad}
    newest = max(versions)
    if newest in corrupt:
        whole = (v for v in sorted(versions, reverse=True) if v not in corrupt)
        older = next((v for v in whole if table.has_version(v, whole=True)), None)
        yield restored(table, _said(bad), older, drop)
        return
    for tag, version in (_pins(table) or {}).items():
        if version in corrupt:
            problem = f"{_said(bad)}, of version {version}, pinned by {tag}"
            forget = partial(_forget_pin, workspace, table, tag)
            yield Finding(table.name, problem, "unpin it; the next run makes it again", forget)


def _forget_pin(workspace: Workspace, table: Table, tag: str) -> None:
    workspace.store.remove_file(f"tables/{table.name}.lance/{_TAGS}/{tag}.json")
    if tag.startswith("run-"):
        workspace.store.remove_file(RUN.file(tag.removeprefix("run-")))


def lost_pins(workspace: Workspace) -> Iterator[Finding]:
    """Yield unreadable pins, and missing pins of releases and runs."""
    store = workspace.store
    for name in store.tables():
        paths = [
            f"tables/{name}.lance/{_TAGS}/{file}"
            for file in store.list(f"tables/{name}.lance/{_TAGS}")
        ]
        torn = [path for path in paths if not _is_pin(workspace, path)]
        if not torn and _refuses_pins(store.table(name, None)):
            torn = paths  # Lance does not name the unreadable pin
        for path in torn:
            cure = "remove it; the repair then pins the version again"
            yield Finding(name, f"{path} is incomplete", cure, partial(store.remove_file, path))
    for tag, pinned in _wanted_pins(workspace):
        for table, version in releases.pinned_tables(workspace, pinned):
            if not table.has_version(version) or _refuses_pins(table):
                continue
            if (_pins(table) or {}).get(tag) != version:
                problem = f"version {version} is not pinned for {tag}; a cleanup may remove it"
                yield Finding(table.name, problem, "pin it again", partial(table.pin, tag, version))


def _is_pin(workspace: Workspace, path: str) -> bool:
    try:
        return isinstance((workspace.store.read_json(path) or {}).get("version"), int)
    except StoreError:
        return False


def _refuses_pins(table: Table) -> bool:
    """Return whether a table is readable but its pins are not."""
    with suppress(StoreError):
        table.dataset()
        return _pins(table) is None
    return False


def _wanted_pins(workspace: Workspace) -> Iterator[tuple[str, Pinned]]:
    for release in readable(workspace):  # `inspect` reports unreadable releases
        yield release.release_id, release.pinned
    for name in workspace.config.all_configurations:
        with suppress(StoreError, TypeError):  # a run of an earlier version of rag_pipeline
            if pinned := RUN.note(workspace, name).get("pinned"):
                yield f"run-{name}", Pinned(**pinned)


def _pins(table: Table) -> dict[str, int] | None:
    with suppress(StoreError):
        return table.pins()
    return None


def unhashed(workspace: Workspace) -> list[str]:
    """Return the sorted names of tables without hashes. Their corruption cannot be found."""
    store = workspace.store
    return [n for n in store.tables() if not store.hashes_of(n) and store.table(n, None).count()]


def corrupt_calls(workspace: Workspace) -> Iterator[Finding]:
    """Yield the damage to the databases of calls and to their rows."""
    cache = workspace.cache
    for database in dict.fromkeys((cache.database, cache.of_local_models().database)):
        if database.exists:
            yield from _damaged_calls(database)


def _damaged_calls(database: Database) -> Iterator[Finding]:
    place = database.place if database.is_shared else database.path.name
    try:
        database.check()
        answers, charges = damaged_answers(database), damaged_charges(database)
    except StoreError as error:
        cure = "keep the readable answers and charges; later runs pay again for lost answers"
        yield Finding(
            place, str(error), cure, None if database.is_shared else partial(salvage, database)
        )
        return
    for count, what, then, mend in (
        (len(answers), "answers", "later runs pay again for the answers that they need",
         partial(database.delete, sql.answers.c.key, answers)),
        (len(charges), "charges", "they no longer count as spent",
         partial(database.delete, sql.charges.c.id, charges)),
    ):  # fmt: skip
        if count:
            problem = f"{count} {what} do not match their hashes"
            yield Finding(place, problem, f"delete them; {then}", mend)


def _said(paths: Collection[str]) -> str:
    names = ", ".join(path.partition(".lance/")[2] for path in sorted(paths)[:3])
    return f"{len(paths)} of its files are missing or altered ({names})"
