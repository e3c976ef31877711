"""List the steps of a corpus in the order of the data flow, and find the stale steps."""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rag_pipeline import indexing
from rag_pipeline.config import CorpusConfig, Key, fingerprint
from rag_pipeline.errors import UnexpectedError, blaming
from rag_pipeline.evaluation.runs import pinned_of
from rag_pipeline.indexing import MADE_OTHERWISE, Plan
from rag_pipeline.loading.folder import matcher
from rag_pipeline.pipeline.asset import Asset
from rag_pipeline.pipeline.registry import ASSETS, asset_of
from rag_pipeline.release.candidate import why_stale
from rag_pipeline.search.copies import find_copies
from rag_pipeline.store.states import looking
from rag_pipeline.workspace import Workspace

FAILED_BEFORE = "failed judgements are asked for again"
"""The reason to run a step that lacks only failed judgements."""

STOPPED_BEFORE = "the last run stopped before it"
"""The reason to run a step if a run ended after the steps that it reads."""


@dataclass(frozen=True, slots=True)
class Step:
    """One partition of one asset. `partition` is None for an asset without partitions."""

    asset: str
    partition: str | None = None

    def __str__(self) -> str:
        return f"{self.asset} {self.partition}" if self.partition else self.asset

    @property
    def row(self) -> Asset:
        """Return the registry's row of the asset."""
        return asset_of(self.asset)

    @property
    def store_name(self) -> str:
        """Return the name of the step's table, quarantine and check result in the store."""
        return f"{self.asset}.{self.partition}" if self.partition else self.asset

    def key(self, config: CorpusConfig) -> Key:
        """Return the parsed partition, or the empty key for an asset without partitions."""
        return self.row.key(config, self.partition)


class StepPlan(NamedTuple):
    """The work of one step. `must_run` is False if the step is current."""

    must_run: bool
    why: str = ""
    """The reason if unchanged documents are stale."""
    documents: Plan | None = None


def steps(config: CorpusConfig, configuration: str | None = None) -> list[Step]:
    """Return the steps of the corpus, or of one configuration, in the order of the data flow."""
    if configuration is None:
        chosen = list(config.all_configurations.values())
    else:
        chosen = [config.configuration(configuration)]
    return [
        Step(asset.name, str(key) or None)
        for asset in ASSETS.values()
        if not asset.on_demand
        for key in asset.keys(config, chosen)
    ]


def upstream(config: CorpusConfig, step: Step) -> list[Step]:
    """Return the steps that a step reads."""
    own = config.readers(step.row.partitioned_by, step.partition or "").values()
    return [
        Step(before, str(key) or None)
        for before in step.row.reads
        for key in asset_of(before).keys(config, own)
    ]


def readers(config: CorpusConfig, step: Step) -> list[Step]:
    """Return the steps that need the result of a step, in the order of the data flow."""
    behind = [step]
    for each in steps(config):
        if each.row.needs_all_inputs and not {*behind}.isdisjoint(upstream(config, each)):
            behind.append(each)
    return behind[1:]


def why(workspace: Workspace, step: Step, running: Collection[Step]) -> str:
    """Return the reason for running a step again after the `running` steps.

    Return "" if the step runs for the first time. Return "" also for the queries, and for tables,
    because the plan of a table contains the reason.
    """
    if step.row.place is None:
        return ""
    folder, _, name = step.row.place(step.key(workspace.config)).rpartition("/")
    if name not in workspace.store.list(folder):
        return ""
    changed = [before.asset for before in upstream(workspace.config, step) if before in running]
    if changed:
        return f"{', '.join(dict.fromkeys(changed))} changed"
    if step.row.has_new_inputs(workspace, step.key(workspace.config)):
        return STOPPED_BEFORE
    if step.asset == "release":
        return why_stale(workspace)
    return FAILED_BEFORE if is_incomplete(workspace, step) else MADE_OTHERWISE


def plan_step(workspace: Workspace, step: Step) -> StepPlan:
    """Compare the output of one step with its current inputs, and return the work to do."""
    key = step.key(workspace.config)
    if step.row.plan is not None:
        todo = step.row.plan(workspace, key)
        return StepPlan(not todo.is_current, todo.why, todo)
    assert step.row.is_current is not None
    return StepPlan(not step.row.is_current(workspace, key))


def is_incomplete(workspace: Workspace, step: Step) -> bool:
    """Return whether the result of a step lacks only failed judgements.

    Later steps do not wait for these judgements. A later run asks for them again.
    """
    return step.row.is_incomplete(workspace, step.key(workspace.config))


# --- all steps ---

DOCUMENTS = Step("documents")
NOTHING_PENDING = Plan((), (), 0)
"""The plan of a step outside the run. Later steps read its current content."""


def pending_documents(
    workspace: Workspace, chosen: Sequence[Step], as_loaded: bool = False
) -> dict[Step, Plan]:
    """Return the plans of the tables among the chosen steps if all chosen steps run.

    `chosen` has the order of the data flow. If `as_loaded` is True, no file has changed since the
    last load.
    """
    config = workspace.config
    pending: dict[Step, Plan] = {}
    for step in chosen:
        if step == DOCUMENTS:
            if as_loaded and workspace.documents().exists():
                pending[step] = Plan((), (), len(workspace.documents().state()))
            else:
                pending[step] = indexing.plan_documents(workspace)
        elif step.row.open_partition:
            (before,) = (pending.get(s, NOTHING_PENDING) for s in upstream(config, step))
            try:
                with blaming(str(step)):
                    partition = step.row.open_partition(workspace, step.key(config))
                    own = indexing.plan(partition)
            except UnexpectedError:
                continue  # `is_stale` raises it
            here = set(partition.table.state()) | set(partition.quarantine.state())
            gone = here.intersection(before.orphaned).union(own.orphaned)
            carried = partition.covered(before.stale)
            stale = carried.union(own.stale).difference(before.orphaned)
            pending[step] = Plan(tuple(stale), tuple(gone), len(here - stale - gone), why=own.why)
    return pending


class FileChanges(NamedTuple):
    """The documents that changed after the tables were built."""

    edited: list[str]
    added: list[str]
    renamed: list[str]
    """Pairs of ids with the same content, as `old -> new`."""
    no_longer_copies: list[str]
    """Documents that were not indexed before, because another document had the same text."""
    deleted: list[str]
    excluded: list[str]
    """Documents that a pattern of `documents.exclude` leaves out now."""
    unreadable: list[str]
    """Documents in quarantine that an earlier build holds."""
    read_again: Mapping[str, list[str]]
    """Documents whose unedited files were read again, by the reason."""


def changed_files(workspace: Workspace) -> FileChanges:
    """Compare the loaded documents with the built tables. Ignore empty and missing tables."""
    copies = find_copies(workspace)
    loaded = {d: s for d, s in workspace.documents().state().items() if d not in copies}
    edited: dict[str, str] = {}
    added: set[str] = set()
    deleted: dict[str, str] = {}
    for step in steps(workspace.config):
        if not step.row.open_partition:
            continue
        partition = step.row.open_partition(workspace, step.key(workspace.config))
        if not (built := partition.table.state()):
            continue
        built = {**partition.quarantine.state(), **built}
        added |= partition.covered(loaded.keys() - built.keys())
        for name in loaded.keys() & built.keys():
            if built[name].content_hash != loaded[name].content_hash:
                edited[name] = built[name].content_hash
        gone = built.keys() - loaded.keys() - copies.keys()
        deleted |= {d: built[d].content_hash for d in gone}
    renamed = []
    for old, content in sorted(deleted.items()):
        new = next((d for d in sorted(added) if loaded[d].content_hash == content), None)
        if new is not None:
            renamed.append(f"{old} -> {new}")
            added.remove(new)
            del deleted[old]
    refused = workspace.quarantine("documents").state().keys() & deleted.keys()
    gone_now = sorted(deleted.keys() - refused)
    is_excluded = matcher(*workspace.config.documents.exclude, hidden=True)
    left_out = [*filter(is_excluded, gone_now)]
    once = added & _loaded_before(workspace) if added else set()
    again = indexing.read_again(workspace.config, edited)
    changed = sorted(edited.keys() - {name for names in again.values() for name in names})
    return FileChanges(
        edited=changed,
        added=sorted(added - once),
        renamed=renamed,
        no_longer_copies=sorted(once),
        deleted=[name for name in gone_now if name not in left_out],
        excluded=left_out,
        unreadable=sorted(refused),
        read_again=again,
    )


def _loaded_before(workspace: Workspace) -> set[str]:
    """Return the ids of the documents, with copies, that an earlier run had loaded."""
    runs = (pinned_of(workspace, name) for name in workspace.config.all_configurations)
    versions = {run.documents_version for run in runs if run and run.documents_version}
    documents = workspace.documents()
    return {d for v in versions if documents.has_version(v) for d in documents.state(v)}


@looking()
def stale_steps(workspace: Workspace) -> dict[Step, str]:
    """Return the steps that a run would make, each with the hash of its inputs.

    The steps are in the order of the data flow. They include the steps that read a stale step, and
    the steps that cannot be planned because of a defect in a plugin. No file is opened if all
    names, sizes and times are the same as in the last load. Changes during this call do not count.
    """
    loaded = indexing.loaded_listing(workspace)
    as_loaded = loaded is not None and loaded == indexing.listing_digest(workspace.config)
    pending = pending_documents(workspace, steps(workspace.config), as_loaded)
    stale: dict[Step, str] = {}
    for step in steps(workspace.config):
        try:
            with blaming(str(step)):
                runs = is_stale(workspace, step, pending, stale)
        except UnexpectedError:
            runs = True
        if runs:
            stale[step] = made_from(workspace, step, stale)
    return stale


def is_stale(
    workspace: Workspace, step: Step, pending: Mapping[Step, Plan], stale: Container[Step]
) -> bool:
    """Return whether a run that makes the `stale` steps would also make `step`."""
    if step in pending:
        return not pending[step].is_current
    before = upstream(workspace.config, step)
    return any(b in stale for b in before) or plan_step(workspace, step).must_run


def made_from(workspace: Workspace, step: Step, stale: Mapping[Step, str]) -> str:
    """Return the hash of a step's inputs and of the hashes of the `stale` steps that it reads."""
    try:
        own = step.row.made_from(workspace, step.key(workspace.config))
    except Exception:  # noqa: BLE001 (a plugin may raise any error)
        own = ()  # an input does not exist yet, or a plugin has a defect
    before = [stale[b] for b in upstream(workspace.config, step) if b in stale]
    return fingerprint(step.store_name, *map(str, own), *before)
