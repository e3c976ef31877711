"""Define the row that describes one asset in the registry."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from rag_pipeline.config import ChatSettings, Configuration, CorpusConfig, EmbeddingSettings
from rag_pipeline.config.configurations import LEVELS, Key, KeyLevel
from rag_pipeline.config.settings import Settings
from rag_pipeline.indexing import Plan, TablePartition
from rag_pipeline.pipeline.metadata import Materialized
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace

ModelSettings = ChatSettings | EmbeddingSettings


@dataclass(frozen=True, slots=True)
class Check:
    """A check of an asset's data. Steps that read the asset wait for its blocking checks."""

    name: str
    run: Callable[[Workspace, Key], CheckResult]
    blocking: bool = True


ShardPlan = Mapping[str, Any]
"""The input of `Shards.finish` from the plan, as JSON values."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The functions that build one partition in shards. `made` is the result type of `build`."""

    plan: Callable[[Workspace, Key], tuple[Sequence[Sequence[Any]], ShardPlan, str]]
    """Returns the shards, the plan for `finish`, and a line for the log."""
    build: Callable[[Workspace, Key, Sequence[Any]], Any]
    made: type
    finish: Callable[[Workspace, Key, ShardPlan, Sequence[Any]], Materialized]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """The description of one asset.

    Its functions take the key of a partition, or the empty key if the asset has no partitions. An
    asset with rows per document has a `table`, and a `plan` that lists its stale documents. Any
    other asset has `is_current`. It returns whether the content matches the current inputs.
    """

    name: str
    reads: tuple[str, ...] = ()
    partitioned_by: KeyLevel | None = None
    """The last stage in its partition keys, or `configuration`. None for no partitions."""
    applies: Callable[[CorpusConfig, Configuration], bool] = lambda config, configuration: True
    """Whether a configuration needs the asset."""
    table: Callable[[Workspace, Key], Table] | None = None
    columns: Iterable[pa.Field] = ()
    """The columns of its tables."""
    plan: Callable[[Workspace, Key], Plan] | None = None
    is_current: Callable[[Workspace, Key], bool] | None = None
    place: Callable[[Key], str] | None = None
    """Returns its file in the store, or the folder of its builds. None for a table or an input."""
    is_incomplete: Callable[[Workspace, Key], bool] = lambda workspace, key: False
    """Returns whether the asset lacks only failed judgements. A later run asks for them again."""
    has_new_inputs: Callable[[Workspace, Key], bool] = lambda workspace, key: False
    """Returns whether its inputs changed after its last build, in a run that then ended."""
    update: Callable[[Workspace, Key], Materialized] | None = None
    """Makes the asset in this process. None for assets with `build` and assets made on demand."""
    build: Callable[[Workspace, Key, Plan | None], Materialized] | None = None
    """Builds the rows of stale documents in this process, by the given plan or a new plan."""
    open_partition: Callable[[Workspace, Key], TablePartition] | None = None
    """Opens a partition of a table that is built from another table. None for any other asset."""
    shards: Shards | None = None
    """The functions for an executor that distributes its work. None if one step does all work."""
    cleanup: Literal["", "before", "after"] = ""
    """When its step removes unneeded files: before or after its own work, or never ("")."""
    made_from: Callable[[Workspace, Key], tuple[object, ...]]
    """Returns the inputs and settings that determine its content."""
    state: Callable[[Workspace, Key], str] | None = None
    """Returns an identifier of the checked content, by default the version of its table."""
    checks: tuple[Check, ...] = ()
    made_by: str = ""
    """The asset whose Dagster job also makes it, or "". A separate run would take longer."""
    needs_all_inputs: bool = True
    """Whether one failed input stops the asset. If False, the other inputs suffice."""
    on_demand: bool = False
    """Whether only a person starts the asset. Plans never contain such an asset."""
    of_files: bool = False
    """Whether the asset is made from files that people change."""
    watched: bool = False
    """Whether its age is monitored. A scheduled run reports such an asset even if it is current."""
    now: Callable[[Workspace], Materialized | None] | None = None
    """Returns its current result. None if only its step can change the result."""
    priority: int = 0
    """Runs of a higher priority leave Dagster's queue first."""
    kind: str
    about: str
    """A description of its content, for Dagster's UI."""
    activity: str
    """A description of its work, for plans."""
    unit: str = ""
    """The unit of its progress. The unit `texts` counts texts for an embedding model."""
    total: Callable[[Workspace, Key], int] | None = None
    """Returns the amount of work in `unit`. None if the asset's plan contains this number."""
    shown_counts: tuple[tuple[str, str], ...] = ()
    """Pairs of a metadata key and a word. The command line shows the key's number with the word."""
    methods: Callable[[CorpusConfig, Key], Iterable[Settings | str]] = lambda config, key: ()
    """Returns the methods of a partition, as settings or as a name and a version.

    For the empty key, returns the methods that all partitions have in common.
    """
    models: Callable[[CorpusConfig, Key], Sequence[ModelSettings]] = lambda config, key: ()
    """Returns the local and remote models that its step calls, except the reranker."""
    runs_dry: bool = False
    """Whether a plan counts the calls of its steps by dry runs."""

    def keys(self, config: CorpusConfig, chosen: Iterable[Configuration]) -> list[Key]:
        """Return the keys of the partitions that the `chosen` configurations need, in order."""
        level = self.partitioned_by
        return list(dict.fromkeys(c.key.at(level) for c in chosen if self.applies(config, c)))

    def key(self, config: CorpusConfig, partition: str | None) -> Key:
        """Return the key of a partition. The corpus file may lack its variants."""
        if self.partitioned_by == "configuration" and partition:
            return config.configuration(partition).key
        return Key.parse(partition or "")

    def code_version(self, config: CorpusConfig, key: Key) -> str:
        """Return the names and versions of `methods`, or "" if there are none."""
        found = self.methods(config, key)
        return ", ".join(
            m if isinstance(m, str) else f"{type(m).__name__} {m.code_version}" for m in found
        )

    @property
    def has_blocking_check(self) -> bool:
        """Return whether the asset has a blocking check."""
        return any(check.blocking for check in self.checks)

    @property
    def description(self) -> str:
        """Return the description for Dagster's UI."""
        level = self.partitioned_by
        if level is None:
            return self.about
        parts = ".".join(LEVELS[: LEVELS.index(level) + 1])
        kind = "configuration" if level == "configuration" else f"`{parts}`"
        return f"{self.about} A partition is a {kind}."

    def state_of(self, workspace: Workspace, key: Key) -> str:
        """Return an identifier of the current content, or "" if its table does not exist."""
        if self.state is not None:
            return self.state(workspace, key)
        assert self.table is not None
        table = self.table(workspace, key)
        return f"{table.name} {table.version}" if table.exists() else ""
