"""The steps of a corpus in the order of the flow, and whether each is stale."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from rag_pipeline.config import CorpusConfig, Key
from rag_pipeline.indexing import MADE_OTHERWISE, Plan
from rag_pipeline.pipeline.asset import Asset
from rag_pipeline.pipeline.registry import ASSETS, asset_of
from rag_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Step:
    """One partition of one asset; `partition` is None for an asset without partitions."""

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
        """Return the typed partition; the empty key for an asset without partitions."""
        return self.row.key(config, self.partition)


class StepPlan(NamedTuple):
    """Whether a step has work to do, why, and with which documents."""

    must_run: bool
    why: str = ""
    """Why unchanged documents are stale."""
    documents: Plan | None = None


def steps(config: CorpusConfig, configuration: str | None = None) -> list[Step]:
    """Return every step of the corpus, or of one configuration, in the order of the flow."""
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
    own = [
        c
        for c in config.all_configurations.values()
        if c.key.at(step.row.partitioned_by) == (step.partition or "")
    ]
    return [
        Step(before, str(key) or None)
        for before in step.row.reads
        for key in asset_of(before).keys(config, own)
    ]


def why(workspace: Workspace, step: Step, running: Collection[Step]) -> str:
    """Return why a step runs again after the `running` steps before it.

    Returns "" for the first time, and for tables and inputs: their plans have the reason.
    """
    if step.row.place is None:
        return ""
    folder, _, name = step.row.place(step.key(workspace.config)).rpartition("/")
    if name not in workspace.store.list(folder):
        return ""
    changed = [before.asset for before in upstream(workspace.config, step) if before in running]
    if changed:
        return f"{', '.join(dict.fromkeys(changed))} changed"
    return (
        "failed judgements are asked for again"
        if is_incomplete(workspace, step)
        else MADE_OTHERWISE
    )


def step_stored_as(name: str) -> Step | None:
    """Return the step that makes a table, listed or not; None for any other table."""
    asset, _, partition = name.partition(".")
    row = ASSETS.get(asset)
    if row is None or row.table is None:
        return None
    with suppress(ValueError):
        if Key.parse(partition).level == row.partitioned_by:
            return Step(asset, partition or None)
    return None


def plan_step(workspace: Workspace, step: Step) -> StepPlan:
    """Compare one step with its present inputs."""
    key = step.key(workspace.config)
    if step.row.plan is not None:
        todo = step.row.plan(workspace, key)
        return StepPlan(not todo.is_current, todo.why, todo)
    assert step.row.is_current is not None
    return StepPlan(not step.row.is_current(workspace, key))


def is_incomplete(workspace: Workspace, step: Step) -> bool:
    """Return whether a step only lacks judgements that failed.

    Later steps go on without them; another run asks for them again.
    """
    return step.row.is_incomplete(workspace, step.key(workspace.config))
