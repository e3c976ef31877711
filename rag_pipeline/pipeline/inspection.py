"""Find damage in a store, with a repair for each finding.

A repair removes a damaged build, and the next run makes the build again. A release that can't be
served is removed, too. Then the newest intact release is served.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from rag_pipeline import release as releases
from rag_pipeline.config import CorpusConfig, Key
from rag_pipeline.errors import NotReleasedError, RagPipelineError, StoreError, counted
from rag_pipeline.evaluation.results import QUERIES
from rag_pipeline.pipeline.driver import refused
from rag_pipeline.pipeline.integrity import (
    Finding,
    corrupt_calls,
    corrupt_tables,
    lost_pins,
    restored,
)
from rag_pipeline.pipeline.planning import Step, steps, upstream
from rag_pipeline.release import Release, publishing
from rag_pipeline.release.checks import CHECKS
from rag_pipeline.release.manifest import CURRENT, readable
from rag_pipeline.search.lexical_index import build_lexical_index, open_lexical_index
from rag_pipeline.store import Table, TableState
from rag_pipeline.workspace import Workspace

_BUILT_AGAIN = "remove it; the next run builds it again"
_LOST = "remove it; the release is lost"
_LEXICAL_COLUMNS = ["chunk_id", "document_id", "start", "text", "title", "context"]


def inspect(workspace: Workspace, full: bool = False) -> list[Finding]:
    """Return the damage in a corpus's store. Change nothing.

    The keys of every table are read. If `full` is True, each file is also compared with its hash.
    """
    states: dict[str, TableState] = {}
    findings = list(corrupt_tables(workspace)) if full else []
    damaged = {f.place for f in findings}
    for name in workspace.store.tables():
        if name not in damaged:
            findings += _table(workspace, name, states)
    findings += _dimensions(workspace, states)
    findings += _rows(workspace, states)
    broken = {f.place for f in findings}
    findings += _refused(workspace, broken)
    if full:
        findings += _unsound(workspace, broken | {f.place for f in findings})
        # The repair of a broken table may remove its pins, so they are checked after the repair.
        findings += [f for f in lost_pins(workspace) if f.place not in broken]
        findings += corrupt_calls(workspace)
    findings += _results(workspace, full)
    findings += _releases(workspace, broken, full)
    findings += _lexical(workspace, full)
    return findings


# --- tables ---


def _table(workspace: Workspace, name: str, states: dict[str, TableState]) -> Iterator[Finding]:
    table = workspace.store.table(name, None)
    try:
        states[name] = table.examine()
        twice = table.duplicated()
    except StoreError as error:
        drop = partial(workspace.store.drop_table, name)
        yield restored(table, f"incomplete: {error}", table.last_readable(), drop)
        return
    if twice:
        yield _documents_to_drop(table, twice, "duplicate rows")


def _dimensions(workspace: Workspace, states: dict[str, TableState]) -> Iterator[Finding]:
    for step in steps(workspace.config):
        if step.row.unit != "texts" or step.row.table is None or step.store_name not in states:
            continue
        table = step.row.table(workspace, step.key(workspace.config))
        have = table.dataset().schema.field("vector").type.list_size
        wanted = table.schema.field("vector").type.list_size
        if have != wanted:
            yield Finding(
                table.name,
                f"its vectors have {have} dimensions, but the embedding has {wanted}",
                "empty it; the next run fills it again",
                table.ensure,
            )


def _rows(workspace: Workspace, states: dict[str, TableState]) -> Iterator[Finding]:
    """Yield the tables in which documents have rows of several origins, or a wrong row count."""
    for step in steps(workspace.config):
        if not step.row.open_partition:
            continue
        (before,) = upstream(workspace.config, step)
        name, source = step.store_name, before.store_name
        if name not in states or source not in states:
            continue
        mine, theirs = states[name], states[source]
        torn = [d for d, s in mine.items() if not s.fingerprint]
        wrong = [
            d
            for d, s in mine.items()
            if d in theirs
            and before.row.open_partition  # a document has one row, and many chunks
            and (s.content_hash, bool(s.fingerprint)) == (theirs[d].content_hash, True)
            and s.rows != theirs[d].rows
        ]
        table = workspace.store.table(name, None)
        if torn:
            yield _documents_to_drop(table, torn, "rows of more than one origin")
        if wrong:
            yield _documents_to_drop(table, wrong, f"more or fewer rows than in {source}")


def _documents_to_drop(table: Table, documents: Sequence[str], problem: str) -> Finding:
    return Finding(
        table.name,
        f"{counted(len(documents), 'document')} with {problem}: {', '.join(documents[:5])}",
        "remove their rows; the next run makes them again",
        partial(table.drop, documents),
    )


def _refused(workspace: Workspace, broken: set[str]) -> Iterator[Finding]:
    """Yield the content that a blocking check refused. No run can use such content."""
    for step in steps(workspace.config):
        if broken.intersection(_read_for(workspace.config, step)):
            continue
        with suppress(StoreError):  # `_results` and `_lexical` report unreadable files
            if said := refused(workspace, step):
                reason = said.rpartition("; ")[0]  # without its remedy
                mend = partial(_remove, workspace, step)
                yield Finding(step.store_name, reason, _BUILT_AGAIN, mend)


def _remove(workspace: Workspace, step: Step) -> None:
    """Remove the content of a step. The next run makes the content again."""
    key = step.key(workspace.config)
    if step.row.table is not None:
        workspace.store.drop_table(step.store_name)
    elif step.asset == "queries":
        workspace.store.remove_file(QUERIES.file())
    else:
        for engine in workspace.config.lexical_engines(key):
            workspace.store.files.remove_folder(workspace.lexical_path(key, engine))


def _unsound(workspace: Workspace, broken: set[str]) -> Iterator[Finding]:
    """Yield the current tables whose rows fail the checks of their asset."""
    for step in steps(workspace.config):
        if step.asset not in CHECKS or step.row.table is None or step.row.plan is None:
            continue
        name, key = step.store_name, step.key(workspace.config)
        # Lance may crash on a corrupt file, so a corrupt table is repaired before this check.
        if broken.intersection(_read_for(workspace.config, step)):
            continue
        if not workspace.store.table(name, None).exists():
            continue
        try:
            if step.row.open_partition and not step.row.plan(workspace, key).is_current:
                continue  # the next run makes and checks the table
            failures = CHECKS[step.asset](workspace, key).failures
        except StoreError as error:
            failures = (str(error),)
        if failures:
            drop = partial(workspace.store.drop_table, name)
            yield Finding(name, "; ".join(failures), _BUILT_AGAIN, drop)


def _read_for(config: CorpusConfig, step: Step) -> set[str]:
    """Return the names of a step's table and of all tables before it."""
    before = (_read_for(config, one) for one in upstream(config, step) if one.row.table)
    return {step.store_name}.union(*before)


# --- files ---


def _results(workspace: Workspace, full: bool) -> Iterator[Finding]:
    store = workspace.store
    folders = ("checks", "outcomes", "passed_checks", "hashes", "released_scores", "costs", "gate")
    paths = [f"{folder}/{name}" for folder in folders for name in store.list(folder)]
    paths.append("documents.listing.json")
    for folder in store.list("evaluation"):
        if "." in folder:
            paths.append(f"evaluation/{folder}")
        else:
            paths += [f"evaluation/{folder}/{name}" for name in store.list(f"evaluation/{folder}")]
    for path in paths:
        try:
            if full and path.endswith((".parquet", ".json", ".html")):
                store.check_file(path)
            elif path.endswith(".parquet"):
                store.read_parquet(path)
            elif path.endswith(".json"):
                store.read_json(path)
        except StoreError as error:
            mend = partial(store.remove_file, path)
            is_gate = path.startswith("gate/")
            cure = (
                "the gate counts its comparisons from here"
                if is_gate
                else "the next run writes it again"
            )
            yield Finding(path, str(error), f"remove it; {cure}", mend)


# --- lexical indexes ---


def _lexical(workspace: Workspace, full: bool) -> Iterator[Finding]:
    """Yield the torn BM25 indexes that no release pins. `_releases` checks the pinned indexes."""
    pinned = {release.pinned.lexical_path for release in readable(workspace)}
    for path in workspace.lexical_paths():
        problem = None if path in pinned else _lexical_problem(workspace, path, full)
        if problem:
            mend = partial(workspace.store.files.remove_folder, path)
            yield Finding(path, problem, _BUILT_AGAIN, mend)


def _lexical_problem(workspace: Workspace, path: str, full: bool) -> str | None:
    try:
        workspace.store.files.verify_folder(path, full)
        open_lexical_index(workspace.store.local_folder(path))
    except StoreError as error:
        return str(error)
    return None


def _rebuild_lexical(workspace: Workspace, release: Release) -> None:
    pinned = release.pinned
    assert pinned.lexical_path is not None
    engine = pinned.lexical_path.rpartition("/")[2].split("-")[0]
    rows = workspace.store.table(pinned.vector_table, None)
    folder = workspace.store.files.new_folder(pinned.lexical_path)
    batches = rows.read(_LEXICAL_COLUMNS, version=pinned.vector_version)
    build_lexical_index(engine, batches, workspace.config.lexical, folder)
    workspace.store.files.remove_folder(pinned.lexical_path)
    workspace.store.publish_folder(folder, pinned.lexical_path)


# --- releases ---


def _releases(workspace: Workspace, broken: set[str], full: bool) -> Iterator[Finding]:
    """Yield the damage to each release, then the damage to the record of the served release."""
    whole: list[Release] = []
    for release_id in reversed(releases.names(workspace)):
        place = f"releases/{release_id}.json"
        remove = partial(publishing.remove, workspace, release_id)
        try:
            release = releases.load(workspace, release_id)
            if full:
                workspace.store.check_file(place)
        except RagPipelineError as error:
            yield Finding(place, str(error), _LOST, remove)
            continue
        if full and (altered := workspace.store.changed_files(release.files)):
            problem = f"{len(altered)} of its files are missing or altered ({altered[0]})"
            yield Finding(place, problem, _LOST, remove)
            continue
        if gone := list(_gone_versions(workspace, release, broken)):
            yield Finding(place, f"{' and '.join(gone)} is missing", _LOST, remove)
            continue
        path = release.pinned.lexical_path
        torn = _lexical_problem(workspace, path, full) if path else None
        if path and torn and not _same_settings(workspace, path):
            cure = f"{_LOST}, because `lexical` in the corpus file has changed"
            yield Finding(place, torn, cure, remove)
            continue
        whole.append(release)
        if torn:
            cure = f"build {path} again from the release's own rows"
            yield Finding(place, torn, cure, partial(_rebuild_lexical, workspace, release))
    yield from _served(workspace, whole, full)


def _gone_versions(workspace: Workspace, release: Release, broken: set[str]) -> Iterator[str]:
    pinned = release.pinned
    wanted = [(pinned.vector_table, pinned.vector_version)]
    if pinned.documents_version is not None:
        wanted.append((workspace.documents().name, pinned.documents_version))
    for name, version in wanted:
        table = workspace.store.table(name, None)
        # If the newest version is intact, its files in an older version are intact, too.
        if not table.has_version(version, whole=name in broken):
            yield f"{name} at version {version}"


def _same_settings(workspace: Workspace, path: str) -> bool:
    _, context_key, name = path.split("/")
    with suppress(KeyError, ValueError):
        key = Key.parse(context_key).at("contextualizer")
        return name.split("-")[1] == workspace.config.lexical_fingerprint(*key.variants)
    return False


def _served(workspace: Workspace, whole: Sequence[Release], full: bool) -> Iterator[Finding]:
    try:
        if full:
            workspace.store.check_file(CURRENT)
        served = releases.current(workspace).release_id
        if served in {release.release_id for release in whole}:
            return
        problem = f"serves {served}, which is damaged"
    except RagPipelineError as error:
        if isinstance(error, NotReleasedError) and not whole:
            return
        problem = str(error)
    if whole:
        newest = whole[0].release_id
        mend = partial(publishing.serve, workspace, newest)
        yield Finding(CURRENT, problem, f"serve {newest}", mend)
    else:
        mend = partial(workspace.store.remove_file, CURRENT)
        yield Finding(CURRENT, problem, "remove it; the next run makes a release", mend)
