"""The row of the registry for one asset."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_pipeline.config import ChatSettings, Configuration, CorpusConfig, EmbeddingSettings
from rag_pipeline.config.keys import LEVELS, Key, KeyLevel
from rag_pipeline.indexing import Plan, TablePartition
from rag_pipeline.pipeline.metadata import Materialized
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace

ModelSettings = ChatSettings | EmbeddingSettings


@dataclass(frozen=True, slots=True)
class Check:
    """A check of an asset. The steps that read the asset wait until its blocking checks pass."""

    name: str
    run: Callable[[Workspace, Key], CheckResult]
    blocking: bool = True


ShardPlan = Mapping[str, Any]
"""The part of the plan that the end needs, as JSON."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The three steps of one partition; `build` returns a value of type `made`."""

    plan: Callable[[Workspace, Key], tuple[Sequence[Sequence[Any]], ShardPlan, str]]
    """Returns the shards, the part for the end, and a line for the log."""
    build: Callable[[Workspace, Key, Sequence[Any]], Any]
    made: type
    finish: Callable[[Workspace, Key, ShardPlan, Sequence[Any]], Materialized]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One asset. Its functions take the key of one of its partitions, or the empty key.

    An asset of documents' rows has a `table`, and a `plan` of its stale documents. For any other
    asset, `is_current` says whether it is made from its inputs as they are.
    """

    name: str
    reads: tuple[str, ...] = ()
    partitioned_by: KeyLevel | None = None
    """The level of its partition keys; None without partitions."""
    applies: Callable[[CorpusConfig, Configuration], bool] = lambda config, configuration: True
    """Whether a configuration needs it."""
    table: Callable[[Workspace, Key], Table] | None = None
    plan: Callable[[Workspace, Key], Plan] | None = None
    is_current: Callable[[Workspace, Key], bool] | None = None
    place: Callable[[Key], str] | None = None
    """Its file in the store, or the folder of its builds; None for a table or an input."""
    is_incomplete: Callable[[Workspace, Key], bool] = lambda workspace, key: False
    """Whether it only lacks judgements that failed: another run asks for them again."""
    update: Callable[[Workspace, Key], Materialized] | None = None
    """Makes it in this process; None for an asset with `build`, or made on demand."""
    build: Callable[[Workspace, Key, Plan | None], Materialized] | None = None
    """Makes the rows of documents in this process, by its `plan` or a new one."""
    open_partition: Callable[[Workspace, Key], TablePartition] | None = None
    """Opens a partition that is built in shards of documents; None for any other asset."""
    shards: Shards | None = None
    """How an executor distributes its work; None for a single step."""
    cleanup: Literal["", "before", "after"] = ""
    """When a step of it removes unneeded files from the store."""
    alerts: Callable[[CorpusConfig], Mapping[str, str]] = lambda config: {}
    """Names and descriptions of its figures that have a threshold in the corpus file."""
    made_from: Callable[[Workspace, Key], tuple[object, ...]]
    """The inputs and settings that decide about its content."""
    state: Callable[[Workspace, Key], str] | None = None
    """Identifies the content that its checks read; by default the version of its table."""
    checks: tuple[Check, ...] = ()
    made_by: str = ""
    """The asset whose job makes it too, because a step of its own costs more than making it."""
    needs_all_inputs: bool = True
    """Whether one partition that can't be built stops it; else it is built from the others."""
    on_demand: bool = False
    """Whether only a person starts it: it is in no plan."""
    of_files: bool = False
    """Whether it is made from files that people change, not from settings and other assets."""
    watched: bool = False
    """Whether its age is watched: a scheduled run also reports it when it was current."""
    priority: int = 0
    """Runs of a higher priority leave Dagster's queue first."""
    kind: str
    about: str
    """Its content, for the UI."""
    activity: str
    """The work of its steps, for plans."""
    unit: str = ""
    """The unit of its progress; `texts` are those that an embedding model is sent."""
    total: Callable[[Workspace, Key], int] | None = None
    """Returns the amount of work in that unit, where no plan tells it."""
    shown_counts: tuple[tuple[str, str], ...] = ()
    """The numbers of its metadata that the command line shows, each with its word."""
    models: Callable[[CorpusConfig, Key], Sequence[ModelSettings]] = lambda config, key: ()
    """The models that a step of it calls, local ones included, without a run's reranker."""
    runs_dry: bool = False
    """Whether a plan runs its steps dry to count their calls."""

    def keys(self, config: CorpusConfig, chosen: Iterable[Configuration]) -> list[Key]:
        """Return the partitions that some configurations need, in their order."""
        level = self.partitioned_by
        return list(dict.fromkeys(c.key.at(level) for c in chosen if self.applies(config, c)))

    def key(self, config: CorpusConfig, partition: str | None) -> Key:
        """Return the key of a partition, which need not be in the corpus file."""
        if self.partitioned_by == "configuration" and partition:
            return config.configuration(partition).key
        return Key.parse(partition or "")

    @property
    def has_blocking_check(self) -> bool:
        """Return whether one of its checks is blocking."""
        return any(check.blocking for check in self.checks)

    @property
    def description(self) -> str:
        """Return its description for the UI."""
        level = self.partitioned_by
        if level is None:
            return self.about
        parts = ".".join(LEVELS[: LEVELS.index(level) + 1])
        kind = "configuration" if level == "configuration" else f"`{parts}`"
        return f"{self.about} A partition is a {kind}."

    def state_of(self, workspace: Workspace, key: Key) -> str:
        """Return the identity of its present content, "" where it has none."""
        if self.state is not None:
            return self.state(workspace, key)
        assert self.table is not None
        table = self.table(workspace, key)
        return f"{table.name} {table.version}" if table.exists() else ""
