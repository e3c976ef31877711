"""What the registry says of one asset: a row."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rag_pipeline.config import (
    LEVELS,
    ChatSettings,
    Configuration,
    CorpusConfig,
    EmbeddingSettings,
    Key,
    KeyLevel,
)
from rag_pipeline.indexing import Plan
from rag_pipeline.pipeline.facts import Materialized
from rag_pipeline.pipeline.sharding import Shards
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace

ModelSettings = ChatSettings | EmbeddingSettings


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold of an asset: what follows waits for a blocking check to pass."""

    name: str
    judge: Callable[[Workspace, Key], CheckResult]
    blocking: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One asset. Its functions take the key of one of its partitions, or the empty key.

    An asset of documents' rows has a `table`, and a `plan` of what is stale in it; of any other,
    `is_current` says whether it is made from its inputs as they are.
    """

    name: str
    reads: tuple[str, ...] = ()
    by: KeyLevel | None = None
    """What its partitions are made with; None without partitions."""
    applies: Callable[[CorpusConfig, Configuration], bool] = lambda config, configuration: True
    """Whether a configuration needs it."""
    table: Callable[[Workspace, Key], Table] | None = None
    plan: Callable[[Workspace, Key], Plan] | None = None
    is_current: Callable[[Workspace, Key], bool] | None = None
    place: Callable[[Key], str] | None = None
    """Its file in the store, or the folder of its builds; None for a table or an input."""
    is_incomplete: Callable[[Workspace, Key], bool] = lambda workspace, key: False
    """Whether all that it lacks is judgements that failed: another run asks for them again."""
    update: Callable[[Workspace, Key], Materialized] | None = None
    """Makes it in this process; None for what is made on demand, elsewhere."""
    sweep: Literal["", "before", "after"] = ""
    """When what the store no longer needs is freed: before it is made, or after."""
    alerts: Callable[[CorpusConfig], Mapping[str, str]] = lambda config: {}
    """Names and descriptions of the figures of it that the corpus file sets limits to."""
    made_from: Callable[[Workspace, Key], tuple[object, ...]]
    """What it would be made from, as far as that decides about the result."""
    state: Callable[[Workspace, Key], str] | None = None
    """What its checks judge, told from any other state of it; by default its table's version."""
    checks: tuple[Check, ...] = ()
    sharded: bool = False
    """Whether it is built in shards of documents (`indexing.open_stage`), wherever they run."""
    shards: Shards | None = None
    """How its work is handed out where an executor does that; None for one step."""
    made_with: str = ""
    """The asset whose job makes it too, where its own step would cost more than making it."""
    holds_back: bool = True
    """Whether it waits where one of the partitions that it reads can't be built."""
    on_demand: bool = False
    """Whether only somebody who asks for it gets it: it is in no plan."""
    of_files: bool = False
    """Whether it is made from files that people change, not from settings and other assets."""
    watched: bool = False
    """Whether its age is watched: a scheduled run reports it even where nothing was to be made."""
    priority: int = 0
    """Runs of a higher one leave Dagster's queue first."""
    kind: str
    about: str
    """What it holds, for the UI."""
    doing: str
    """What making it does, for plans."""
    unit: str = ""
    """What its progress is counted in; `texts` are those that an embedding model is sent."""
    total: Callable[[Workspace, Key], int] | None = None
    """Returns the amount of work in that unit, where no plan tells it."""
    words: tuple[tuple[str, str], ...] = ()
    """The numbers of its metadata that the command line shows, each with its word."""
    models: Callable[[CorpusConfig, Key], Sequence[ModelSettings]] = lambda config, key: ()
    """The models that making it calls, here or elsewhere; a run's reranker is left out."""
    runs_dry: bool = False
    """Whether a forecast makes it of each configuration dry, to count its calls."""

    def keys(self, config: CorpusConfig, chosen: Iterable[Configuration]) -> list[Key]:
        """Return the partitions that some configurations need, in their order."""
        return list(dict.fromkeys(c.key.at(self.by) for c in chosen if self.applies(config, c)))

    def key(self, config: CorpusConfig, partition: str | None) -> Key:
        """Return the key of a partition, which need not be listed in the corpus file."""
        if self.by == "configuration" and partition:
            return config.configuration(partition).key
        return Key.parse(partition or "")

    @property
    def is_judged(self) -> bool:
        """Return whether it has a blocking check."""
        return any(check.blocking for check in self.checks)

    @property
    def description(self) -> str:
        """Return what the UI says of it."""
        if self.by is None:
            return self.about
        parts = ".".join(LEVELS[: LEVELS.index(self.by) + 1])
        kind = "configuration" if self.by == "configuration" else f"`{parts}`"
        return f"{self.about} A partition is a {kind}."

    def state_of(self, workspace: Workspace, key: Key) -> str:
        """Return what tells the asset as it is now from any other state of it."""
        if self.state is not None:
            return self.state(workspace, key)
        assert self.table is not None
        table = self.table(workspace, key)
        return f"{table.name} {table.version}" if table.exists() else ""
